"""The E rules: every option, its default, its edges, and how a bad value is refused."""

import enum
import json
import math

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import get_type_hints

import pytest

from hypothesis import given, strategies as st

from jobfence.statemachine import options
from jobfence.statemachine.checks import LAST_MS
from jobfence.statemachine.errors import InvalidOption, shown
from jobfence.statemachine.options import (
    EnqueueOptions,
    JobRequest,
    Prepared,
    ScheduleOptions,
    prepare,
    prepare_scheduled,
)
from jobfence.statemachine.policy import Concurrency, QueuePolicy, resolve_concurrency

NAIVE = datetime(2026, 1, 1)  # noqa: DTZ001
LONG = "x" * 256


class Mode(str, enum.Enum):  # noqa: UP042  the older way, whose str() is its name
    PROCESS = "process"


class Level(enum.IntEnum):
    HIGH = 3


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


def bad(option: str, rule: str, *values: object) -> list[tuple[str, object, str]]:
    return [(option, value, rule) for value in values]


WHOLE = (True, 1.0, "1", math.nan, math.inf, 10**5000, Unprintable())
NO_TEXT = ("a\0b", "\udfff", b"bytes", 7, True, ["x"])
NO_TIME = (True, 1.0, "1", math.nan, math.inf, timedelta(1))
NO_MODE: tuple[object, ...] = (1, True, b"inline", [])
BAD_OPTIONS = [
    *bad("queue", "must be a non-empty string", "", "  "),
    *bad("queue", "must have at most 255 characters", LONG),
    *bad("queue", "must ", *NO_TEXT),
    *bad("priority", "must be an integer from -2147483648 to 2147483647", *WHOLE),
    *bad("priority", "must be an integer from", 2**31, -(2**31) - 1),
    *bad("max_retries", "must be an integer from 0 to 2147483647", *WHOLE),
    *bad("max_retries", "must be an integer from 0 to 2147483647", -1, 2**31),
    *bad("scheduled_at", "must be an aware datetime or integer ms", *NO_TIME),
    *bad("scheduled_at", "must be from 0", -1, LAST_MS + 1, 10**5000),
    *bad("scheduled_at", "must be a datetime with a time zone", NAIVE),
    *bad("deduplicate_while_queued", "must be True or False", 1, 0, "yes", None),
    *bad("idempotency_key", "must be a non-empty string", ""),
    *bad("idempotency_key", "must have at most 255 characters", LONG),
    *bad("idempotency_key", "must ", *NO_TEXT),
    *bad("timeout_ms", "must be an integer of milliseconds up to 2147483647", *WHOLE),
    *bad("timeout_ms", "must be an integer of milliseconds up to", 2**31, -1.5),
    *bad("execution_mode", "must be one of inline, process", "", "INLINE", "thread"),
    *bad("execution_mode", "must be one of inline, process", *NO_MODE),
]
BAD_NAMES = [
    *bad("name", "must be a non-empty string", ""),
    *bad("name", "must have at most 255 characters", LONG),
    *bad("name", "must ", *NO_TEXT, None),
]


def named(cases: list[tuple[str, object, str]]) -> list[str]:
    return [f"{option}-{shown(value)}" for option, value, _ in cases]


def test_A1_A7_A71_without_options_a_job_gets_the_defaults() -> None:
    found = prepare("mail")
    assert found == Prepared(
        name="mail",
        args_text="[]",
        kwargs_text="{}",
        args_digest=found.args_digest,
        queue="default",
        given_max_retries=None,
        scheduled_at_ms=None,
        concurrency=Concurrency(None, None),
        priority=None,
        deduplicate_while_queued=False,
        idempotency_key=None,
        timeout_ms=None,
        given_execution_mode=None,
    )
    assert found.max_retries == 10
    assert found.execution_mode == "inline"


@pytest.mark.parametrize(
    "option",
    sorted(get_type_hints(EnqueueOptions).keys() - {"deduplicate_while_queued"}),
)
def test_none_is_the_same_as_leaving_an_option_out(option: str) -> None:
    left_out: dict[str, object] = {option: None}
    assert prepare("mail", **left_out) == prepare("mail")
    assert prepare("mail", kwargs=None) == prepare("mail", kwargs={})


