"""Races that job queues have lost: two or three clients each."""

from typing import Any

from jobfence.conformance.sql.worlds import Claiming, Operation, Scenario
from jobfence.statemachine.policy import QueuePolicy
from jobfence.statemachine.table import Trigger
from jobfence.statemachine.values import Settlement
from jobfence.store.contract import JobStore

PAIR: dict[str, Any] = {"concurrency_key": "k", "max_concurrency": 1}
KEY = "nightly"
LONG_MS = 60_000


def _jobs(number: int, **options: Any) -> Operation:
    def before(store: JobStore) -> None:
        for each in range(number):
            store.enqueue("mail", [each], **options)

    return before


def _held(**options: Any) -> Operation:
    """Make a job that is held by `old`, and with a key a second one that waits."""

    def before(store: JobStore) -> None:
        job_id = store.enqueue("mail", **options)
        assert store.claim_job(job_id, handoff_id="old") is not None
        if options:
            store.enqueue("mail", [2], **options)

    return before


def _held_and_asked_to_stop(store: JobStore) -> object:
    _held(**PAIR)(store)
    return store.cancel(FIRST)


def _held_beside_another_key(store: JobStore) -> None:
    """Make a held job of one key, and two queued ones of another, whose cap is 1."""
    job_id = store.enqueue("mail", **PAIR)
    assert store.claim_job(job_id, handoff_id="old") is not None
    for each in range(2):
        store.enqueue("scan", [each], concurrency_key="m", max_concurrency=1)


# The scene's jobs are named by the order in which they were made.
FIRST = "s-1"


def _claim(limit: int = 1) -> Operation:
    return Claiming(limit)


def _complete(store: JobStore) -> object:
    return store.complete(FIRST, "old")


def _fail(store: JobStore) -> object:
    return store.fail(FIRST, "old", "boom")


def _return(store: JobStore) -> object:
    return store.return_to_queue(FIRST, "old")


def _recover(store: JobStore) -> object:
    return store.recover_expired()


def _cancel(store: JobStore) -> object:
    return store.cancel(FIRST)


def _replace(store: JobStore) -> object:
    return store.replace_scheduled(KEY, "scan", scheduled_at=10**9)


def _owner(store: JobStore) -> object:
    return store.replace_scheduled(KEY, "mail")


def _mend(store: JobStore) -> object:
    # Not the figures: those are of a look without locks.
    return bool(store.reconcile_active_concurrency().repairs)


_settle = Claiming(1, (Settlement(Trigger.COMPLETE, FIRST, "old"),))


def _dedupe(store: JobStore) -> object:
    return bool(store.enqueue("mail", [7], deduplicate_while_queued=True))


def _idempotent(store: JobStore) -> object:
    return bool(store.enqueue("mail", [7], idempotency_key="i"))


SCENARIOS = (
    Scenario("two claims, one job", "M2", _jobs(1), (_claim(), _claim())),
    Scenario("two claims, two jobs", "M2, O1", _jobs(2), (_claim(), _claim())),
    Scenario("two claims, cap 1", "C4, C5", _jobs(2, **PAIR), (_claim(), _claim())),
    Scenario(
        "two jobs of a key claimed by id",
        "C4, C5",
        _jobs(2, **PAIR),
        (lambda store: store.claim_job("s-1"), lambda store: store.claim_job("s-2")),
    ),
    Scenario(
        "a batch and a claim, cap 1", "C6", _jobs(3, **PAIR), (_claim(3), _claim())
    ),
    Scenario("a claim and a cancellation", "M2, M9", _jobs(1), (_claim(), _cancel)),
    Scenario(
        "completed twice at once", "M18, C5", _held(**PAIR), (_complete, _complete)
    ),
    Scenario(
        "two jobs claimed at once and a cancellation",
        "M2, M9",
        _jobs(2),
        (_claim(2), _cancel),
    ),
    Scenario("completed and failed", "M18", _held(**PAIR), (_complete, _fail)),
    Scenario(
        "a completion and a recovery",
        "M8, M18",
        _held(**PAIR),
        (_complete, _recover),
        wait_ms=LONG_MS,
    ),
    Scenario(
        "a completion and a recovery that aborts",
        "M15, M18",
        _held_and_asked_to_stop,
        (_complete, _recover),
        wait_ms=LONG_MS,
    ),
    Scenario(
        "a completion and a recovery without retries left",
        "M5, M18",
        _held(max_retries=0),
        (_complete, _recover),
        wait_ms=LONG_MS,
    ),
    Scenario(
        "two recoveries",
        "L4, M8",
        _held(**PAIR),
        (_recover, _recover),
        wait_ms=LONG_MS,
    ),
    Scenario(
        "a slot freed and claimed", "C4, C5", _held(**PAIR), (_complete, _claim())
    ),
    Scenario("returned and cancelled", "M7, M15", _held(), (_return, _cancel)),
    Scenario("returned and claimed", "M7, M2", _held(**PAIR), (_return, _claim())),
    Scenario("replaced and claimed", "K1, F41", _owner, (_replace, _claim())),
    Scenario("replaced twice", "K1, K3", _owner, (_replace, _replace)),
    Scenario(
        "replaced and cancelled by key",
        "K1",
        _owner,
        (_replace, lambda store: store.cancel_scheduled(KEY)),
    ),
    Scenario("one dedupe identity", "E4", _jobs(0), (_dedupe, _dedupe)),
    Scenario("one idempotency key", "E5", _jobs(0), (_idempotent, _idempotent)),
    Scenario("two settlements", "T5, C4", _held(**PAIR), (_settle, _complete)),
    Scenario(
        "a settlement that claims from another key and a claim, cap 1",
        "T5, C4",
        _held_beside_another_key,
        (_settle, _claim()),
    ),
    Scenario(
        "counters mended while one is freed",
        "C9",
        _held(**PAIR),
        (_complete, lambda store: store.reconcile_active_concurrency()),
    ),
    Scenario(
        "a drifted counter mended while a slot is freed",
        "C9, C5",
        _held(**PAIR),
        (_mend, _complete),
        drift=(("k", 3),),
        whole=False,  # it looks, and then mends each key by itself
    ),
    Scenario(
        "a policy and a claim",
        "C7, C8",
        _jobs(2),
        (
            _claim(),
            lambda store: store.reconcile_queue_policies({"default": QueuePolicy(1)}),
        ),
        whole=False,  # repeated at every start of a worker until it is done
    ),
)
