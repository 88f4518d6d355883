"""
Small checks of single values; each refuses by name, value and rule (E1).

What they return is of the plain type: an enum or another subclass may print, compare
or be sent to a database as something else than the value that was checked.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from jobfence.statemachine.errors import InvalidOption
from jobfence.statemachine.states import JobStatus

Kind = TypeVar("Kind")

INT32_MAX = 2**31 - 1
INT32_MIN = -(2**31)
TEXT_MAX = 255
# The last millisecond of the year 9999: no stored time passes it.
LAST_MS = 253_402_300_799_999

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)
_END = (LAST_MS + 1) * _MS


def integer(option: str, value: object, *, least: int, most: int) -> int:
    """Return the value if it is an integer (not a bool) from `least` to `most`."""
    found = whole(value)
    if found is None or not least <= found <= most:
        raise InvalidOption(option, value, f"must be an integer from {least} to {most}")
    return found


def whole(value: object) -> int | None:
    """Return a plain int for an integer; None for all else, bools included."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return int.__int__(value)


def int32(option: str, value: object) -> int:
    """Return the value if it is a 32-bit integer."""
    return integer(option, value, least=INT32_MIN, most=INT32_MAX)


def each_of(option: str, values: Any, kind: type[Kind]) -> list[Kind]:
    """Return the values of an iterable if each is of this kind."""
    wanted = f"{kind.__name__} values"
    try:
        found: Iterable[object] = iter(values)
    except TypeError:
        raise InvalidOption(option, values, f"must be a list of {wanted}") from None
    checked: list[Kind] = []
    for each in found:
        if not isinstance(each, kind):
            raise InvalidOption(option, each, f"must be {wanted}")
        checked.append(each)
    return checked


def job_status(value: object) -> JobStatus:
    """Return the value if it is a status, or its name."""
    if isinstance(value, str) and value in list(JobStatus):
        return JobStatus(value)
    raise InvalidOption("status", value, f"must be one of {', '.join(JobStatus)}")


def flag(option: str, value: object) -> bool:
    """Return the value if it is a bool."""
    if not isinstance(value, bool):
        raise InvalidOption(option, value, "must be True or False")
    return value


def storable(option: str, value: object) -> str:
    """Return the value if it is text every database can hold as it is."""
    if not isinstance(value, str):
        raise InvalidOption(option, value, "must be a string")
    found = plain_text(value)
    if "\0" in found:
        raise InvalidOption(option, value, "must not contain NUL")
    if not encodable(found):
        raise InvalidOption(option, value, "must not contain a lone surrogate")
    return found


def plain_text(value: str) -> str:
    """Return the characters alone; `str()` of an enum may give its name instead."""
    return str.__str__(value)


def text(option: str, value: object) -> str:
    """Return the value if it is a non-empty string of at most 255 characters."""
    return _sized(option, value, storable(option, value))


def _sized(option: str, value: object, found: str) -> str:
    if not found:
        raise InvalidOption(option, value, "must be a non-empty string")
    if len(found) > TEXT_MAX:
        raise InvalidOption(option, value, f"must have at most {TEXT_MAX} characters")
    return found


def encodable(value: str) -> bool:
    """Whether the text has no lone surrogate."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def queue_name(value: object, option: str = "queue") -> str:
    """Return a queue's name, trimmed, 1 to 255 characters."""
    return _sized(option, value, storable(option, value).strip())


def time_ms(option: str, value: object) -> int:
    """Return a time as epoch milliseconds; an aware datetime is rounded up."""
    found = _since_epoch(option, value) if isinstance(value, datetime) else whole(value)
    if found is None:
        raise InvalidOption(
            option, value, "must be an aware datetime or integer milliseconds"
        )
    if not 0 <= found <= LAST_MS:
        raise InvalidOption(
            option,
            value,
            f"must be from 0 (1970-01-01 UTC) to {LAST_MS} (the end of year 9999 UTC)",
        )
    return found


def _since_epoch(option: str, value: datetime) -> int:
    try:
        offset = value.utcoffset()
    except Exception as problem:  # a time zone is the caller's code
        raise InvalidOption(
            option, value, "must have a time zone that gives its offset from UTC"
        ) from problem
    if offset is None:
        raise InvalidOption(
            option, value, "must be a datetime with a time zone, or milliseconds"
        )
    since = value.replace(tzinfo=UTC) - _EPOCH - offset
    # Rounding the last microseconds of year 9999 up would leave it: `datetime.max` in
    # UTC, the usual "never", is the last millisecond.
    return min(-(-since // _MS), LAST_MS) if since < _END else LAST_MS + 1


def delay_ms(value: object) -> int:
    """Return a wait in milliseconds that some clock time can still be added to."""
    return integer("delay_ms", value, least=0, most=LAST_MS)


def later_ms(now: int, delay: int) -> int:
    """Add a wait to the time now, stopping at the end of year 9999."""
    return min(now + delay, LAST_MS)


def lease_ms(value: object) -> int | None:
    """Return the length of a lease in milliseconds, or None for no lease."""
    if value is None:
        return None
    return integer("lease_ms", value, least=1, most=INT32_MAX)
