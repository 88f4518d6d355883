"""Whole rows of the jobs table, written by hand: what the store must never need."""

from typing import Any

from jobfence.statemachine.states import JobStatus

ENDS = {
    JobStatus.COMPLETED: "completed_at_ms",
    JobStatus.FAILED: "failed_at_ms",
    JobStatus.CANCELLED: "cancelled_at_ms",
}


def legal_row(status: JobStatus, /, **columns: Any) -> dict[str, Any]:
    """Return a row in this status as the rules allow it, with these columns instead."""
    row: dict[str, Any] = {
        "id": "r1",
        "name": "thumbnail",
        "queue": "media",
        "args": "[1]",
        "kwargs": "{}",
        "args_digest": "d" * 64,
        "status": status.value,
        "priority": 3,
        "priority_explicit": True,
        "attempts": 1,
        "max_retries": 5,
        "handoffs": 2,
        "created_at_ms": 100,
        "scheduled_at_ms": 200,
        "handed_off_at_ms": None,
        "handoff_id": None,
        "worker_id": None,
        "lease_ms": None,
        "lease_expires_at_ms": None,
        "last_handoff_id": "h-old",
        "last_worker_id": "w-old",
        "last_handed_off_at_ms": 150,
        "last_ack": "fail",
        "completed_at_ms": None,
        "failed_at_ms": None,
        "cancelled_at_ms": None,
        "last_error": "first failure",
        "concurrency_key": "account:1",
        "max_concurrency": 4,
        "cancel_requested": False,
        "schedule_key": "nightly",
        "schedule_order": 7,
        "timeout_ms": 15_000,
        "execution_mode": "process",
        "origin_id": "r0",
        "rev": 11,
    }
    if status is JobStatus.HANDED_OFF:
        row |= {
            "handed_off_at_ms": 300,
            "handoff_id": "h1",
            "worker_id": "w1",
            "lease_ms": 50,
            "lease_expires_at_ms": 350,
            "last_handoff_id": "h1",
            "last_worker_id": "w1",
            "last_handed_off_at_ms": 300,
            "last_ack": None,
        }
    if status in ENDS:
        row[ENDS[status]] = 400
    return row | columns
