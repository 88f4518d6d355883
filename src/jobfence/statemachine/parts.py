"""What a store is made with: parts of the caller's, looked at before they are needed."""

from jobfence.statemachine import checks
from jobfence.statemachine.clock import Clock, DatabaseClock
from jobfence.statemachine.errors import InvalidOption


def check_parts(
    clock: object,
    retry_policy: object,
    ids: object,
    handoff_ids: object,
    *,
    has_server: bool,
) -> None:
    """
    Refuse what would fail only at the first job, with a less clear error.

    None is the store's own choice. Only a store with a server has its clock.
    """
    is_server_s = has_server and isinstance(clock, DatabaseClock)
    if not (clock is None or is_server_s or callable(getattr(clock, "now_ms", None))):
        raise InvalidOption("clock", clock, "must have a method now_ms()")
    if retry_policy is not None and not callable(
        getattr(retry_policy, "delay_ms", None)
    ):
        raise InvalidOption(
            "retry_policy", retry_policy, "must have a method delay_ms(failures)"
        )
    for option, factory in (("ids", ids), ("handoff_ids", handoff_ids)):
        if factory is not None and not callable(factory):
            raise InvalidOption(option, factory, "must be a function that makes ids")


def now_ms(clock: Clock) -> int:
    """Return what a clock says; a fraction of a millisecond would damage the row."""
    told: object = clock.now_ms()
    now = checks.whole(told)
    if now is None or not -checks.LAST_MS <= now <= checks.LAST_MS:
        raise InvalidOption(
            "clock", told, "must tell the time in integer milliseconds since 1970"
        )
    return now