@pytest.mark.parametrize(
    ("option", "value", "rule"), BAD_OPTIONS, ids=named(BAD_OPTIONS)
)
def test_E1_a_bad_option_is_refused_by_name_value_and_rule(
    option: str, value: object, rule: str
) -> None:
    with pytest.raises(InvalidOption) as caught:
        prepare("mail", **{option: value})
    assert caught.value.option == option
    assert caught.value.value is value
    assert caught.value.rule.startswith(rule.replace("integer ms", "integer milli"))
    assert str(caught.value).startswith(f"{option} {caught.value.rule}, not ")
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(("option", "value", "rule"), BAD_NAMES, ids=named(BAD_NAMES))
def test_E1_a_bad_name_is_refused(option: str, value: object, rule: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        prepare(value)
    assert (caught.value.option, caught.value.value) == (option, value)
    assert caught.value.rule.startswith(rule)


@pytest.mark.parametrize("value", ["n", "x" * 255, "é" * 255, " ", "K", "k "])
def test_a_name_and_an_idempotency_key_are_kept_as_they_are(value: str) -> None:
    assert prepare(value, idempotency_key=value).name == value
    assert prepare("n", idempotency_key=value).idempotency_key == value


def test_A2_the_queue_is_trimmed() -> None:
    assert prepare("mail", queue=" uploads ").queue == "uploads"


def test_A4_an_explicit_pair_stands_whatever_the_queue_says() -> None:
    found = prepare(
        "mail", queue=" uploads ", concurrency_key="account:1", max_concurrency=1
    )
    assert found.concurrency == Concurrency("account:1", 1)
    resolved = resolve_concurrency(found.queue, QueuePolicy(5), found.concurrency)
    assert resolved == Concurrency("account:1", 1)


@pytest.mark.parametrize("key", ["queue:reserved", "queue:"])
def test_A11_a_key_with_the_reserved_prefix_is_refused(key: str) -> None:
    with pytest.raises(InvalidOption, match=r"reserved prefix 'queue:', not 'queue:"):
        prepare("mail", concurrency_key=key, max_concurrency=1)


@pytest.mark.parametrize(
    "key", ["queue", "Queue:x", " queue:x", "a queue:x", "k" * 255]
)
def test_a_key_that_only_looks_reserved_is_taken_as_it_is(key: str) -> None:
    found = prepare("mail", concurrency_key=key, max_concurrency=2**31 - 1)
    assert found.concurrency == (key, 2**31 - 1)


@pytest.mark.parametrize("value", ["", LONG, *NO_TEXT], ids=shown)
def test_E1_a_bad_concurrency_key_is_refused(value: object) -> None:
    with pytest.raises(InvalidOption, match=r"^concurrency_key must "):
        prepare("mail", concurrency_key=value, max_concurrency=1)


@pytest.mark.parametrize("value", [0, -1, 2**31, True, 1.0, "1", math.nan])
def test_E1_a_bad_cap_is_refused(value: object) -> None:
    with pytest.raises(
        InvalidOption, match=r"^max_concurrency must be an integer from 1"
    ):
        prepare("mail", concurrency_key="k", max_concurrency=value)


def test_A59_a_key_and_a_cap_must_be_paired() -> None:
    with pytest.raises(InvalidOption, match=r"^max_concurrency must be paired"):
        prepare("mail", concurrency_key="account:1")
    with pytest.raises(InvalidOption, match=r"^concurrency_key must be paired"):
        prepare("mail", max_concurrency=1)


def test_A13_a_time_before_1970_is_refused_by_name() -> None:
    with pytest.raises(InvalidOption, match=r"^scheduled_at .*, not -1$"):
        prepare("mail", scheduled_at=-1)


def test_A8_no_time_is_left_to_the_store_and_a_time_stands_as_given() -> None:
    assert prepare("mail").scheduled_at_ms is None
    assert prepare("mail", scheduled_at=0).scheduled_at_ms == 0
    assert prepare("mail", scheduled_at=LAST_MS).scheduled_at_ms == LAST_MS


def test_F70_a_time_with_an_offset_is_that_very_moment() -> None:
    when = datetime(2026, 1, 1, 9, tzinfo=timezone(timedelta(hours=8)))
    utc = datetime(2026, 1, 1, 1, tzinfo=UTC)
    assert (
        prepare("mail", scheduled_at=when).scheduled_at_ms
        == prepare("mail", scheduled_at=utc).scheduled_at_ms
        == int(utc.timestamp()) * 1000
    )


def test_F83_a_naive_time_is_a_value_error() -> None:
    with pytest.raises(
        ValueError, match=r"^scheduled_at must be a datetime with a time"
    ):
        prepare("mail", scheduled_at=NAIVE)


@pytest.mark.parametrize(
    ("given_ms", "stored"),
    [(15000, 15000), (0, 0), (-1, 0), (-(10**30), 0), (None, None), (2**31 - 1,) * 2],
)
def test_A100_a_timeout_at_or_below_zero_is_stored_as_none_at_all(
    given_ms: object, stored: int | None
) -> None:
    assert prepare("mail", timeout_ms=given_ms).timeout_ms == stored


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, 1.5, -1.5, 2147483648, "15000"], ids=repr
)
def test_A101_a_timeout_that_is_no_integer_of_32_bits_is_refused(value: object) -> None:
    with pytest.raises(InvalidOption, match=r"^timeout_ms must be an integer"):
        prepare("mail", timeout_ms=value)


