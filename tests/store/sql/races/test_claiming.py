"""Workers in threads and processes: each job once per handoff, each completed once."""

import time

from collections import Counter

import pytest

from jobfence.statemachine.options import JobRequest
from jobfence.statemachine.states import JobStatus
from tests.store.sql.races import tasks
from tests.store.sql.races.conftest import Note
from tests.store.sql.races.crew import in_processes
from tests.store.sql.races.place import Place

WORKERS = 8
JOBS = 2000


@pytest.mark.unnoted  # other processes write
def test_F64_eight_workers_claim_each_of_2000_jobs_once_per_handoff(
    place: Place, note: Note
) -> None:
    """Case F64: eight processes, or two of four threads; half of the jobs are capped."""
    threads = 4 if place.locks_rows else 1
    store = place.store()
    store.enqueue_many(
        [
            JobRequest(
                "job",
                [number],
                concurrency_key=f"k{number % 3}" if number % 2 else None,
                max_concurrency=20 if number % 2 else None,
            )
            for number in range(JOBS)
        ]
    )
    began = time.perf_counter()
    arguments = (place.url, place.prefix, threads)
    found = in_processes([(tasks.work_off, arguments)] * (WORKERS // threads))
    seconds = time.perf_counter() - began
    for _log, troubles in found:
        place.troubles.add(troubles)
    log = [entry for part, _ in found for entry in part]
    note(jobs=JOBS, seconds=round(seconds, 1), **dict(place.troubles.seen))

    handoff_ids = [handoff_id for _, handoff_id, _ in log]
    assert len(set(handoff_ids)) == len(handoff_ids) == JOBS + JOBS // 10
    completed = Counter(job_id for job_id, _, way in log if way == "completed")
    assert len(completed) == JOBS
    assert set(completed.values()) == {1}
    assert store.counts() == {
        status: JOBS if status is JobStatus.COMPLETED else 0 for status in JobStatus
    }
    assert sum(row["handoffs"] for row in place.jobs().values()) == len(log)
    assert all(active == 0 for active in place.counters().values())
    assert place.troubles.busy == place.troubles.deadlocks == 0
