"""Rules E2 and E3: one text for one value, and back again without loss."""

import decimal
import enum
import hashlib
import json
import math
import random
import sys

from collections import OrderedDict, UserDict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import pytest

from hypothesis import example, given, strategies as st

from jobfence.statemachine.canonical import (
    JSON,
    MAX_DEPTH,
    MAX_TEXT_BYTES,
    arguments,
    canonical,
    digest,
    parse,
)
from jobfence.statemachine.errors import InvalidOption

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=-(10**400), max_value=10**400)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
values: st.SearchStrategy[JSON] = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5)
    ),
    max_leaves=20,
)


class Text(str):
    """A string that answers everything wrongly but what it is."""

    __slots__ = ()

    def __str__(self) -> str:
        return "something else"

    def __contains__(self, part: object) -> bool:
        return False


class SameText(str):
    """Strings that spell the same and yet are two keys of one mapping."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other


class Colour(str, enum.Enum):  # noqa: UP042  the older way, whose str() is its name
    RED = "red"


class Number(enum.IntEnum):
    SEVEN = 7


class Whole(int):
    __slots__ = ()

    def __int__(self) -> int:
        return 99

    __index__ = __int__

    def __repr__(self) -> str:
        return "a number"


class Real(float):
    __slots__ = ()

    def __float__(self) -> float:
        return 99.0

    def __repr__(self) -> str:
        return "a number"


class LikeAnInteger:
    """As numpy's integers are: no int, though one can be made of it."""

    def __index__(self) -> int:
        return 1

    __int__ = __index__


class Point(NamedTuple):
    x: int
    y: int


def exactly(value: object) -> object:
    """Make what equality hides visible: types, the sign of zero, all digits."""
    if isinstance(value, dict):
        return {key: exactly(each) for key, each in value.items()}
    if isinstance(value, list):
        return [exactly(each) for each in value]
    return (type(value).__name__, repr(value))


def shuffled(value: JSON, order: random.Random) -> JSON:
    if isinstance(value, dict):
        items = list(value.items())
        order.shuffle(items)
        return {key: shuffled(each, order) for key, each in items}
    if isinstance(value, list):
        return [shuffled(each, order) for each in value]
    return value


def nested(depth: int) -> list[object]:
    value: list[object] = []
    for _ in range(depth - 1):
        value = [value]
    return value


@given(values)
@example(-0.0)
@example([0, 0.0, -0.0, False, None, "", [], {}])
@example(5e-324)
@example(sys.float_info.max)
@example(2**63)
@example("\0 \x7f \u2028 \U0001f600 e\u0301 \xe9")
@example({"": {"\ufeff": "\uffff"}})
def test_E2_a_value_comes_back_exactly_as_it_was(value: JSON) -> None:
    text = canonical(value, "args")
    assert exactly(parse(text)) == exactly(value)
    assert exactly(json.loads(text)) == exactly(value)


@given(values)
def test_E2_the_text_is_ascii_and_its_own_canonical_form(value: JSON) -> None:
    text = canonical(value, "args")
    assert text.isascii()
    assert canonical(parse(text), "args") == text


@given(values, st.randoms(use_true_random=False))
def test_E3_the_order_of_keys_is_no_part_of_the_text(
    value: JSON, order: random.Random
) -> None:
    assert canonical(shuffled(value, order), "x") == canonical(value, "x")


@given(values, values)
def test_E3_two_values_have_one_text_only_if_they_are_the_same(
    one: JSON, other: JSON
) -> None:
    same = canonical(one, "x") == canonical(other, "x")
    assert same == (exactly(one) == exactly(other))


def test_E2_the_text_is_written_one_way() -> None:
    value = {"b": [1, 1.0, True, None], "a": {"é": "\0"}, "B": "\U0001f600"}
    assert canonical(value, "x") == (
        r'{"B":"\ud83d\ude00","a":{"\u00e9":"\u0000"},"b":[1,1.0,true,null]}'
    )


@pytest.mark.parametrize(
    ("given_value", "plain"),
    [
        (Text("é"), "é"),
        (Colour.RED, "red"),
        (Number.SEVEN, 7),
        (Whole(3), 3),
        (Real(1.5), 1.5),
        ((1, (2,)), [1, [2]]),
        (Point(1, 2), [1, 2]),
        (OrderedDict(b=1, a=2), {"a": 2, "b": 1}),
        (UserDict({"k": Colour.RED}), {"k": "red"}),
        ({Colour.RED: 1}, {"red": 1}),
        ({Text("key"): 1}, {"key": 1}),
    ],
    ids=repr,
)
def test_E2_subclasses_are_stored_as_what_they_are_and_not_as_they_print(
    given_value: object, plain: JSON
) -> None:
    text = canonical([given_value], "args")
    assert exactly(parse(text)) == exactly([plain])


