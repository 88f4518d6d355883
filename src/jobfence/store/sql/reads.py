"""Looking without touching: lists, counts, what is next, retention's deletes."""

from collections.abc import Callable, Collection, Mapping

from jobfence.statemachine.errors import InvalidOption, UnreadableJob
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import Handoff, Job
from jobfence.store.notes import Entity
from jobfence.store.sql import writes
from jobfence.store.sql.claim import claim_filter
from jobfence.store.sql.rows import Row, handoff_of, job_from, logger, readable
from jobfence.store.sql.schema import ended_columns
from jobfence.store.sql.statements import claims, jobs
from jobfence.store.sql.tx import Tx

_LOOK_AHEAD = 20


def get(tx: Tx, job_id: str) -> Job | None:
    """Return a job; `UnreadableJob` if its row is damaged (M21)."""
    row = tx.one(jobs.by_id(tx.schema), at_id=job_id)
    return None if row is None else job_from(row)


def list_jobs(
    tx: Tx, filters: Mapping[str, str], limit: int, after: Job | str | None
) -> list[Job]:
    """Return a page by (created, id)."""
    place = {} if after is None else _place(tx, after)
    named = {f"is_{name}": value for name, value in filters.items()}
    found: list[Job] = []
    while len(found) < limit:
        statement = jobs.listing(tx.schema, tuple(sorted(filters)), after=bool(place))
        wanted = limit - len(found)
        rows = tx.rows(statement, row_limit=wanted, **named, **place)
        found += readable(rows)
        if len(rows) < wanted:
            break
        place = _behind(rows[-1])
    return found


def _place(tx: Tx, after: Job | str) -> dict[str, object]:
    if isinstance(after, Job):
        return {"after_created": after.created_at_ms, "after_id": after.id}
    row = tx.one(jobs.by_id(tx.schema), at_id=after)
    if row is None:
        raise InvalidOption("after", after, "must be a job or the id of a stored one")
    return _behind(row)


def _behind(row: Row) -> dict[str, object]:
    return {"after_created": row["created_at_ms"], "after_id": row["id"]}


def next_available(
    tx: Tx, queues: Collection[str] | None, modes: Collection[str] | None
) -> Job | None:
    """Return the first readable job that a claim would try (O1)."""
    found = claim_filter(tx, queues, modes)

    def look(passed: list[str]) -> list[Row]:
        wanted = claims.Filter(
            found.queues, found.modes, found.paused, found.full, found.opened, passed
        )
        return tx.rows(
            claims.candidates(tx.schema, wanted.shape()),
            at_now=tx.now,
            row_limit=_LOOK_AHEAD,
            **wanted.parameters(),
        )

    return _first_of(look)


def _first_of(look: Callable[[list[str]], list[Row]]) -> Job | None:
    """Look, and look behind unreadable jobs, until one can be read or none is left."""
    passed: list[str] = []
    while True:
        rows = look(passed)
        job = _first_readable(rows)
        if job is not None or len(rows) < _LOOK_AHEAD:
            return job
        passed += [str(row["id"]) for row in rows]


def _first_readable(rows: list[Row]) -> Job | None:
    for row in rows:
        try:
            return job_from(row)
        except UnreadableJob as problem:
            logger.warning("passed over: %s", problem)
    return None


def next_scheduled(tx: Tx, queues: Collection[str] | None) -> Job | None:
    """Return the earliest queued job that is not due yet (O2)."""
    named = {} if queues is None else {"in_queues": list(queues)}

    def look(passed: list[str]) -> list[Row]:
        statement = claims.next_scheduled(
            tx.schema, queues=queues is not None, passing=bool(passed)
        )
        skipped = {"in_skipped_ids": passed} if passed else {}
        return tx.rows(
            statement, at_now=tx.now, row_limit=_LOOK_AHEAD, **named, **skipped
        )

    return _first_of(look)


def handoffs_for_worker(tx: Tx, worker_id: str) -> list[Handoff]:
    """Return what a worker holds."""
    rows = tx.rows(jobs.held_by(tx.schema), is_worker=worker_id)
    return [handoff_of(job) for job in readable(rows)]


def counts(tx: Tx) -> dict[JobStatus, int]:
    """Return the number of jobs in every status, in one statement (R2)."""
    found = {
        str(row["status"]): int(str(row["jobs"]))
        for row in tx.rows(jobs.counts(tx.schema))
    }
    return {status: found.get(status.value, 0) for status in JobStatus}


def prune_batch(tx: Tx, status: JobStatus, ttl_ms: int, size: int) -> tuple[int, int]:
    """
    Delete a batch of jobs that ended in this status long enough ago (R1).

    Returns how many were found and how many were really deleted. The counters of keys
    that no job names any more go too.
    """
    assert status in ended_columns()
    ended_by = tx.now - ttl_ms
    statement = tx.room.locked(jobs.ended(tx.schema, status), skip_locked=True)
    rows = tx.rows(statement, ended_by=ended_by, row_limit=size)
    if not rows:
        return 0, 0
    ids = sorted(str(row["id"]) for row in rows)
    deleted = tx.changed_by(
        jobs.delete_ended(tx.schema, status),
        [{"at_id": job_id, "ended_by": ended_by} for job_id in ids],
    )
    if tx.journal is not None:
        _note_deleted(tx, rows, deleted)
    keys = {row["concurrency_key"] for row in rows} - {None}
    for key in sorted(str(each) for each in keys):
        writes.delete_counter(tx, key)
    return len(rows), deleted


def _note_deleted(tx: Tx, rows: list[Row], deleted: int) -> None:
    """Note the jobs that the DELETE, which looks again, really deleted."""
    assert tx.journal is not None
    left: set[object] = set()
    if deleted != len(rows):
        ids = [str(row["id"]) for row in rows]
        left = {row["id"] for row in tx.rows(jobs.by_ids(tx.schema), in_ids=ids)}
    for row in rows:
        if row["id"] not in left:
            tx.journal.deleted(Entity.JOB, str(row["id"]), row["rev"])
