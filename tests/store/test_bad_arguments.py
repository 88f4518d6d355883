"""The stores refuse the same arguments in the same words, and none of them oddly."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jobfence.statemachine.errors import InvalidOption, JobfenceError
from jobfence.statemachine.policy import QueuePolicy
from jobfence.store import MemoryJobStore, SqlJobStore

CALLS: dict[str, Callable[[Any, Any], object]] = {
    "get": lambda store, bad: store.get(bad),
    "cancel": lambda store, bad: store.cancel(bad),
    "requeue": lambda store, bad: store.requeue(bad),
    "claim": lambda store, bad: store.claim(bad),
    "claim queues": lambda store, bad: store.claim(queues=bad),
    "claim modes": lambda store, bad: store.claim(execution_modes=bad),
    "claim worker": lambda store, bad: store.claim(worker_id=bad),
    "claim lease": lambda store, bad: store.claim(lease_ms=bad),
    "claim_job": lambda store, bad: store.claim_job(bad),
    "claim_job handoff": lambda store, bad: store.claim_job("j", handoff_id=bad),
    "claim_job worker": lambda store, bad: store.claim_job("j", worker_id=bad),
    "complete": lambda store, bad: store.complete(bad, "h"),
    "complete handoff": lambda store, bad: store.complete("j", bad),
    "fail": lambda store, bad: store.fail(bad, "h", "no"),
    "fail handoff": lambda store, bad: store.fail("j", bad, "no"),
    "fail error": lambda store, bad: store.fail("j", "h", bad),
    "reschedule": lambda store, bad: store.reschedule(bad, "h", delay_ms=1),
    "reschedule delay": lambda store, bad: store.reschedule("j", "h", delay_ms=bad),
    "return_to_queue": lambda store, bad: store.return_to_queue(bad, "h"),
    "extend_lease": lambda store, bad: store.extend_lease(bad, "h"),
    "extend_lease handoff": lambda store, bad: store.extend_lease("j", bad),
    "extend_lease lease": lambda store, bad: store.extend_lease("j", "h", lease_ms=bad),
    "extend_leases": lambda store, bad: store.extend_leases(bad),
    "extend_leases of": lambda store, bad: store.extend_leases([bad]),
    "settle": lambda store, bad: store.settle(bad),
    "settle of": lambda store, bad: store.settle([bad]),
    "settle claim": lambda store, bad: store.settle([], claim=bad),
    "enqueue_many": lambda store, bad: store.enqueue_many(bad),
    "enqueue_many of": lambda store, bad: store.enqueue_many([bad]),
    "policies": lambda store, bad: store.reconcile_queue_policies(bad),
    "policies of": lambda store, bad: store.reconcile_queue_policies({"q": bad}),
    "release_others": lambda store, bad: store.reconcile_queue_policies(
        {"q": QueuePolicy(1)}, release_others=bad
    ),
    "list status": lambda store, bad: store.list_jobs(status=bad),
    "list queue": lambda store, bad: store.list_jobs(queue=bad),
    "list name": lambda store, bad: store.list_jobs(name=bad),
    "list limit": lambda store, bad: store.list_jobs(limit=bad),
    "list after": lambda store, bad: store.list_jobs(after=bad),
    "next_available": lambda store, bad: store.next_available(queues=bad),
    "next_scheduled": lambda store, bad: store.next_scheduled(queues=bad),
    "recover_expired": lambda store, bad: store.recover_expired(limit=bad),
    "handoffs_for_worker": lambda store, bad: store.handoffs_for_worker(bad),
    "set_concurrency": lambda store, bad: store.set_concurrency(bad, 1),
    "set_concurrency cap": lambda store, bad: store.set_concurrency("k", bad),
    "pause_queue": lambda store, bad: store.pause_queue(bad),
    "resume_queue": lambda store, bad: store.resume_queue(bad),
    "prune": lambda store, bad: store.prune_terminal(completed_ttl_ms=bad),
    "prune batch": lambda store, bad: store.prune_terminal(batch_size=bad),
    "acquire_ownership": lambda store, bad: store.acquire_ownership(bad, ttl_ms=1),
    "acquire ttl": lambda store, bad: store.acquire_ownership("w", ttl_ms=bad),
    "release_ownership": lambda store, bad: store.release_ownership(bad),
    "scheduled_job": lambda store, bad: store.scheduled_job(bad),
    "cancel_scheduled": lambda store, bad: store.cancel_scheduled(bad),
    "wake_scheduled": lambda store, bad: store.wake_scheduled(bad),
    "replace_scheduled": lambda store, bad: store.replace_scheduled(bad, "n"),
    "replace name": lambda store, bad: store.replace_scheduled("k", bad),
}
BAD = [
    None,
    5,
    -1,
    True,
    1.5,
    float("nan"),
    b"x",
    [],
    {},
    (),
    "",
    "\ud800",
    "a\0b",
    "x" * 300,
    10**30,
    object(),
]


@pytest.fixture(scope="module")
def sql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlJobStore]:
    path: Path = tmp_path_factory.mktemp("jobs") / "jobs.db"
    store = SqlJobStore(f"sqlite:///{path}")
    store.ensure_ready()
    yield store
    store.close()


def answer(call: Callable[[Any, Any], object], store: object, bad: object) -> str:
    """Return what a caller is told; no error but the library's own comes through."""
    try:
        return f"answered with a {type(call(store, bad)).__name__}"
    except JobfenceError as refusal:
        return f"{type(refusal).__name__}: {refusal}"


@pytest.mark.parametrize("name", [*CALLS])
def test_a_bad_argument_is_told_alike_by_both_stores(
    sql: SqlJobStore, name: str
) -> None:
    for bad in BAD:
        sql.clear()
        memory = MemoryJobStore()
        told = answer(CALLS[name], memory, bad)
        assert answer(CALLS[name], sql, bad) == told, repr(bad)
        assert sql.counts() == memory.counts()


@pytest.mark.parametrize("status", ["failed", "queued"])
def test_a_status_may_be_given_by_its_name(sql: SqlJobStore, status: str) -> None:
    for store in (sql, MemoryJobStore()):
        store.clear()
        job_id = store.enqueue("n")
        found = store.list_jobs(status=status)  # type: ignore[arg-type]
        assert [job.id for job in found] == ([job_id] if status == "queued" else [])


@pytest.mark.parametrize("of", ["clock", "retry_policy", "ids", "handoff_ids"])
def test_a_part_that_cannot_do_its_work_is_refused_by_both(of: str) -> None:
    bad: Any = {of: 5}
    for store in (MemoryJobStore, lambda **given: SqlJobStore("sqlite://", **given)):
        with pytest.raises(InvalidOption, match=f"^{of} must"):
            store(**bad)


def test_a_clock_that_tells_fractions_writes_nothing(sql: SqlJobStore) -> None:
    class Fractions:
        def now_ms(self) -> float:
            return 1000.5

    clock: Any = Fractions()
    for store, seen in (
        (SqlJobStore(sql.engine, clock=clock), sql),
        (MemoryJobStore(clock=clock), None),
    ):
        sql.clear()
        for call in (lambda store=store: store.enqueue("n"), store.claim):
            with pytest.raises(
                InvalidOption, match=r"^clock must tell the time in int"
            ):
                call()
        if seen is not None:
            assert sum(seen.counts().values()) == 0