@pytest.mark.parametrize(
    ("args", "option", "rule"),
    [
        ([{"x": math.nan}], "args[0]['x']", "must be a finite number"),
        ([math.inf], "args[0]", "must be a finite number"),
        ([[1, [2, -math.inf]]], "args[0][1][1]", "must be a finite number"),
        ([b"bytes"], "args[0]", "must be a JSON value"),
        ([bytearray(b"bytes")], "args[0]", "must be a JSON value"),
        ([1, {2}], "args[1]", "must be a JSON value"),
        ([frozenset({2})], "args[0]", "must be a JSON value"),
        ([decimal.Decimal("1.5")], "args[0]", "must be a JSON value"),
        ([1j], "args[0]", "must be a JSON value"),
        ([object], "args[0]", "must be a JSON value"),
        pytest.param([iter([1])], "args[0]", "must be a JSON value", id="iterator"),
        ([range(3)], "args[0]", "must be a JSON value"),
        pytest.param([LikeAnInteger()], "args[0]", "must be a JSON value", id="index"),
        ([{1: 2}], "a key of args[0]", "must be a string"),
        ([{"a": {None: 2}}], "a key of args[0]['a']", "must be a string"),
        ([{b"a": 2}], "a key of args[0]", "must be a string"),
        (["\ud800"], "args[0]", "must not contain a lone surrogate"),
        ([{"x": "a\udfffb"}], "args[0]['x']", "must not contain a lone surrogate"),
        ([0, Text("\ud800")], "args[1]", "must not contain a lone surrogate"),
        ([{"\ud800": 1}], "a key of args[0]", "must not contain a lone surrogate"),
        (
            [{SameText("k"): 1, SameText("k"): 2}],
            "a key of args[0]",
            "must not be there twice",
        ),
    ],
    ids=repr,
)
def test_E2_what_json_cannot_carry_is_refused_by_its_path(
    args: list[object], option: str, rule: str
) -> None:
    with pytest.raises(InvalidOption) as caught:
        arguments(args, {})
    assert (caught.value.option, caught.value.rule) == (option, rule)
    assert str(caught.value).startswith(f"{option} {rule}, not ")
    with pytest.raises(InvalidOption) as caught:
        arguments([], {"k": args})
    assert caught.value.option == option.replace("args", "kwargs['k']")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_F59_nan_and_infinity_are_a_value_error_that_names_the_path(
    value: float,
) -> None:
    with pytest.raises(ValueError, match=r"^args\[0\]\['x'\] must be a finite number"):
        arguments([{"x": value}], {})


def test_F58_a_lone_surrogate_in_the_arguments_is_a_value_error() -> None:
    with pytest.raises(ValueError, match=r"^kwargs\['x'\] must not contain a lone"):
        arguments([], {"x": "\ud800"})


def test_E2_an_integer_beyond_pythons_text_limit_is_refused_and_one_at_it_kept() -> (
    None
):
    digits = sys.get_int_max_str_digits()
    largest = 10**digits - 1
    assert parse(canonical([largest, -largest], "args")) == [largest, -largest]
    with pytest.raises(InvalidOption, match=rf"^args\[0\]\['n'\].*{digits}") as caught:
        arguments([{"n": 10**digits}], {})
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("container", [dict, list], ids=["mapping", "list"])
def test_E2_a_value_that_holds_itself_is_refused_as_too_deep(container: type) -> None:
    loop = container()
    if container is dict:
        loop["me"] = loop
    else:
        loop.append(loop)
    with pytest.raises(
        InvalidOption, match="must not nest deeper than 200 levels"
    ) as e:
        arguments([1, loop], {})
    assert e.value.option.startswith("args[1][")
    assert len(str(e.value)) < 1000


@pytest.mark.parametrize("inner", [[], {}, [1], {"k": "v"}], ids=repr)
def test_E2_nesting_is_allowed_up_to_the_limit_and_not_beyond(inner: JSON) -> None:
    deepest: object = inner
    for _ in range(MAX_DEPTH - 1):
        deepest = [deepest]
    assert parse(canonical(deepest, "args")) == deepest
    with pytest.raises(InvalidOption, match=f"deeper than {MAX_DEPTH} levels"):
        canonical([deepest], "args")


def test_E2_the_same_object_twice_is_no_loop() -> None:
    twin = ["x"]
    assert canonical([twin, twin], "args") == '[["x"],["x"]]'


