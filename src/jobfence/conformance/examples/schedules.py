"""Rules K: stable schedule keys."""

from typing import Any

import pytest

from jobfence.conformance.base import SuiteBase
from jobfence.conformance.bench import START_MS, Bench, held, there
from jobfence.conformance.capabilities import Capability, requires
from jobfence.statemachine.errors import ConcurrencyConflict, InvalidOption
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import (
    Cancellation,
    CancelOutcome,
    Replacement,
    Wake,
    WakeOutcome,
)
from jobfence.store.contract import JobStore

KEY = "event:42:reminder:24h"
NOTHING_CANCELLED = Cancellation(None, CancelOutcome.NOT_FOUND)


def current(store: JobStore, key: str = KEY) -> str | None:
    """Return the id of the key's active owner."""
    found = store.scheduled_job(key).current
    return None if found is None else found.id


def latest(store: JobStore, key: str = KEY) -> str | None:
    """Return the id of the key's latest ended job."""
    found = store.scheduled_job(key, include_latest_terminal=True).latest_terminal
    return None if found is None else found.id


class Schedules(SuiteBase):
    """Part of layer (b)."""

    @requires(Capability.SCHEDULE_KEYS)
    def test_a_queued_owner_is_replaced(self, bench: Bench) -> None:
        """Rules K and K3, cases A50, A118."""
        store = bench.open()
        first = store.replace_scheduled(
            KEY, "mail", [42, 1], scheduled_at=START_MS + 60_000
        )
        assert first == Replacement(first.job_id, None, None)
        second = store.replace_scheduled(
            KEY, "mail", [42, 2], scheduled_at=START_MS + 120_000
        )
        assert second == Replacement(second.job_id, first.job_id, JobStatus.QUEUED)
        old, new = there(store, first.job_id), there(store, second.job_id)
        assert (old.status, old.schedule_key) == (JobStatus.CANCELLED, KEY)
        assert old.cancelled_at_ms == START_MS
        assert (new.status, new.schedule_key) == (JobStatus.QUEUED, KEY)
        assert (old.schedule_order, new.schedule_order) == (1, 2)
        assert (current(store), latest(store)) == (new.id, old.id)

    @requires(Capability.SCHEDULE_KEYS)
    def test_a_schedule_key_and_a_concurrency_key_may_be_one_text(
        self, bench: Bench
    ) -> None:
        """Rules C1 and K: they name different things."""
        store = bench.open()
        for _ in range(2):
            owner = store.replace_scheduled(KEY, "mail")
        pair: dict[str, Any] = {"concurrency_key": KEY, "max_concurrency": 1}
        store.enqueue("scan", **pair)
        other = store.enqueue("scan", **pair)
        assert len(store.claim(3)) == 2
        assert current(store) == owner.job_id
        assert there(store, other).status is JobStatus.QUEUED

    @requires(Capability.SCHEDULE_KEYS)
    def test_a_running_owner_is_detached(self, bench: Bench) -> None:
        """Rules K0 and K2, cases A53, A122, F40: it runs on, and owns nothing."""
        store = bench.open()
        old = store.replace_scheduled(KEY, "mail").job_id
        handoff = held(store, old)
        with_status = store.replace_scheduled(
            KEY, "mail", scheduled_at=START_MS + 60_000
        )
        assert with_status.previous_status is JobStatus.HANDED_OFF
        new = with_status.job_id
        assert there(store, old).status is JobStatus.HANDED_OFF
        assert store.complete(old, handoff.handoff_id).accepted
        assert (current(store), latest(store)) == (new, old)
        assert store.cancel_scheduled(KEY) == Cancellation(new, CancelOutcome.CANCELLED)

    @requires(Capability.SCHEDULE_KEYS)
    def test_a_detached_job_never_takes_the_key_back(self, bench: Bench) -> None:
        """Rule K2: it retries, comes back and ends without touching the owner."""
        store = bench.open()
        old = store.replace_scheduled(KEY, "mail", max_retries=1).job_id
        handoff = held(store, old)
        new = store.replace_scheduled(KEY, "scan", scheduled_at=START_MS + 10**7).job_id
        store.fail(old, handoff.handoff_id, "no")
        assert current(store) == new
        bench.clock.advance(10_000)
        store.fail(old, held(store, old).handoff_id, "no")
        assert there(store, old).status is JobStatus.FAILED
        assert current(store) == new

    @requires(Capability.SCHEDULE_KEYS)
    def test_an_owner_keeps_its_key_until_it_ends(self, bench: Bench) -> None:
        """Rule K2: through claim, return, reschedule and retry."""
        store = bench.open()
        job_id = store.replace_scheduled(KEY, "mail").job_id
        store.return_to_queue(job_id, held(store, job_id).handoff_id)
        assert current(store) == job_id
        store.reschedule(job_id, held(store, job_id).handoff_id, delay_ms=5)
        bench.clock.advance(5)
        store.fail(job_id, held(store, job_id).handoff_id, "no")
        assert current(store) == job_id
        bench.clock.advance(10_000)
        store.complete(job_id, held(store, job_id).handoff_id)
        assert (current(store), latest(store)) == (None, job_id)
        assert store.cancel_scheduled(KEY) == NOTHING_CANCELLED
        assert there(store, job_id).schedule_key == KEY

    @requires(Capability.SCHEDULE_KEYS)
    def test_a_queued_owner_is_cancelled_once(self, bench: Bench) -> None:
        """Rule K, cases A52, A119."""
        store = bench.open()
        job_id = store.replace_scheduled(KEY, "mail").job_id
        assert store.cancel_scheduled(KEY) == Cancellation(
            job_id, CancelOutcome.CANCELLED
        )
        assert store.claim(5) == []
        with bench.unchanged(store, "K"):
            assert store.cancel_scheduled(KEY) == NOTHING_CANCELLED
        assert (current(store), latest(store)) == (None, job_id)

    @requires(Capability.SCHEDULE_KEYS)
    def test_a_running_owner_is_marked_and_does_not_run_again(
        self, bench: Bench
    ) -> None:
        """Rules K and M15, case A121."""
        store = bench.open()
        job_id = store.replace_scheduled(KEY, "mail").job_id
        handoff = held(store, job_id)
        assert store.cancel_scheduled(KEY) == Cancellation(
            job_id, CancelOutcome.HANDED_OFF
        )
        job = there(store, job_id)
        assert (job.status, job.cancel_requested) == (JobStatus.HANDED_OFF, True)
        assert current(store) is None
        store.return_to_queue(job_id, handoff.handoff_id)
        assert there(store, job_id).status is JobStatus.CANCELLED

    @requires(Capability.SCHEDULE_KEYS)
    def test_an_owner_cancelled_by_its_id_gives_up_the_key(self, bench: Bench) -> None:
        """Rule K2: any terminal transition of the owner."""
        store = bench.open()
        job_id = store.replace_scheduled(KEY, "mail").job_id
        store.cancel(job_id)
        assert (current(store), latest(store)) == (None, job_id)
        again = store.replace_scheduled(KEY, "mail")
        assert (again.previous_job_id, again.previous_status) == (None, None)

    @requires(Capability.SCHEDULE_KEYS)
    def test_waking_makes_a_future_owner_due(self, bench: Bench) -> None:
        """Rules M10 and K, cases A58, A131."""
        store = bench.open()
        job_id = store.replace_scheduled(KEY, "mail").job_id
        store.fail(job_id, held(store, job_id).handoff_id, "no")
        assert there(store, job_id).scheduled_at_ms == START_MS + 10_000
        bench.clock.advance(1_000)
        assert store.wake_scheduled(KEY) == Wake(job_id, WakeOutcome.WOKEN)
        job = there(store, job_id)
        assert (job.scheduled_at_ms, job.attempts) == (START_MS + 1_000, 1)
        assert job.last_error == "no"
        with bench.unchanged(store, "K"):
            assert store.wake_scheduled(KEY) == Wake(job_id, WakeOutcome.ALREADY_DUE)
        handoff = held(store, job_id)
        with bench.unchanged(store, "K"):
            assert store.wake_scheduled(KEY) == Wake(job_id, WakeOutcome.HANDED_OFF)
        store.complete(job_id, handoff.handoff_id)
        with bench.unchanged(store, "K"):
            assert store.wake_scheduled(KEY) == Wake(None, WakeOutcome.NOT_FOUND)
        assert len(store.list_jobs()) == 1

    @requires(Capability.SCHEDULE_KEYS)
    def test_waking_makes_nothing_else_due(self, bench: Bench) -> None:
        """Rules M10 and K: another job of the same time waits on."""
        store = bench.open()
        at = START_MS + 60_000
        owner = store.replace_scheduled(KEY, "mail", scheduled_at=at).job_id
        beside = store.enqueue("mail", scheduled_at=at)
        assert store.wake_scheduled(KEY) == Wake(owner, WakeOutcome.WOKEN)
        assert there(store, beside).scheduled_at_ms == at
        assert [each.job.id for each in store.claim(5)] == [owner]

    @requires(Capability.SCHEDULE_KEYS)
    def test_the_latest_is_so_by_order_and_not_by_the_clock(self, bench: Bench) -> None:
        """Rule K: the clock is set back between two owners."""
        store = bench.open()
        for name in ("first", "second"):
            job_id = store.replace_scheduled(KEY, name).job_id
            store.complete(job_id, held(store, job_id).handoff_id)
            bench.clock.advance(-500)
        assert latest(store) == job_id

    @requires(Capability.SCHEDULE_KEYS)
    def test_an_unknown_key_owns_nothing(self, bench: Bench) -> None:
        """Rule K."""
        store = bench.open()
        with bench.unchanged(store, "K"):
            assert store.cancel_scheduled(KEY) == NOTHING_CANCELLED
            assert store.wake_scheduled(KEY) == Wake(None, WakeOutcome.NOT_FOUND)
            assert (current(store), latest(store)) == (None, None)

    @requires(Capability.SCHEDULE_KEYS)
    def test_keys_are_apart_byte_by_byte(self, bench: Bench) -> None:
        """Rules K and E1."""
        store = bench.open()
        keys = ("K", "k", "k ")
        owners = [store.replace_scheduled(key, "mail").job_id for key in keys]
        assert [current(store, key) for key in keys] == owners

    @requires(Capability.SCHEDULE_KEYS)
    @pytest.mark.parametrize("key", ["", "k" * 256, "a\0b"])
    def test_a_bad_key_is_refused(self, bench: Bench, key: str) -> None:
        """Rules K and E1, case A125."""
        store = bench.open()
        with bench.unchanged(store, "E1"):
            with pytest.raises(InvalidOption):
                store.replace_scheduled(key, "mail")
            with pytest.raises(InvalidOption):
                store.cancel_scheduled(key)
            with pytest.raises(InvalidOption):
                store.wake_scheduled(key)

    @requires(Capability.SCHEDULE_KEYS)
    @pytest.mark.parametrize("option", ["deduplicate_while_queued", "idempotency_key"])
    def test_a_replacement_takes_no_identity(self, bench: Bench, option: str) -> None:
        """Rule K3."""
        store = bench.open()
        given: dict[str, Any] = {option: True if option[0] == "d" else "i"}
        with bench.unchanged(store, "K3"), pytest.raises(InvalidOption):
            store.replace_scheduled(KEY, "mail", **given)

    @requires(Capability.SCHEDULE_KEYS)
    def test_a_cap_conflict_leaves_the_old_owner(self, bench: Bench) -> None:
        """Rules C3 and K: the cap is checked before the old owner is touched."""
        store = bench.open()
        store.set_concurrency("k", 1)
        owner = store.replace_scheduled(KEY, "mail").job_id
        with bench.unchanged(store, "C3"), pytest.raises(ConcurrencyConflict):
            store.replace_scheduled(KEY, "mail", concurrency_key="k", max_concurrency=2)
        assert current(store) == owner

    @requires(Capability.SCHEDULE_KEYS, Capability.RETENTION)
    def test_the_order_is_never_used_again(self, bench: Bench) -> None:
        """Rule K3, case A130: also after pruning."""
        store = bench.open()
        for _ in range(2):
            job_id = store.replace_scheduled(KEY, "mail").job_id
            store.complete(job_id, held(store, job_id).handoff_id)
        assert store.prune_terminal(completed_ttl_ms=0) == 2
        job_id = store.replace_scheduled(KEY, "mail").job_id
        assert there(store, job_id).schedule_order == 3

    @requires(Capability.SCHEDULE_KEYS)
    def test_the_latest_ended_is_the_latest_owner(self, bench: Bench) -> None:
        """Rule K3, case A56: by order, not by the time of its end."""
        store = bench.open()
        first = store.replace_scheduled(KEY, "mail").job_id
        handoff = held(store, first)
        second = store.replace_scheduled(KEY, "mail").job_id
        store.cancel_scheduled(KEY)
        bench.clock.advance(5)
        store.complete(first, handoff.handoff_id)
        assert latest(store) == second

    @requires(Capability.SCHEDULE_KEYS)
    def test_ownership_outlives_the_process(self, bench: Bench) -> None:
        """Rule K2, case A55."""
        store = bench.open()
        ids = [store.replace_scheduled(KEY, "mail", [each]).job_id for each in (1, 2)]
        bench.close(store)
        again = bench.open()
        assert (current(again), latest(again)) == (ids[1], ids[0])
