"""A database's URL as messages may show it."""

from urllib.parse import unquote

from sqlalchemy.engine import URL

from jobfence.statemachine.hiding import without_password, without_secrets


def shown_url(url: URL) -> str:
    """Return a URL without its passwords, those among its parameters too."""
    return without_password(_as_given(url))


def without_secrets_of(url: URL, text: str) -> str:
    """Hide the passwords of a URL in a driver's text."""
    return without_secrets(text, [_as_given(url)])


def _as_given(url: URL) -> str:
    """
    Return a URL as text, with the database's name behind a password as it was given.

    The rest of a password with "@" and "/" in it is taken for such a name.
    """
    text = url.render_as_string(hide_password=False)
    if url.password is None:
        return text
    place, mark, parameters = text.partition("?")
    scheme, _, login, *name = place.split("/", 3)
    return "/".join([scheme, "", login, *map(unquote, name)]) + mark + parameters
