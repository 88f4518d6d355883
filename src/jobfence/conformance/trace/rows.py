"""
What must hold for one job's row by itself, whatever led to it.

The same is asked of a row that a journal shows and of one in the tables.
"""

from jobfence.conformance.trace.entries import Values
from jobfence.conformance.trace.verdict import Refused
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.table import HANDOFF_COLUMNS, TABLE, Value

# Each terminal state's own time: what all of its rows write as now.
ENDED_AT: dict[JobStatus, str] = {
    status: name
    for status in JobStatus
    if status.terminal
    for name in set.intersection(
        *(
            {name for name, value in row.writes.items() if value is Value.NOW}
            for row in TABLE
            if row.dest is status
        )
    )
}
# A handoff may be without a lease; the rest is there exactly while handed off.
ALWAYS_HELD = tuple(name for name in HANDOFF_COLUMNS if not name.startswith("lease_"))
_NUMBERS = ("attempts", "max_retries", "handoffs", "created_at_ms", "scheduled_at_ms")


def check_row(values: Values) -> None:
    """Raise `Refused` for a row that no history can have led to."""
    status = status_of(values)
    for name in _NUMBERS:
        number(values, name)
    _check_handoff(values, status)
    _check_counts(values)
    if status is JobStatus.QUEUED and values["cancel_requested"]:
        raise Refused("M16", expected="queued without cancel_requested", seen="both")
    for ended, name in ENDED_AT.items():
        if (values[name] is not None) is not (status is ended):
            raise Refused(
                "M20",
                expected=f"{name} exactly in a job that is {ended}",
                seen=f"{name} {values[name]!r} in one that is {status}",
            )
    if (values["concurrency_key"] is None) is not (values["max_concurrency"] is None):
        raise Refused(
            "C2",
            expected="concurrency_key and max_concurrency, both or neither",
            seen=f"{values['concurrency_key']!r} and {values['max_concurrency']!r}",
        )


def status_of(values: Values) -> JobStatus:
    """Return a row's status."""
    try:
        return JobStatus(str(values.get("status")))
    except ValueError:
        known = ", ".join(JobStatus)
        raise Refused(
            "M20", expected=f"one of {known}", seen=f"status {values.get('status')!r}"
        ) from None


def number(values: Values, name: str) -> int:
    """Return a column that must hold an integer."""
    value = values.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise Refused("M21", expected=f"an integer in {name}", seen=repr(value))
    return value


def _check_handoff(values: Values, status: JobStatus) -> None:
    held = status is JobStatus.HANDED_OFF
    for name in ALWAYS_HELD:
        if (values[name] is not None) is not held:
            raise Refused(
                "M16",
                expected=f"{name} exactly while handed off",
                seen=f"{name} {values[name]!r} in a job that is {status}",
            )
    lease = (values["lease_ms"], values["lease_expires_at_ms"])
    if (lease[0] is None) is not (lease[1] is None) or not (held or lease[1] is None):
        raise Refused(
            "M16",
            expected="a whole lease, or none, and only while handed off",
            seen=f"length {lease[0]!r}, end {lease[1]!r} in a job that is {status}",
        )
    if held and values["handoff_id"] != values["last_handoff_id"]:
        raise Refused(
            "M16",
            expected=f"last_handoff_id {values['handoff_id']!r}, the handoff it has",
            seen=repr(values["last_handoff_id"]),
        )


def _check_counts(values: Values) -> None:
    attempts, handoffs = number(values, "attempts"), number(values, "handoffs")
    most = min(number(values, "max_retries") + 1, handoffs)
    if not 0 <= attempts <= most:
        raise Refused(
            "M17",
            expected=f"0 to {most} attempts: no more than handoffs, nor than one more "
            f"than max_retries",
            seen=str(attempts),
        )
    if (handoffs > 0) is not (values["last_handoff_id"] is not None):
        raise Refused(
            "M2",
            expected="last_handoff_id exactly in a job that was handed off",
            seen=f"{values['last_handoff_id']!r} after {handoffs} handoffs",
        )
