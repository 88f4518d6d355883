"""Single values: what is let in, in which type, and how the rest is refused (E1)."""

import enum

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo

import pytest

from hypothesis import given, strategies as st

from jobfence.statemachine import checks
from jobfence.statemachine.checks import LAST_MS
from jobfence.statemachine.errors import InvalidOption, shown
from jobfence.statemachine.states import JobStatus

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Level(enum.IntEnum):
    HIGH = 3


class Name(str, enum.Enum):  # noqa: UP042  the older way, whose str() is its name
    MAIL = "mail"


class Whole(int):
    __slots__ = ()

    def __lt__(self, other: object) -> bool:
        return True

    __le__ = __gt__ = __ge__ = __lt__


class NoOffset(tzinfo):
    def utcoffset(self, when: datetime | None) -> timedelta | None:
        return None

    def dst(self, when: datetime | None) -> timedelta | None:
        return None

    def tzname(self, when: datetime | None) -> str | None:
        return None


class BrokenZone(NoOffset):
    def utcoffset(self, when: datetime | None) -> timedelta | None:
        raise RuntimeError(f"no offset for {when!r}")


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


def test_an_integer_comes_back_as_a_plain_one() -> None:
    found = checks.integer("n", Level.HIGH, least=0, most=3)
    assert (found, type(found)) == (3, int)


@pytest.mark.parametrize(
    "value",
    [True, False, 1.0, "1", None, b"1", -1, 4, Whole(9), 10**5000, Unprintable(), [1]],
    ids=shown,
)
def test_E1_an_integer_is_refused_by_option_value_and_rule(value: object) -> None:
    with pytest.raises(InvalidOption) as caught:
        checks.integer("n", value, least=0, most=3)
    assert caught.value.option == "n"
    assert caught.value.value is value
    assert str(caught.value).startswith("n must be an integer from 0 to 3, not ")


@pytest.mark.parametrize("edge", [-(2**31), -1, 0, 2**31 - 1])
def test_int32_takes_all_of_32_bits(edge: int) -> None:
    assert checks.int32("priority", edge) == edge


@pytest.mark.parametrize("beyond", [-(2**31) - 1, 2**31])
def test_int32_takes_no_more(beyond: int) -> None:
    with pytest.raises(InvalidOption, match=r"^priority must be an integer from -2147"):
        checks.int32("priority", beyond)


@pytest.mark.parametrize("value", [0, 1, None, "yes", [], "False"])
def test_a_flag_is_true_or_false_and_nothing_that_passes_for_it(value: object) -> None:
    assert checks.flag("f", value=True) is True
    assert checks.flag("f", value=False) is False
    with pytest.raises(InvalidOption, match=r"^f must be True or False, not "):
        checks.flag("f", value)


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        ("", "must be a non-empty string"),
        ("x" * 256, "must have at most 255 characters"),
        ("a\0b", "must not contain NUL"),
        ("\ud800", "must not contain a lone surrogate"),
        (b"bytes", "must be a string"),
        (7, "must be a string"),
        (None, "must be a string"),
    ],
    ids=lambda value: ascii(value)[:20],
)
def test_E1_a_text_is_refused_by_option_value_and_rule(
    value: object, rule: str
) -> None:
    with pytest.raises(InvalidOption) as caught:
        checks.text("name", value)
    assert (caught.value.option, caught.value.rule) == ("name", rule)
    assert caught.value.value is value


@pytest.mark.parametrize(
    "value", ["x", " ", " k ", "K", "\n", "é" * 255, "😀" * 255, "queue:x"]
)
def test_E1_a_text_is_kept_character_by_character(value: str) -> None:
    assert checks.text("key", value) == value


def test_an_enum_of_strings_is_its_value_and_not_its_name() -> None:
    found = checks.text("name", Name.MAIL)
    assert (found, type(found)) == ("mail", str)


@pytest.mark.parametrize(
    ("given_name", "name"),
    [
        (" uploads ", "uploads"),
        ("\tuploads\n", "uploads"),
        ("two words", "two words"),
        (" " * 300 + "x" * 255 + " ", "x" * 255),
        (Name.MAIL, "mail"),
    ],
    ids=lambda value: ascii(value)[:20],
)
def test_A2_a_queue_name_is_trimmed(given_name: str, name: str) -> None:
    assert checks.queue_name(given_name) == name


@pytest.mark.parametrize("value", ["", "   ", "\n", "x" * 256, 1, None, "a\0"])
def test_E1_a_bad_queue_name_is_shown_as_it_was_given(value: object) -> None:
    with pytest.raises(InvalidOption, match=r"^queue must ") as caught:
        checks.queue_name(value)
    assert caught.value.value is value
    with pytest.raises(InvalidOption, match=r"^queues must "):
        checks.queue_name(value, "queues")


@pytest.mark.parametrize(
    ("when", "ms"),
    [
        (EPOCH, 0),
        (EPOCH + timedelta(microseconds=1), 1),
        (EPOCH + timedelta(microseconds=999), 1),
        (EPOCH + timedelta(microseconds=1000), 1),
        (EPOCH + timedelta(microseconds=1001), 2),
        (EPOCH - timedelta(microseconds=999), 0),
        (datetime(2026, 1, 1, 9, tzinfo=timezone(timedelta(hours=8))), 1767229200000),
        (datetime(2026, 1, 1, 1, tzinfo=UTC), 1767229200000),
        (datetime(9999, 12, 31, 23, 59, 59, 999000, tzinfo=UTC), LAST_MS),
        (datetime.max.replace(tzinfo=UTC), LAST_MS),
        (
            datetime.max.replace(tzinfo=timezone(timedelta(hours=14))),
            LAST_MS - 50400000 + 1,
        ),
        (0, 0),
        (LAST_MS, LAST_MS),
        (Level.HIGH, 3),
    ],
    ids=str,
)
def test_a_time_is_milliseconds_rounded_up(when: object, ms: int) -> None:
    found = checks.time_ms("scheduled_at", when)
    assert (found, type(found)) == (ms, int)


