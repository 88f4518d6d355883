"""Schedule keys against the jobs that moved beside them (rules K2 and K3)."""

from jobfence.conformance.trace.entries import Entry, Values
from jobfence.conformance.trace.facts import Facts, Happened
from jobfence.conformance.trace.rows import number
from jobfence.conformance.trace.verdict import Refused
from jobfence.statemachine.states import JobStatus
from jobfence.store.notes import Action

_KNOWN = {Action.OWN, Action.DISOWN, Action.REBUILD}


def check_owner(
    entry: Entry, before: Values | None, after: Values, facts: Facts, happened: Happened
) -> None:
    """Judge one write of a schedule key; `before` is None if it is not known."""
    actions = set(entry.actions)
    strange = actions - _KNOWN
    if strange:
        raise Refused(
            "K2", expected="a write that schedule keys have", seen=" and ".join(strange)
        )
    if Action.REBUILD in actions:
        _check_rebuilt(before, after, facts)
        return
    if Action.DISOWN in actions and before is not None:
        _check_end(before, facts, happened)
    if Action.OWN in actions:
        _check_new_owner(entry.entity_id, before, after, happened)
        if Action.DISOWN not in actions and before is not None:
            _check_detached(before["job_id"], facts)
    elif after["job_id"] is not None:
        raise Refused("K2", expected="no owner any more", seen=repr(after["job_id"]))
    elif before is not None and after["last_order"] != before["last_order"]:
        raise Refused(
            "K3",
            expected=f"order still {before['last_order']}",
            seen=str(after["last_order"]),
        )


def _check_end(before: Values, facts: Facts, happened: Happened) -> None:
    """K2: by the owner's own end, by cancellation, or there was none that runs."""
    owner = before["job_id"]
    if owner is None:
        raise Refused("K2", expected="an owner whose ownership ends", seen="none")
    if str(owner) in {*happened.ended, *happened.marked}:
        return
    if facts.active(owner):
        raise Refused(
            "K2",
            expected=f"the owner {owner!r} to end or to be cancelled with it",
            seen="that it goes on",
        )


def _check_new_owner(
    key: str, before: Values | None, after: Values, happened: Happened
) -> None:
    """K2, K3: only a job that is made for the key owns it, by the next order."""
    job = happened.new.get(str(after["job_id"]))
    if job is None or job["schedule_key"] != key:
        raise Refused(
            "K2",
            expected="as owner a job that is enqueued for this key here",
            seen=f"{after['job_id']!r}, which is not",
        )
    wanted = None if before is None else number(before, "last_order") + 1
    order = number(after, "last_order")
    if order not in (wanted, order if wanted is None else wanted):
        raise Refused("K3", expected=f"order {wanted}, one more", seen=str(order))
    if job["schedule_order"] != order:
        raise Refused(
            "K3", expected=f"order {order} in its job", seen=str(job["schedule_order"])
        )


def _check_detached(owner: object, facts: Facts) -> None:
    """Refuse an owner that is replaced and stays queued: it was to be cancelled."""
    former = facts.jobs.get(str(owner))
    if former is not None and former["status"] == JobStatus.QUEUED.value:
        raise Refused(
            "K2",
            expected=f"the queued owner {owner!r} to be cancelled",
            seen="that it stays queued",
        )


def _check_rebuilt(before: Values | None, after: Values, facts: Facts) -> None:
    """K3: from the jobs, and never back behind what was."""
    order = number(after, "last_order")
    if before is not None and order < number(before, "last_order"):
        raise Refused(
            "K3", expected=f"an order from {before['last_order']} on", seen=str(order)
        )
    if after["job_id"] is not None and not facts.active(after["job_id"]):
        raise Refused(
            "K3", expected="an active job as owner", seen=repr(after["job_id"])
        )


def check_given_up(job_id: str, job: Values, facts: Facts) -> None:
    """K2: a job that has ended owns nothing any more."""
    row = facts.schedule_keys.get(str(job["schedule_key"]))
    if job["schedule_key"] is not None and row and row["job_id"] == job_id:
        raise Refused(
            "K2",
            expected=f"key {job['schedule_key']!r} without this job, which ended",
            seen="that it is the owner still",
        )


def check_owns(job_id: str, job: Values, facts: Facts) -> None:
    """K2: a job that is made for a key owns it."""
    row = facts.schedule_keys.get(str(job["schedule_key"]))
    if job["schedule_key"] is not None and not (row and row["job_id"] == job_id):
        raise Refused(
            "K2",
            expected=f"this job as owner of its key {job['schedule_key']!r}",
            seen=repr(row and row["job_id"]),
        )
