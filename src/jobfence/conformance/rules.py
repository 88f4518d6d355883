"""Which rules speak about what differs, or else about the method that was called."""

import re

RULES_OF = {
    "open": "S1",
    "enqueue": "M1, E1-E8, C2, C3",
    "enqueue_many": "M1, E1-E8, C2, C3",
    "get": "M21",
    "list_jobs": "O2",
    "next_available": "O1, C6",
    "next_scheduled": "O2",
    "handoffs_for_worker": "M16",
    "counts": "R2",
    "claim": "M2, M13, O1, C4-C8, L1",
    "claim_job": "M2, M13, M19, C4-C8, L1",
    "complete": "M3, M18",
    "fail": "M4, M5, M15, M18, B1-B3",
    "reschedule": "M6, M7b, M15, M18",
    "return_to_queue": "M7, M7b, M15, M18",
    "extend_lease": "M12, M18, L1",
    "extend_leases": "M12, M18, L1",
    "settle": "T5, M2-M7, M18",
    "recover_handed_off": "M8, M15, M7b, L2, L4",
    "recover_expired": "M8, M15, M7b, L1, L4",
    "cancel": "M9, M14, R3",
    "requeue": "R5",
    "set_concurrency": "C3",
    "reconcile_queue_policies": "M13, C0, C7",
    "reconcile_active_concurrency": "C5, C9",
    "replace_scheduled": "K0-K3",
    "cancel_scheduled": "K0-K3, M14",
    "wake_scheduled": "M10, K1, K2",
    "scheduled_job": "K2, K3",
    "queue_stats": "R2",
    "pause_queue": "R4",
    "resume_queue": "R4",
    "prune_terminal": "R1",
    "acquire_ownership": "L2",
    "release_ownership": "L2",
}

# Where only some rules say what a column or a read must be, a failure names these.
_OF_COLUMN = {
    "args": "E2",
    "kwargs": "E2",
    "attempts": "M17",
    "handoffs": "M2",
    "handoff_id": "M16",
    "worker_id": "M16",
    "handed_off_at_ms": "M16",
    "lease_expires_at_ms": "L1, M16",
    "last_handoff_id": "M18, M19",
    "last_worker_id": "M19",
    "last_handed_off_at_ms": "M19",
    "last_error": "B3",
    "concurrency_key": "C2, C8",
    "max_concurrency": "C2, C8",
    "schedule_key": "K2",
    "schedule_order": "K3",
    "cancel_requested": "M14",
    "origin_id": "R5",
    "previous_job_id": "K1",
    "previous_status": "K1",
    "result": "M18",
}
_OF_READ = {
    "next_available": "O1, C4",
    "next_scheduled": "O2",
    "counts": "R2",
    "queue_stats": "R2",
    "scheduled_job": "K2",
}


def rules_of(method: str, where: str, expected: str = "", seen: str = "") -> str:
    """
    Return the rules about a place that differs after a method was called.

    `expected` and `seen` are what stands there, as failures show it.
    """
    if method.startswith("enqueue") and where.startswith("the answer"):
        ids = all(each.startswith("job ") for each in (expected, seen))
        if ids:  # another job than the one that answers this request
            return "E4-E6"
    column = re.search(r"\w*$", where)
    if column is not None and (found := _OF_COLUMN.get(column[0])):
        return found
    read = re.match(r"\w*", where)
    if read is not None and (found := _OF_READ.get(read[0])):
        return found
    if method in ("claim", "settle") and where.endswith(".job.id"):
        return "O1"  # another job than the one whose turn it was
    return RULES_OF[method]


def rules_of_slots(expected: object, seen: object) -> str | None:
    """Return the rules of caps if more or fewer jobs with a key were handed off."""
    return None if _slots(expected) == _slots(seen) else "C4, C6"


def _slots(answer: object) -> int:
    handoffs = answer if isinstance(answer, list) else [answer]
    return sum(
        each["job"]["concurrency_key"] is not None
        for each in handoffs
        if isinstance(each, dict) and each.get("is") == "Handoff"
    )
