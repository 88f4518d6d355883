"""Looking at jobs without changing them (O1, O2, M21, R2)."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice

from jobfence.statemachine import checks
from jobfence.statemachine.errors import InvalidOption
from jobfence.statemachine.options import execution_modes as check_modes, queue_names
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import Handoff, Job
from jobfence.store.memory.base import StoreBase, read_or_log
from jobfence.store.memory.claims import candidates
from jobfence.store.memory.rows import (
    JobRow,
    oldest_first,
    read_handoff,
    read_job,
    soonest_first,
)

MAX_LIMIT = 10_000


class Reading(StoreBase):
    """`get`, the listings, and what is next."""

    def get(self, job_id: str) -> Job | None:
        """Return a job as it stands."""
        wanted = checks.storable("job_id", job_id)
        with self._transaction() as transaction:
            row = transaction.tables.jobs.get(wanted)
            return None if row is None else read_job(row)

    def list_jobs(
        self,
        *,
        status: JobStatus | None = None,
        queue: str | None = None,
        name: str | None = None,
        limit: int = 100,
        after: Job | str | None = None,
    ) -> list[Job]:
        """Return a page of jobs, oldest first; unreadable ones do not fill it."""
        of_status = None if status is None else checks.job_status(status)
        of_queue = None if queue is None else checks.queue_name(queue)
        of_name = None if name is None else checks.text("name", name)
        most = checks.integer("limit", limit, least=1, most=MAX_LIMIT)
        behind = (
            after
            if after is None or isinstance(after, Job)
            else checks.storable("after", after)
        )
        with self._transaction() as transaction:
            jobs = transaction.tables.jobs
            start = None if behind is None else _place(jobs, behind)
            found = [
                row
                for row in jobs.values()
                if (of_status is None or row.status is of_status)
                and (of_queue is None or row.queue == of_queue)
                and (of_name is None or row.name == of_name)
                and (start is None or oldest_first(row) > start)
            ]
            found.sort(key=oldest_first)
            return list(islice(_readable(found), most))

    def next_available(
        self,
        *,
        queues: Collection[str] | None = None,
        execution_modes: Collection[str] | None = None,
    ) -> Job | None:
        """Return the first readable candidate of a claim."""
        of_queues, of_modes = queue_names(queues), check_modes(execution_modes)
        with self._transaction() as transaction:
            found = candidates(transaction, of_queues, of_modes)
            free = [row for row in found if transaction.slot_free(row)]
            return next(_readable(free), None)

    def next_scheduled(self, *, queues: Collection[str] | None = None) -> Job | None:
        """Return the first readable queued job that is not due yet."""
        of_queues = queue_names(queues)
        with self._transaction() as transaction:
            future = [
                row
                for row in transaction.rows(JobStatus.QUEUED)
                if row.scheduled_at_ms > transaction.now
                and (of_queues is None or row.queue in of_queues)
            ]
            future.sort(key=soonest_first)
            return next(_readable(future), None)

    def handoffs_for_worker(self, worker_id: str) -> list[Handoff]:
        """Return what a worker holds and can be read."""
        worker = checks.text("worker_id", worker_id)
        with self._transaction() as transaction:
            held = [
                row
                for row in transaction.rows(JobStatus.HANDED_OFF)
                if row.worker_id == worker and read_or_log(row) is not None
            ]
            held.sort(key=lambda row: (row.handed_off_at_ms, row.id))
            return [read_handoff(row) for row in held]

    def counts(self) -> Mapping[JobStatus, int]:
        """Return how many jobs are in each status, unreadable ones included."""
        with self._transaction() as transaction:
            return {status: len(transaction.rows(status)) for status in JobStatus}


def _readable(rows: Iterable[JobRow]) -> Iterator[Job]:
    """Read rows one by one, leaving out and logging those that cannot be (M21)."""
    return (job for row in rows if (job := read_or_log(row)) is not None)


def _place(jobs: Mapping[str, JobRow], after: Job | str) -> tuple[int, str]:
    if isinstance(after, Job):
        # Its place in the order stays known when the job itself is pruned.
        return after.created_at_ms, after.id
    row = jobs.get(after)
    if row is None:
        raise InvalidOption("after", after, "must be a job or the id of a stored one")
    return oldest_first(row)
