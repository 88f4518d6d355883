"""What only async stores can get wrong: calls at once in one loop, and cancelled ones."""

import asyncio

from functools import partial
from typing import Any

from jobfence.conformance.base import SuiteBase
from jobfence.conformance.bench import Bench
from jobfence.statemachine.options import JobRequest

BATCH = 3
# A call is cancelled after so many turns of the loop, each number once.
TURNS = range(12)


class Awaiting(SuiteBase):
    """Part of layer (b); skipped for a store that blocks."""

    def test_tasks_at_once_never_hold_one_job_twice(self, bench: Bench) -> None:
        """Rules M2 and C5: what is awaited between a look and a write changes nothing."""
        store = bench.open()
        store.enqueue("mail", concurrency_key="k", max_concurrency=2)
        answers = bench.at_once(store, *[lambda own: own.claim(1)] * 3)
        assert sorted(len(handoffs) for handoffs in answers) == [0, 0, 1]

    def test_a_cancelled_call_is_made_whole_or_not_at_all(self, bench: Bench) -> None:
        """Rule E6: wherever the task is cancelled; and the store goes on."""
        store = bench.open()
        for turns in TURNS:
            bench.at_once(store, partial(_cancelled, turns=turns))
            stored = len(store.list_jobs(name=f"after {turns}"))
            assert stored in (0, BATCH), (
                f"E6: cancelled after {turns} turns, {stored} jobs of {BATCH} are stored"
            )
        assert store.enqueue("mail")


async def _cancelled(store: Any, *, turns: int) -> None:
    """Enqueue a batch in a task that is cancelled after so many turns of the loop."""
    batch = [JobRequest(f"after {turns}", [each]) for each in range(BATCH)]
    task = asyncio.ensure_future(store.enqueue_many(batch))
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