def test_options_are_stored_in_plain_types() -> None:
    found = prepare(
        "mail",
        priority=Level.HIGH,
        max_retries=Level.HIGH,
        timeout_ms=Level.HIGH,
        scheduled_at=Level.HIGH,
        concurrency_key=Mode.PROCESS,
        max_concurrency=Level.HIGH,
        execution_mode=Mode.PROCESS,
    )
    numbers = (
        found.priority,
        found.max_retries,
        found.timeout_ms,
        found.scheduled_at_ms,
        found.concurrency.cap,
    )
    assert numbers == (3, 3, 3, 3, 3)
    assert {type(each) for each in numbers} == {int}
    texts = (found.execution_mode, found.concurrency.key)
    assert texts == ("process", "process")
    assert {type(each) for each in texts} == {str}


def test_an_unknown_option_is_a_type_error_that_names_it() -> None:
    with pytest.raises(TypeError, match="max_retry"):
        prepare("mail", max_retry=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="max_retry"):
        JobRequest("mail", max_retry=1)  # type: ignore[call-arg]


@pytest.mark.parametrize("refused", ["max_retries", "scheduled_at"])
def test_the_first_bad_option_is_named_and_the_rest_not_looked_at(refused: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        prepare("mail", **{refused: -1, "timeout_ms": "x"})
    assert caught.value.option == refused


def test_E8_dedupe_is_ignored_where_an_idempotency_key_is_given() -> None:
    plain = prepare("mail", [1], deduplicate_while_queued=True)
    assert plain.dedupe_identity() is not None
    assert prepare("mail", [1]).dedupe_identity() is None
    keyed = prepare("mail", [1], deduplicate_while_queued=True, idempotency_key="k")
    assert keyed.dedupe_identity() is None


def test_E4_the_dedupe_identity_is_name_queue_and_arguments_alone() -> None:
    def identity(*args: object, **more: object) -> str | None:
        return prepare(*args, deduplicate_while_queued=True, **more).dedupe_identity()

    base = identity("mail", [1], {"a": 1, "b": 2})
    assert base == identity(
        "mail",
        (1,),
        {"b": 2, "a": 1},
        queue=" default",
        priority=5,
        max_retries=0,
        scheduled_at=7,
        concurrency_key="k",
        max_concurrency=1,
        timeout_ms=1,
        execution_mode="process",
    )
    others = {
        identity("mail2", [1], {"a": 1, "b": 2}),
        identity("mail", [2], {"a": 1, "b": 2}),
        identity("mail", [1], {"a": 1, "b": 3}),
        identity("mail", [1], {"a": 1, "b": 2}, queue="q"),
        identity("maild", [1], {"a": 1, "b": 2}, queue="efault"),
    }
    assert len(others) == 5
    assert base not in others


def test_E5_the_idempotency_scope_is_name_queue_and_key() -> None:
    def scope(name: str, queue: str, key: str) -> str | None:
        return prepare(name, queue=queue, idempotency_key=key).idempotency_scope()

    assert prepare("mail").idempotency_scope() is None
    assert scope("mail", "q", "k") == scope("mail", " q ", "k")
    scopes = {
        scope("mail", "q", "k"),
        scope("mail", "q", "K"),
        scope("mail", "q", "k "),
        scope("mail", "qk", "k"),
        scope("mail2", "q", "k"),
        scope("mailq", "q", "k"),
    }
    assert len(scopes) == 6


@pytest.mark.parametrize(
    ("differing", "changed"),
    [
        ("args", {"args": [2]}),
        ("args", {"kwargs": {"a": 1}}),
        ("max_retries", {"max_retries": 10}),
        ("scheduled_at", {"scheduled_at": 0}),
        ("priority", {"priority": 0}),
        ("timeout_ms", {"timeout_ms": 0}),
        ("execution_mode", {"execution_mode": "inline"}),
    ],
)
def test_E5_the_request_is_compared_as_given_and_not_as_resolved(
    differing: str, changed: dict[str, object]
) -> None:
    base = prepare("mail", idempotency_key="k").request()
    other = prepare("mail", idempotency_key="k", **changed).request()
    assert {key for key in base if base[key] != other[key]} == {differing}
    json.dumps(other)  # it is stored as JSON


def test_E8_the_request_compares_the_pair_and_not_the_dedupe_flag() -> None:
    base = prepare("mail", idempotency_key="k").request()
    pair = prepare(
        "mail", idempotency_key="k", concurrency_key="c", max_concurrency=1
    ).request()
    assert {key for key in base if base[key] != pair[key]} == {
        "concurrency_key",
        "max_concurrency",
    }
    flagged = prepare("mail", idempotency_key="k", deduplicate_while_queued=True)
    assert flagged.request() == base


def test_a_request_for_many_is_checked_when_it_is_made() -> None:
    request = JobRequest("mail", [1], {"k": 2}, queue=" q ", max_retries=0)
    assert request.prepared == prepare("mail", [1], {"k": 2}, queue="q", max_retries=0)
    with pytest.raises(InvalidOption, match=r"^max_retries must be an integer"):
        JobRequest("mail", max_retries=-1)


def test_K3_a_scheduled_replacement_is_prepared_as_any_job() -> None:
    key, prepared = prepare_scheduled("event:42", "mail", [1], {"a": 2}, scheduled_at=5)
    assert key == "event:42"
    assert prepared == prepare("mail", [1], {"a": 2}, scheduled_at=5)
    assert (
        prepare_scheduled("k", "mail", deduplicate_while_queued=False)[1]
        == prepare("mail")
        == prepare_scheduled("k", "mail", idempotency_key=None)[1]
    )


@pytest.mark.parametrize(
    ("option", "value"), [("deduplicate_while_queued", True), ("idempotency_key", "k")]
)
def test_K3_a_schedule_key_goes_with_no_dedupe_and_no_idempotency(
    option: str, value: object
) -> None:
    with pytest.raises(
        InvalidOption, match=rf"^{option} does not go with a schedule key"
    ):
        prepare_scheduled("key", "mail", **{option: value})


def test_A125_an_empty_schedule_key_and_one_of_256_characters_are_refused() -> None:
    with pytest.raises(
        InvalidOption, match=r"^schedule_key must be a non-empty string"
    ):
        prepare_scheduled("", "mail")
    with pytest.raises(InvalidOption, match=r"^schedule_key must have at most 255"):
        prepare_scheduled(LONG, "mail")
    assert options.schedule_key("k" * 255) == "k" * 255


def test_a_bad_option_of_a_scheduled_replacement_is_refused_the_same_way() -> None:
    with pytest.raises(InvalidOption, match=r"^max_retries must be an integer"):
        prepare_scheduled("key", "mail", max_retries=-1)
    with pytest.raises(TypeError, match="max_retry"):
        prepare_scheduled("key", "mail", max_retry=1)


def test_the_typed_options_are_those_that_are_checked() -> None:
    checked = get_type_hints(prepare).keys() - {"name", "args", "kwargs", "return"}
    assert get_type_hints(EnqueueOptions).keys() == checked
    assert get_type_hints(ScheduleOptions).keys() == checked - {
        "deduplicate_while_queued",
        "idempotency_key",
    }


@pytest.mark.parametrize(
    ("modes", "found"),
    [
        (None, None),
        ([], ()),
        (["process", "inline", "inline"], ("inline", "process")),
        ({"process"}, ("process",)),
        ({"inline": 1}.keys(), ("inline",)),
        ((Mode.PROCESS,), ("process",)),
    ],
)
def test_the_modes_of_a_claim_are_sorted_and_named_once(
    modes: object, found: tuple[str, ...] | None
) -> None:
    assert options.execution_modes(modes) == found


@pytest.mark.parametrize(
    "modes", ["inline", b"inline", 1, [None], ["thread"], [1]], ids=repr
)
def test_E1_modes_that_are_none_of_ours_are_refused(modes: object) -> None:
    with pytest.raises(InvalidOption, match=r"^execution_modes must be "):
        options.execution_modes(modes)


@pytest.mark.parametrize(
    ("queues", "found"),
    [
        (None, None),
        ((), ()),
        ([" b", "a", "b "], ("a", "b")),
        (frozenset({"a"}), ("a",)),
        ({"a": QueuePolicy()}, ("a",)),
        ({"a": 1}.keys(), ("a",)),
    ],
)
def test_the_queues_of_a_claim_are_trimmed_sorted_and_named_once(
    queues: object, found: tuple[str, ...] | None
) -> None:
    assert options.queue_names(queues) == found


@pytest.mark.parametrize("queues", ["a", b"a", 1, [""], [None], [1], range], ids=repr)
def test_E1_queues_that_are_no_names_are_refused(queues: object) -> None:
    with pytest.raises(InvalidOption, match=r"^queues must "):
        options.queue_names(queues)


def prepared_or_refusal(given_options: dict[str, object]) -> Prepared | InvalidOption:
    try:
        return prepare("mail", **given_options)
    except InvalidOption as refusal:
        return refusal


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "queue": st.text(),
            "priority": st.integers() | st.booleans(),
            "max_retries": st.integers(),
            "scheduled_at": st.integers() | st.datetimes() | st.floats(),
            "concurrency_key": st.text(),
            "max_concurrency": st.integers(),
            "deduplicate_while_queued": st.booleans() | st.none(),
            "idempotency_key": st.text() | st.binary(),
            "timeout_ms": st.integers() | st.floats(),
            "execution_mode": st.sampled_from(["inline", "process", "other"]),
        },
    )
)
def test_E1_any_options_give_a_storable_job_or_a_refusal(
    given_options: dict[str, object],
) -> None:
    found = prepared_or_refusal(given_options)
    if isinstance(found, InvalidOption):
        assert found.option in {*given_options, "concurrency_key", "max_concurrency"}
        return
    assert 1 <= len(found.queue) <= 255
    assert found.queue == found.queue.strip()
    assert 0 <= found.max_retries < 2**31
    assert 0 <= (found.scheduled_at_ms or 0) <= LAST_MS
    assert -(2**31) <= (found.priority or 0) < 2**31
    assert 0 <= (found.timeout_ms or 0) < 2**31
    assert (found.concurrency.key is None) == (found.concurrency.cap is None)
    assert found.execution_mode in {"inline", "process"}


@pytest.mark.parametrize(
    ("call", "given"),
    [
        (lambda: options.execution_modes(7), 7),
        (lambda: options.queue_names("mail"), "mail"),
        (lambda: prepare_scheduled("k", "mail", idempotency_key="i"), "i"),
    ],
    ids=["execution_modes", "queue_names", "prepare_scheduled"],
)
def test_a_refusal_holds_the_value_that_was_given(
    call: Callable[[], object], given: object
) -> None:
    with pytest.raises(InvalidOption) as caught:
        call()
    assert caught.value.value == given