@given(
    st.datetimes(
        min_value=datetime(1970, 1, 2),  # noqa: DTZ001  the strategy adds the zones
        timezones=st.builds(
            timezone,
            st.timedeltas(timedelta(hours=-23, minutes=-59), timedelta(hours=23)),
        ),
    )
)
def test_a_time_is_never_early_and_less_than_a_millisecond_late(when: datetime) -> None:
    try:
        ms = checks.time_ms("scheduled_at", when)
    except InvalidOption:
        assert when - EPOCH >= timedelta(milliseconds=LAST_MS + 1)
    else:
        late = timedelta(milliseconds=ms) - (when - EPOCH)
        assert timedelta(0) <= late < timedelta(milliseconds=1) or ms == LAST_MS


@pytest.mark.parametrize(
    "when",
    [
        -1,
        LAST_MS + 1,
        10**5000,
        datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC),
        datetime.min.replace(tzinfo=UTC),
        datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-14))),
        datetime(
            9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-1))
        ),  # the very end
    ],
    ids=lambda when: str(when) if isinstance(when, datetime) else hex(when)[:12],
)
def test_A13_a_time_before_1970_or_after_9999_is_refused_as_it_was_given(
    when: object,
) -> None:
    with pytest.raises(InvalidOption, match=r"^scheduled_at must be from 0 .1970") as e:
        checks.time_ms("scheduled_at", when)
    assert e.value.value is when


@pytest.mark.parametrize(
    "when",
    [datetime(2026, 1, 1), datetime(2026, 1, 1, tzinfo=NoOffset())],  # noqa: DTZ001
)
def test_F83_a_naive_datetime_is_refused(when: datetime) -> None:
    with pytest.raises(ValueError, match="scheduled_at must be a datetime with a time"):
        checks.time_ms("scheduled_at", when)


def test_E1_a_time_zone_that_raises_is_a_bad_option_and_keeps_its_error() -> None:
    when = datetime(2026, 1, 1, tzinfo=BrokenZone())
    with pytest.raises(
        InvalidOption, match=r"^scheduled_at must have a time zone"
    ) as e:
        checks.time_ms("scheduled_at", when)
    assert isinstance(e.value.__cause__, RuntimeError)


@pytest.mark.parametrize(
    "when", [True, 1.0, "2026-01-01T00:00:00Z", date(2026, 1, 1), timedelta(1), None]
)
def test_E1_a_time_is_a_datetime_or_an_integer(when: object) -> None:
    with pytest.raises(InvalidOption, match="aware datetime or integer milliseconds"):
        checks.time_ms("scheduled_at", when)


def test_a_delay_may_be_anything_that_fits_a_time_and_the_sum_stops_at_9999() -> None:
    assert checks.delay_ms(0) == 0
    assert checks.delay_ms(LAST_MS) == LAST_MS
    assert checks.later_ms(1000, 500) == 1500
    assert checks.later_ms(1, LAST_MS) == LAST_MS
    for bad in (-1, LAST_MS + 1, 1.5, True, None, "1"):
        with pytest.raises(InvalidOption, match=r"^delay_ms must be an integer from 0"):
            checks.delay_ms(bad)


def test_L1_a_lease_is_none_or_some_milliseconds() -> None:
    assert checks.lease_ms(None) is None
    assert checks.lease_ms(1) == 1
    assert checks.lease_ms(2**31 - 1) == 2**31 - 1
    for bad in (0, -1, 2**31, 1.5, True, "60000", ...):
        with pytest.raises(InvalidOption, match=r"^lease_ms must be an integer from 1"):
            checks.lease_ms(bad)


def test_a_time_whose_zone_fails_is_refused_with_what_was_given() -> None:
    given = datetime(2026, 1, 1, tzinfo=BrokenZone())
    with pytest.raises(InvalidOption) as caught:
        checks.time_ms("at", given)
    assert caught.value.value is given
    assert caught.value.rule.endswith("gives its offset from UTC")


def test_the_values_of_a_list_are_of_one_kind() -> None:
    for given_ints in ([1, 2], (1, 2), iter([1, 2]), {1: "a", 2: "b"}):
        assert checks.each_of("numbers", given_ints, int) == [1, 2]
    assert checks.each_of("numbers", [], int) == []
    with pytest.raises(
        InvalidOption, match=r"^numbers must be a list of int values, not 5$"
    ):
        checks.each_of("numbers", 5, int)
    with pytest.raises(InvalidOption, match=r"^numbers must be int values, not 'x'$"):
        checks.each_of("numbers", [1, "x", None], int)


def test_an_error_of_the_list_itself_is_the_caller_s() -> None:
    def failing() -> Iterator[int]:
        yield 1
        raise TypeError("mine")

    with pytest.raises(TypeError, match="mine"):
        checks.each_of("numbers", failing(), int)


def test_a_status_is_one_of_five_or_its_name() -> None:
    for status in JobStatus:
        assert checks.job_status(status) is status
        assert checks.job_status(status.value) is status
    bad: object
    for bad in ("FAILED", "", None, 5, b"failed", []):
        with pytest.raises(
            InvalidOption,
            match=r"^status must be one of queued, handed_off, completed, failed, canc",
        ) as refused:
            checks.job_status(bad)
        assert (refused.value.option, refused.value.value) == ("status", bad)
