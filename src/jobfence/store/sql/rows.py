"""A database row as a `Job`, or the reason why it is not one (rule M21)."""

import logging

from collections.abc import Iterable, Mapping
from typing import TypeVar

from jobfence.statemachine.canonical import JSON, parse
from jobfence.statemachine.errors import UnreadableJob
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import Handoff, Job

logger = logging.getLogger("jobfence")

Row = Mapping[str, object]
T = TypeVar("T")


def job_from(row: Row) -> Job:
    """Read every column; `UnreadableJob` names the first that is not as it must be."""
    read = _Reader(row)
    return Job(
        id=read.text("id"),
        name=read.text("name"),
        args=tuple(read.json("args", list)),
        kwargs=read.json("kwargs", dict),
        queue=read.text("queue"),
        priority=read.number("priority"),
        status=read.status(),
        attempts=read.number("attempts"),
        max_retries=read.number("max_retries"),
        handoffs=read.number("handoffs"),
        created_at_ms=read.number("created_at_ms"),
        scheduled_at_ms=read.number("scheduled_at_ms"),
        handed_off_at_ms=read.optional_number("handed_off_at_ms"),
        lease_expires_at_ms=read.optional_number("lease_expires_at_ms"),
        handoff_id=read.optional_text("handoff_id"),
        worker_id=read.optional_text("worker_id"),
        last_handoff_id=read.optional_text("last_handoff_id"),
        last_worker_id=read.optional_text("last_worker_id"),
        last_handed_off_at_ms=read.optional_number("last_handed_off_at_ms"),
        completed_at_ms=read.optional_number("completed_at_ms"),
        failed_at_ms=read.optional_number("failed_at_ms"),
        cancelled_at_ms=read.optional_number("cancelled_at_ms"),
        last_error=read.optional_text("last_error"),
        concurrency_key=read.optional_text("concurrency_key"),
        max_concurrency=read.optional_number("max_concurrency"),
        schedule_key=read.optional_text("schedule_key"),
        schedule_order=read.optional_number("schedule_order"),
        timeout_ms=read.optional_number("timeout_ms"),
        execution_mode=read.text("execution_mode"),
        cancel_requested=bool(row["cancel_requested"]),
        origin_id=read.optional_text("origin_id"),
    )


def handoff_of(job: Job) -> Handoff:
    """Return the handoff of a job that is handed off."""
    assert job.handoff_id is not None
    assert job.handed_off_at_ms is not None
    return Handoff(job, job.handoff_id, job.handed_off_at_ms, job.lease_expires_at_ms)


def unreadable(row: Row) -> UnreadableJob | None:
    """Say why a row cannot be read, or None."""
    try:
        job_from(row)
    except UnreadableJob as problem:
        return problem
    return None


def readable(rows: Iterable[Row]) -> list[Job]:
    """Read rows into jobs, leaving out and logging those that cannot be read."""
    found = []
    for row in rows:
        try:
            found.append(job_from(row))
        except UnreadableJob as problem:
            logger.warning("left out of a list: %s", problem)
    return found


def job_or_none(row: Row) -> Job | None:
    """Read one row, None if it cannot be read: the change to it stands all the same."""
    return next(iter(readable([row])), None)


class _Reader:
    def __init__(self, row: Row) -> None:
        self._row = row

    def _typed(self, column: str, kind: type[T], what: str) -> T:
        value = self._row[column]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise self._bad(column, f"holds {what}" if value is not None else "is null")
        return value

    def _bad(self, column: str, problem: str) -> UnreadableJob:
        return UnreadableJob(str(self._row["id"]), column, problem)

    def text(self, column: str) -> str:
        return self._typed(column, str, "no text")

    def optional_text(self, column: str) -> str | None:
        return None if self._row[column] is None else self.text(column)

    def number(self, column: str) -> int:
        return self._typed(column, int, "no integer")

    def optional_number(self, column: str) -> int | None:
        return None if self._row[column] is None else self.number(column)

    def status(self) -> JobStatus:
        value = self.text("status")
        try:
            return JobStatus(value)
        except ValueError:
            raise self._bad("status", "holds no known status") from None

    def json(self, column: str, kind: type[T]) -> T:
        value = self.text(column)
        try:
            found: JSON = parse(value)
        except (ValueError, RecursionError):
            raise self._bad(column, "holds no JSON") from None
        if not isinstance(found, kind):
            shape = "list" if kind is list else "object"
            raise self._bad(column, f"holds no JSON {shape}")
        return found