def test_E1_a_huge_key_does_not_make_a_huge_message() -> None:
    key = "k" * 500_000
    with pytest.raises(InvalidOption) as caught:
        arguments([{key: {key: {key: {key: {key: b""}}}}}], {})
    assert caught.value.option.startswith("args[0]['kkk")
    assert "…" in caught.value.option
    assert len(str(caught.value)) < 1000
    with pytest.raises(InvalidOption) as caught:
        arguments([{key + "\ud800": 1}], {})
    assert len(str(caught.value)) < 1000


def test_E6_arguments_may_have_a_mebibyte_of_text_and_not_a_byte_more() -> None:
    spare = len('[""]{"k":"é"}'.replace("é", "\\u00e9"))
    longest = "x" * (MAX_TEXT_BYTES - spare)
    args_text, kwargs_text, _ = arguments([longest], {"k": "é"})
    assert len(args_text) + len(kwargs_text) == MAX_TEXT_BYTES
    with pytest.raises(InvalidOption) as caught:
        arguments([longest + "x"], {"k": "é"})
    assert (caught.value.option, caught.value.value) == (
        "args and kwargs",
        MAX_TEXT_BYTES + 1,
    )
    assert caught.value.rule == "must be at most 1048576 bytes of JSON"


@pytest.mark.parametrize("args", ["text", b"bytes", {1}, {"a": 1}, iter([]), 1, None])
def test_E1_args_must_be_a_list_or_a_tuple(args: object) -> None:
    with pytest.raises(InvalidOption, match=r"^args must be a list or tuple"):
        arguments(args, {})


@pytest.mark.parametrize("kwargs", ["text", [], [("a", 1)], 1, {"a"}])
def test_E1_kwargs_must_be_a_mapping(kwargs: object) -> None:
    with pytest.raises(InvalidOption, match=r"^kwargs must be a mapping"):
        arguments([], kwargs)


def test_E3_the_digest_is_sha256_of_both_texts_and_nothing_else() -> None:
    args_text, kwargs_text, both = arguments((1, "é"), {"b": 1, "a": None})
    assert (args_text, kwargs_text) == (r'[1,"\u00e9"]', '{"a":null,"b":1}')
    expected = hashlib.sha256(rb'[[1,"\u00e9"],{"a":null,"b":1}]').hexdigest()
    assert both == expected == arguments([1, "é"], {"a": None, "b": 1})[2]
    assert len(both) == 64
    assert digest("") == hashlib.sha256().hexdigest()


def test_E3_what_stands_in_args_is_not_what_stands_in_kwargs() -> None:
    digests = {
        arguments(args, kwargs)[2]
        for args, kwargs in [([], {}), ([{}], {}), ([], {"a": 1}), ([{"a": 1}], {})]
    }
    assert len(digests) == 4


class Broken(Mapping[str, object]):
    def __getitem__(self, key: str) -> object:
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        raise OSError("gone")

    def __len__(self) -> int:
        return 1


def test_an_error_of_the_callers_own_mapping_is_not_hidden() -> None:
    with pytest.raises(OSError, match="gone"):
        arguments([Broken()], {})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[1,]",
        "nul",
        "[NaN]",
        "[Infinity]",
        "[-Infinity]",
        "[1e999]",
        "[-1e999]",
        r'["\ud800"]',
        r'{"\uDFFF": 1}',
        '["\ud800"]',
        "[1] [2]",
        "[" * 100_000,
        '{"a":' * 100_000,
        "9" * 5000,
        "\ufeff[]",
    ],
    ids=lambda text: ascii(text[:12]),
)
def test_M21_a_text_that_no_enqueue_can_have_written_is_a_value_error(
    text: str,
) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        parse(text)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("name", ["NaN", "Infinity", "-Infinity"])
def test_M21_a_constant_that_is_not_json_is_named(name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name} is not JSON$"):
        parse(f"[{name}]")


def test_M21_a_number_that_no_float_holds_is_named() -> None:
    with pytest.raises(ValueError, match=r"^'-1e999' is too large a number$"):
        parse("[-1e999]")


@pytest.mark.parametrize("stored", [None, 1, b"[]", 1.5])
def test_M21_a_column_without_text_is_a_value_error(stored: object) -> None:
    with pytest.raises(ValueError, match=f"is {type(stored).__name__}, not text"):
        parse(stored)


def test_a_text_with_spaces_and_another_order_is_read_all_the_same() -> None:
    assert parse(' { "b" : 1.50 , "a" : "\\uD83D\\uDE00" } ') == {"b": 1.5, "a": "😀"}


def test_depth_is_counted_from_the_outermost_list() -> None:
    assert canonical(nested(3), "x") == "[[[]]]"
    assert parse(canonical(nested(MAX_DEPTH), "x")) == nested(MAX_DEPTH)
