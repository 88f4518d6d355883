"""What a store lacks it refuses: an option or a call that it ignored would be a lie."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from jobfence.conformance.base import SuiteBase
from jobfence.conformance.bench import Bench
from jobfence.conformance.capabilities import Capability
from jobfence.conformance.picture import differences, take
from jobfence.conformance.whole import OF_CAPABILITY
from jobfence.statemachine.errors import InvalidOption, UnsupportedCapability
from jobfence.statemachine.options import JobRequest
from jobfence.store.contract import JobStore, OwnershipStore

ENQUEUES: dict[str, Callable[[JobStore], list[str]]] = {
    "enqueue": lambda store: [store.enqueue("mail", idempotency_key="i")],
    "enqueue_many": lambda store: store.enqueue_many(
        [JobRequest("scan", deduplicate_while_queued=True)]
        + [JobRequest("mail", idempotency_key="i")] * 2
    )[1:],
}


def refused(store: JobStore, call: Callable[[], object]) -> bool:
    """Whether the store says that it cannot do this; then it must have done nothing."""
    before = take(store)
    try:
        call()
    except UnsupportedCapability:
        wrote = differences(before, take(store))
        assert not wrote, f"what is refused wrote: {wrote}"
        return True
    return False


class Lacking(SuiteBase):
    """Part of layer (b). A store that has everything does all of it."""

    @pytest.mark.parametrize("call", [*ENQUEUES])
    def test_an_idempotency_key_is_honoured_or_refused(
        self, bench: Bench, call: str
    ) -> None:
        """Rule E5: a key that is ignored gives a second job where one was asked for."""
        store, ask = bench.open(), ENQUEUES[call]
        found: list[str] = []
        for _ in range(2):
            if refused(store, lambda: found.extend(ask(store))):
                assert found == [], "E5: refused once, and not at first"
                return
        assert len(set(found)) == 1, "E5: the idempotency key was ignored"

    @pytest.mark.parametrize(
        "capability", [*sorted(OF_CAPABILITY)], ids=lambda each: each.name
    )
    def test_a_call_does_what_it_says_or_is_refused(
        self, bench: Bench, capability: Capability
    ) -> None:
        """Rules K1, L2, R1, R2, R4, R5 and T3: no method is there for the look of it."""
        store = bench.open()
        for method in OF_CAPABILITY[capability]:
            if not callable(getattr(store, method, None)):
                return  # looked for before any test where it is declared
        does = DOES[capability]
        ended = store.enqueue("mail")
        store.cancel(ended)
        done: list[bool] = []
        if not refused(store, lambda: done.append(does(store, ended))):
            assert done == [True], f"{capability} is neither done nor refused"

    def test_a_transaction_is_entered_or_refused(self, bench: Bench) -> None:
        """Rule T1: a store that joins nothing must not pretend to."""
        store = cast("Any", bench.open())
        missing = Capability.AMBIENT_TRANSACTIONS not in self.capabilities
        if missing and callable(getattr(store, "within", None)):
            with pytest.raises((UnsupportedCapability, InvalidOption, TypeError)):
                store.within(object())


def _owns(store: JobStore, _ended: str) -> bool:
    row = cast("OwnershipStore", store)
    taken = row.acquire_ownership("w1", ttl_ms=5)
    return taken and not row.acquire_ownership("w2", ttl_ms=5)


def _pauses(store: JobStore, _ended: str) -> bool:
    store.pause_queue("default")
    store.enqueue("mail")
    return store.claim() == []


def _replaces(store: JobStore, _ended: str) -> bool:
    made = store.replace_scheduled("nightly", "mail")
    owner = store.scheduled_job("nightly").current
    return owner is not None and owner.id == made.job_id


def _wakes(store: JobStore, _ended: str) -> bool:
    woken: list[bool] = []
    store.on_commit_wake(lambda: woken.append(True))
    store.enqueue("mail")
    return woken != []


def _has_figures(store: JobStore, _ended: str) -> bool:
    return [each.queue for each in store.queue_stats()] == ["default"]


def _requeues(store: JobStore, ended: str) -> bool:
    copy = store.get(store.requeue(ended))
    return copy is not None and copy.origin_id == ended


def _prunes(store: JobStore, ended: str) -> bool:
    pruned = store.prune_terminal(cancelled_ttl_ms=0)
    return pruned == 1 and store.get(ended) is None


DOES: dict[Capability, Callable[[JobStore, str], bool]] = {
    Capability.OWNERSHIP: _owns,
    Capability.PAUSE: _pauses,
    Capability.QUEUE_STATS: _has_figures,
    Capability.REQUEUE: _requeues,
    Capability.RETENTION: _prunes,
    Capability.SCHEDULE_KEYS: _replaces,
    Capability.WAKE_UPS: _wakes,
}
