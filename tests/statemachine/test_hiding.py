"""What a message shows of a URL, and of what a driver says about it."""

import pytest

from hypothesis import given, reject, strategies as st
from sqlalchemy.engine import make_url

from jobfence.statemachine.hiding import without_password, without_secrets

PIECES = st.text(alphabet=" \t\n:/@%?&=#'\"\\[é4a", max_size=6)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("x://u:pw@h/db", "x://u:***@h/db"),
        ("x://:pw@h/db", "x://:***@h/db"),
        ("x://ann@srv:pw@h/db", "x://ann@srv:***@h/db"),
        ("x://u:two words@h/db", "x://u:***@h/db"),
        ("x://u:a\nb@h/db", "x://u:***@h/db"),
        ("x://u:p/w@h/db", "x://u:***@h/db"),
        ("x://u:p@s/s@h/db", "x://u:***@h/db"),
        ("x://h/db?password=two words&a=b", "x://h/db?password=***&a=b"),
        ("x://h/db?PassWord=pw", "x://h/db?PassWord=***"),
        ("x://h/db?p%61ssword=pw", "x://h/db?p%61ssword=***"),
        ("x://h:1/db?user=u&ssl_pwd=pw", "x://h:1/db?user=u&ssl_pwd=***"),
        # SQLAlchemy takes what stands between ":" and "@" for a password here too.
        ("x://me@h:5/a:b@c", "x://me@h:***@c"),
        ("x://u@h:5/db?a=b", "x://u@h:5/db?a=b"),
        ("sqlite:////tmp/a:b@c.db", "sqlite:////tmp/a:b@c.db"),
        ("no url", "no url"),
    ],
)
def test_the_passwords_of_a_url_are_hidden_and_nothing_else(
    url: str, shown: str
) -> None:
    assert without_password(url) == shown
    assert without_password(shown) == shown


@given(user=PIECES, before=PIECES, after=PIECES, tail=PIECES)
def test_whatever_sqlalchemy_takes_for_a_password_is_hidden(
    user: str, before: str, after: str, tail: str
) -> None:
    url = f"x://{user}:{before}SESAME{after}@h/{tail}"
    try:
        password = make_url(url).password
    except ValueError:  # of a port
        reject()
    if password is None or "SESAME" not in password:
        reject()
    assert "SESAME" not in without_password(url)
    for text in (url, f"at {url}: no", f"it said {password}", repr(url)):
        assert "SESAME" not in without_secrets(text, [url])
        assert "SESAME" not in without_secrets(" ".join(text.split()), [url])


@pytest.mark.parametrize(
    ("text", "urls", "shown"),
    [
        ("at postgresql://u:pw@h/db:", [], "at postgresql://u:***@h/db:"),
        ("postgresql://u:a:b@c@h/db", [], "postgresql://u:***@h/db"),
        ("x://ann@srv:pw@h/db: no", [], "x://ann@srv:***@h/db: no"),
        ("x://u:two words@h/db: no", [], "x://u:***@h/db: no"),
        ("postgresql://u@h/db", [], "postgresql://u@h/db"),
        ("x://h/db?Password=pw&a=b", [], "x://h/db?Password=***&a=b"),
        ("x://h/db?sslpassword=pw", [], "x://h/db?sslpassword=***"),
        ("bad: host=h password=pw user=u", [], "bad: host=h password=*** user=u"),
        (r"bad: password='a b\'c' user=u", [], "bad: password=*** user=u"),
        ("it said pw", ["x://u:pw@h"], "it said ***"),
        ("it said p/w and p%2Fw", ["x://u:p%2Fw@h"], "it said *** and ***"),
        ("it said p%2Fw", ["x://u:p/w@h"], "it said ***"),
        ("it said a b and a+b", ["x://u:a b@h"], "it said *** and ***"),
        ("it said a  b and a b", ["x://u:a  b@h"], "it said *** and ***"),
        (r"it said 'a\\b'", ["x://u:a\\b@h"], "it said '***'"),
        ("no host c@h, no host c", ["x://u:p@c@h"], "no host ***@h, no host ***"),
        ("it said pw", ["x://h?password=pw"], "it said ***"),
        ("it said a b", ["x://h?password=a+b"], "it said ***"),
        ("it said pw, qw", ["x://u:pw@h?password=qw"], "it said ***, ***"),
        ("no host c, no d", ["x://u:p@c/d@h"], "no host ***, no ***"),
        ("it said a %2F+b", ["x://u:a%20%2F%2Bb@h"], "it said ***"),
        ("it said a/%3A", ["x://u:a%2F:@h"], "it said ***"),
        ("it said a%2F%3A", ["x://u:a/:@h"], "it said ***"),
        ("it said a+%3A", ["x://u:a :@h"], "it said ***"),
        ("it said \udce9:", ["x://u:\udce9:@h"], "it said ***"),
        (r"it said 'é\nb'", ["x://u:é%0Ab@h"], "it said '***'"),
        (r"it said '\xe9\nb'", ["x://u:é%0Ab@h"], "it said '***'"),
        (r"""it said "é'\nb" """, ["x://u:é'%0Ab@h"], 'it said "***" '),
        (r"""it said "\xe9'\nb" """, ["x://u:é'%0Ab@h"], 'it said "***" '),
        (r"""it said '"é\'\nb'""", ["x://u:é'%0Ab@h"], """it said '"***'"""),
        (r"""it said '"\xe9\'\nb'""", ["x://u:é'%0Ab@h"], """it said '"***'"""),
        ("it said 'a\\'\nb\\\\c'", ["x://u:a'%0Ab\\c@h"], "it said '***'"),
        ("one two", ["x://u:one@h", "x://u:two@h"], "*** ***"),
        ("pw-x, pw", ["x://u:pw@h", "x://u:pw-x@h"], "***, ***"),
        ("postgresql: no", ["x://u:postgres@h"], "postgresql: no"),
        ("mypostgres: no", ["x://u:postgres@h"], "mypostgres: no"),
        ("it is-pw", ["x://u:-pw@h"], "it is***"),
        ("pw-it is", ["x://u:pw-@h"], "***it is"),
        ("SELECT *, X", ["x://u:*@h", "x://u:X@h"], "SELECT *, ***"),
        ("nothing", ["x://u:@h", "x://u: @h", ""], "nothing"),
    ],
)
def test_secrets_are_hidden_in_a_text(text: str, urls: list[str], shown: str) -> None:
    assert without_secrets(text, urls) == shown


@pytest.mark.parametrize(
    "text",
    [
        "x://u@h:3306/db: access denied for user 'u'@'h'",
        "x://h:3306/db: access denied for user 'u'@'h'",
        "x://h:3306: access denied for user 'u'@'h'",
        "x://[::1]:3306/db: access denied for user 'u'@'h'",
        "see https://example.org: or write to me@example.org",
    ],
)
def test_an_at_sign_further_on_in_a_text_ends_no_password(text: str) -> None:
    assert without_secrets(text) == text
