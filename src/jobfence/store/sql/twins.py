"""Twins: stored jobs that a new one would only repeat (rule E4)."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass

from jobfence.statemachine.options import Prepared
from jobfence.statemachine.states import JobStatus
from jobfence.store.sql import locks
from jobfence.store.sql.rows import Row
from jobfence.store.sql.statements import jobs
from jobfence.store.sql.tx import Tx


@dataclass(frozen=True, slots=True)
class Sought:
    """What a twin is: this identity, queued, and due by this time."""

    name: str
    queue: str
    args: str
    kwargs: str
    args_digest: str
    scheduled_at_ms: int

    @property
    def identity(self) -> tuple[str, ...]:
        """What it shares with all its twins, whenever they are due."""
        return self.name, self.queue, self.args, self.kwargs


def sought(tx: Tx, request: Prepared) -> Sought:
    """Return what a request's twin would be."""
    scheduled = request.scheduled_at_ms
    return Sought(
        name=request.name,
        queue=request.queue,
        args=request.args_text,
        kwargs=request.kwargs_text,
        args_digest=request.args_digest,
        scheduled_at_ms=tx.now if scheduled is None else scheduled,
    )


def stored(tx: Tx, requests: Iterable[Prepared]) -> Mapping[Sought, Row | None]:
    """
    Return the earliest stored twin that each request would repeat.

    In a caller's transaction they are held till the end: claimed before, one would run
    without what the caller is about to commit. All of them before anything else, and in
    the order of their ids (C4), in whatever order they are asked for.
    """
    wanted = list(dict.fromkeys(sought(tx, each) for each in requests))
    return _held(tx, wanted) if tx.joined else _found(tx, wanted)


def _found(
    tx: Tx, wanted: Collection[Sought], *, past: bool = False
) -> dict[Sought, Row | None]:
    statement = jobs.twin(tx.schema)
    if not past:
        statement = tx.latest(statement)
    return {each: tx.one(statement, **asdict(each)) for each in wanted}


def _held(tx: Tx, wanted: Collection[Sought]) -> dict[Sought, Row | None]:
    held: dict[str, Row] = {}
    if tx.reads_the_past:
        # There the look itself takes locks, one request after the other: what the
        # snapshot shows is held before, so that it waits at most for what is newer.
        locks.share_jobs(tx, _ids(_found(tx, wanted, past=True)), held)
    found: dict[Sought, Row | None] = {}
    missing = wanted
    while missing:
        found.update(_found(tx, missing))
        locks.share_jobs(tx, _ids({each: found[each] for each in missing}), held)
        missing = [each for each in missing if not _is_still(found[each], held)]
    return found


def _ids(found: Mapping[Sought, Row | None]) -> set[str]:
    return {str(row["id"]) for row in found.values() if row is not None}


def _is_still(found: Row | None, held: Mapping[str, Row]) -> bool:
    """Whether a twin is queued as it was found, now that it is locked."""
    if found is None:
        return True
    row = held.get(str(found["id"]))
    return (
        row is not None
        and row["status"] == JobStatus.QUEUED
        and row["scheduled_at_ms"] == found["scheduled_at_ms"]
    )
