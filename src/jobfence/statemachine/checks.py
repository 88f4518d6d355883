"""Small checks of single values; each refuses by name, value and rule (E1)."""

from datetime import UTC, datetime, timedelta

from jobfence.statemachine.errors import InvalidOption

INT32_MAX = 2**31 - 1
INT32_MIN = -(2**31)
TEXT_MAX = 255
# The last millisecond of the year 9999: no stored time passes it.
LAST_MS = 253_402_300_799_999

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)


def integer(option: str, value: object, *, least: int, most: int) -> int:
    """Return the value if it is an integer (not a bool) from `least` to `most`."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int)
        or not least <= value <= most
    ):
        raise InvalidOption(option, value, f"must be an integer from {least} to {most}")
    return int(value)


def int32(option: str, value: object) -> int:
    """Return the value if it is a 32-bit integer."""
    return integer(option, value, least=INT32_MIN, most=INT32_MAX)


def flag(option: str, value: object) -> bool:
    """Return the value if it is a bool."""
    if not isinstance(value, bool):
        raise InvalidOption(option, value, "must be True or False")
    return value


def storable(option: str, value: object) -> str:
    """Return the value if it is text every database can hold as it is."""
    if not isinstance(value, str):
        raise InvalidOption(option, value, "must be a string")
    if "\0" in value:
        raise InvalidOption(option, value, "must not contain NUL")
    if not encodable(value):
        raise InvalidOption(option, value, "must not contain a lone surrogate")
    return str(value)


def text(option: str, value: object) -> str:
    """Return the value if it is a non-empty string of at most 255 characters."""
    found = storable(option, value)
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


def queue_name(value: object) -> str:
    """Return a queue's name, trimmed, 1 to 255 characters."""
    return text("queue", storable("queue", value).strip())


def time_ms(option: str, value: object) -> int:
    """Return a time as epoch milliseconds; an aware datetime is rounded up."""
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise InvalidOption(
                option, value, "must be a datetime with a time zone, or milliseconds"
            )
        value = -((_EPOCH - value) // _MS)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidOption(
            option, value, "must be an aware datetime or integer milliseconds"
        )
    return integer(option, value, least=0, most=LAST_MS)


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
