"""
Passwords kept out of messages: errors reach logs and screens.

What counts is how SQLAlchemy reads a URL: the user's name ends at the first ":" and may
hold "@", and the password ends at the first "@" and may hold anything else. A password
with "@" in it is then cut, and its rest taken for a host, which drivers repeat: all up to
the last "@" is hidden.
"""

import re

from collections.abc import Iterable
from urllib.parse import quote, quote_plus, unquote, unquote_plus

HIDDEN = "***"

_TELLING = r"passw|pwd|secret|token"
_LOGIN = re.compile(r"(?<=://)([^:/]*):(.*)@", re.DOTALL)
_PARAMETER = re.compile(r"([?&])([^=&]*)=([^&]*)")

# In a text nobody knows where a URL ends. One without spaces ends with its word.
_LOGIN_IN_WORD = re.compile(r"(?<=://)([^\s:/]*):\S*@")
# Behind a host and a port the next "@" belongs to something else: user 'a'@'b'.
_PORT = r"\d+(?:[/?]\S*)?(?:[\s.,:;)'\"]|$)"
_LOGIN_WITH_SPACES = re.compile(
    rf"(?<=://)([^\s:/@\[]*):(?!\s|{_PORT})(?:(?!://)[^@\n])*@"
)
_PARAMETER_IN_TEXT = re.compile(
    rf"((?<!\w)\w*(?:{_TELLING})\w*=)('(?:[^'\\]|\\.)*'|[^&\s]+)", re.IGNORECASE
)

# What is not encoded: by SQLAlchemy in a password, by urllib in a path, by the careful.
_KEPT = (" +", "/", "")


def without_password(url: str) -> str:
    """Hide the passwords of one URL."""
    url = _LOGIN.sub(rf"\1:{HIDDEN}@", url)
    return _PARAMETER.sub(_hide_value, url)


def without_secrets(text: str, urls: Iterable[str] = ()) -> str:
    """
    Hide the passwords of every URL in a text, and those of these anywhere in it.

    A driver's message may quote a password by itself. It is looked for as a word of its
    own: `postgres` is a common one, and no secret inside of `postgresql`.
    """
    secrets: set[str] = set()
    for url in filter(None, urls):
        text = text.replace(url, without_password(url))
        secrets |= _secrets(url)
    if secrets:
        # Backwards: what goes on comes before what it begins with.
        in_turn = map(_as_word, sorted(secrets, reverse=True))
        text = re.sub("|".join(in_turn), HIDDEN, text)
    text = _LOGIN_IN_WORD.sub(rf"\1:{HIDDEN}@", text)
    text = _LOGIN_WITH_SPACES.sub(rf"\1:{HIDDEN}@", text)
    return _PARAMETER_IN_TEXT.sub(rf"\1{HIDDEN}", text)


def _hide_value(parameter: re.Match[str]) -> str:
    mark, name, _ = parameter.groups()
    return f"{mark}{name}={HIDDEN}" if _is_telling(name) else parameter[0]


def _is_telling(name: str) -> bool:
    return re.search(_TELLING, unquote_plus(name), re.IGNORECASE) is not None


def _secrets(url: str) -> set[str]:
    """Return what must not be shown of a URL, in every form that a text may give it."""
    found = [
        parameter[3]
        for parameter in _PARAMETER.finditer(url)
        if _is_telling(parameter[2])
    ]
    if login := _LOGIN.search(url):
        password, _, rest = login[2].partition("@")
        found += [login[2], password, *re.split("[@/:?]", rest)]
    return {form for each in found for form in _forms(each) if form.strip("* ")}


def _forms(secret: str) -> set[str]:
    """Return a secret as it was given, decoded, encoded, escaped, and on one line."""
    plain = {secret, unquote(secret), unquote_plus(secret)}
    forms = set(plain)
    for each in plain:
        forms |= {quote(each, kept, errors="replace") for kept in _KEPT}
        forms.add(quote_plus(each, errors="replace"))
        # Of a text with both quotation marks Python escapes the single one.
        told = {repr(each)[1:-1], ascii(each)[1:-1]}
        told |= {repr(f'"{each}')[2:-1], ascii(f'"{each}')[2:-1]}
        forms |= told | {" ".join(form.split()) for form in (each, *told)}
        forms.add(each.replace("\\", "\\\\").replace("'", "\\'"))  # as libpq writes it
    return forms


def _as_word(secret: str) -> str:
    before = r"(?<!\w)" if re.match(r"\w", secret) else ""
    after = r"(?!\w)" if re.search(r"\w\Z", secret) else ""
    return f"{before}{re.escape(secret)}{after}"
