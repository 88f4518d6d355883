"""Rule B3: recording a failure never fails because of the error's text."""

import json
import math
import time

from collections.abc import Iterator

import pytest

from hypothesis import given, strategies as st

from jobfence.statemachine.errortext import MAX_ERROR_BYTES, error_text, fit

CUT = "\n… cut …\n"


class Explosive(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class ExitsWhenShown(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no text")


class MutedMeta(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise RuntimeError("no name")


class Muted(metaclass=MutedMeta):
    def __repr__(self) -> str:
        raise RuntimeError("no text")


class Liar(str):
    __slots__ = ()

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __len__ = replace = encode = __getitem__ = __str__  # type: ignore[assignment]


class OddRepr:
    def __repr__(self) -> str:
        return Liar("odd\0")


class NoClass:
    @property  # type: ignore[misc]
    def __class__(self) -> type:
        raise RuntimeError("no class")

    def __repr__(self) -> str:
        return "plain"


def assert_storable(text: str) -> None:
    assert type(text) is str
    assert len(text.encode()) <= MAX_ERROR_BYTES
    assert "\0" not in text


def fails_inside() -> None:
    raise KeyError("inner")


def fails() -> None:
    try:
        fails_inside()
    except KeyError as inner:
        raise ValueError("outer é") from inner


def test_an_exception_gives_its_traceback_and_its_cause() -> None:
    with pytest.raises(ValueError, match="outer") as caught:
        fails()
    text = error_text(caught.value)
    assert text.startswith("Traceback (most recent call last):")
    assert "KeyError: 'inner'" in text
    assert "direct cause" in text
    assert "in fails_inside" in text
    assert text.endswith("ValueError: outer é\n")


def test_an_exception_that_was_never_raised_gives_its_name_and_text() -> None:
    assert error_text(ValueError("plain")) == "ValueError: plain\n"


def test_an_interrupt_is_an_error_text_like_any_other() -> None:
    assert error_text(SystemExit(3)) == "SystemExit: 3\n"
    assert error_text(KeyboardInterrupt()) == "KeyboardInterrupt\n"


def test_a_string_is_taken_as_it_is() -> None:
    assert error_text("boom é 😀") == "boom é 😀"
    assert error_text("") == ""


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (None, "null"),
        (7, "7"),
        ({"b": "é", "a": [1]}, '{"a": [1], "b": "é"}'),
        ([math.nan], "[NaN]"),
        ({1, 2}, "{1, 2}"),
        ({1: "a", "b": 2}, "{1: 'a', 'b': 2}"),
        (b"bytes", "b'bytes'"),
        (ValueError, "<class 'ValueError'>"),
        ({"\0": "\ud800"}, r'{"\u0000": "' + '\ufffd"}'),
    ],
    ids=ascii,
)
def test_anything_else_gives_its_json_or_else_its_repr(
    error: object, text: str
) -> None:
    assert error_text(error) == text


def test_a_structure_that_holds_itself_gives_its_repr() -> None:
    loop: list[object] = [1]
    loop.append(loop)
    assert error_text(loop) == "[1, [...]]"
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert "without a text: <RecursionError object" in error_text(deep)


@pytest.mark.parametrize(
    ("error", "part"),
    [
        (Explosive(), "Explosive: <exception str() failed>"),
        (ExitsWhenShown(), "ExitsWhenShown: <exception str() failed>"),
        (Unprintable(), "Unprintable object at "),
        (Muted(), "Muted object at "),
        ([Unprintable()], "without a text: <RuntimeError object"),
        (Liar("liar"), "liar"),
        (OddRepr(), "odd\ufffd"),
        (NoClass(), "NoClass object at "),
        (ExceptionGroup("many", [Explosive(), ValueError("x")]), "ValueError: x"),
    ],
    ids=lambda value: type(value).__qualname__,
)
def test_B3_an_error_that_cannot_be_shown_is_recorded_all_the_same(
    error: object, part: str
) -> None:
    text = error_text(error)
    assert part in text
    assert_storable(text)


def test_B3_a_deep_recursion_and_a_long_chain_are_recorded() -> None:
    def down(n: int) -> int:
        return down(n + 1) + 1

    with pytest.raises(RecursionError) as deep:
        down(0)
    assert "RecursionError: maximum recursion depth" in error_text(deep.value)
    chain: BaseException = ValueError("first")
    for _ in range(2000):
        following = ValueError("next")
        following.__cause__ = chain
        chain = following
    assert_storable(error_text(chain))


def test_F58_nul_and_lone_surrogates_are_replaced() -> None:
    assert error_text("a\0b\ud800c\udfff") == "a\ufffdb\ufffdc\ufffd"
    assert error_text(ValueError("\ud800")) == "ValueError: \ufffd\n"
    assert error_text("\ud83d\ude00") == "\ufffd\ufffd"
    assert error_text("😀") == "😀"


def test_F61_a_text_of_emoji_is_cut_between_characters() -> None:
    text = error_text("😀" * 70_000)
    assert_storable(text)
    head, _, tail = text.partition(CUT)
    assert set(head) == set(tail) == {"😀"}
    assert MAX_ERROR_BYTES - 8 <= len(text.encode()) <= MAX_ERROR_BYTES


@pytest.mark.parametrize("lead", range(5))
@pytest.mark.parametrize("mark", ["x", "é", "€", "😀"])
def test_F61_a_cut_through_any_character_leaves_valid_text(
    mark: str, lead: int
) -> None:
    text = error_text("<" * lead + mark * 70_000 + ">" * lead)
    assert_storable(text)
    assert set(text) == set("<" * lead + mark + ">" * lead + CUT)
    assert text.startswith("<" * lead + mark)
    assert text.endswith(mark + ">" * lead)
    assert len(text.encode()) > MAX_ERROR_BYTES - 12


def test_F61_a_long_text_keeps_its_beginning_and_its_end() -> None:
    text = error_text("begin" + "-" * 200_000 + "end")
    assert text.startswith("begin-")
    assert text.endswith("-end")
    assert CUT in text
    assert len(text) + len(CUT.encode()) - len(CUT) >= MAX_ERROR_BYTES - 1
    assert_storable(text)


@pytest.mark.parametrize("mark", ["x", "é", "😀", "\0", "\ud800"], ids=ascii)
def test_F61_twenty_megabytes_are_recorded_without_being_walked_through(
    mark: str,
) -> None:
    long = mark * 20_000_000
    before = time.process_time()
    text = error_text(long)
    spent = time.process_time() - before
    assert_storable(text)
    # Walking through it takes more than a second here; the bound is for slow machines.
    assert spent < 0.5


@pytest.mark.parametrize("size", [MAX_ERROR_BYTES - 1, MAX_ERROR_BYTES])
def test_a_text_up_to_the_limit_is_whole(size: int) -> None:
    assert fit("x" * size) == "x" * size
    assert fit("é" * (size // 2)) == "é" * (size // 2)


def test_a_text_over_the_limit_by_a_byte_is_cut() -> None:
    for text in ("x" * (MAX_ERROR_BYTES + 1), "é" * (MAX_ERROR_BYTES // 2) + "x"):
        assert CUT in fit(text)
        assert_storable(fit(text))


def test_a_text_that_only_grows_over_the_limit_by_its_replacements_is_cut() -> None:
    assert_storable(fit("\0" * MAX_ERROR_BYTES))
    assert CUT in fit("\0" * MAX_ERROR_BYTES)
    assert fit("\0" * (MAX_ERROR_BYTES // 3)) == "\ufffd" * (MAX_ERROR_BYTES // 3)


any_text = st.text(alphabet=st.characters(codec=None, categories=None), max_size=50)


@given(any_text, st.integers(min_value=1, max_value=5000))
def test_B3_any_text_is_made_storable_and_stays_as_it_is_the_second_time(
    part: str, times: int
) -> None:
    text = fit(part * times)
    assert_storable(text)
    assert fit(text) == text


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | any_text,
        lambda inner: (
            st.lists(inner) | st.dictionaries(any_text, inner) | st.tuples(inner)
        ),
        max_leaves=5,
    )
)
def test_B3_anything_json_like_is_recorded(error: object) -> None:
    assert_storable(error_text(error))


def test_an_iterator_is_shown_and_not_used_up() -> None:
    numbers: Iterator[int] = iter([1, 2])
    assert "list_iterator" in error_text(numbers)
    assert list(numbers) == [1, 2]


def test_an_error_that_is_json_can_be_read_back() -> None:
    assert json.loads(error_text({"code": 5, "why": "é"})) == {"code": 5, "why": "é"}
