"""Rule D9: recover, repair, prune; each isolated, none needs a leader."""

import pytest

from jobfence.dispatch import Retention
from jobfence.dispatch.events import (
    CountersRepaired,
    EventHub,
    JobRecovered,
    JobsPruned,
)
from jobfence.dispatch.maintenance import RECOVER_BATCH, Maintenance
from jobfence.dispatch.settings import WorkerOptions, worker_settings
from jobfence.statemachine.errors import StoreUnavailable
from jobfence.statemachine.options import JobRequest
from jobfence.statemachine.states import JobStatus
from tests.dispatch.support import World


class Ticking:
    """Maintenance with a clock of its own, moved by hand."""

    def __init__(self, world: World, **options: int | Retention) -> None:
        self.world = world
        self.now_s = 100.0
        self.wakes = 0
        given: WorkerOptions = {
            "recover_every_ms": 5000,
            "repair_every_ms": 60_000,
            **options,  # type: ignore[typeddict-item]
        }
        self.maintenance = Maintenance(
            world.store,
            worker_settings(**given),
            EventHub("w", world.seen),
            wake=self.wake,
            monotonic=lambda: self.now_s,
        )

    def wake(self) -> None:
        self.wakes += 1

    def tick(self, seconds: float = 0.0) -> None:
        self.now_s += seconds
        self.maintenance.tick()


@pytest.fixture
def world() -> World:
    return World()


def expired(world: World, count: int) -> None:
    world.store.enqueue_many([JobRequest("n") for _ in range(count)])
    assert len(world.store.claim(count, lease_ms=1000)) == count
    world.clock.advance(1000)


def test_each_part_has_an_interval_of_its_own(world: World) -> None:
    ticking = Ticking(world)
    assert ticking.maintenance.interval_ms == 5000
    ticking.tick()
    assert dict(world.staged.calls) == {}
    ticking.tick(5)
    ticking.tick(5)
    ticking.tick(1)
    assert dict(world.staged.calls) == {"recover_expired": 2}
    ticking.tick(49)
    assert world.staged.calls["reconcile_active_concurrency"] == 1
    assert world.staged.calls["prune_terminal"] == 0


def test_a_timer_that_fires_a_little_early_does_not_skip_a_tick(world: World) -> None:
    ticking = Ticking(world)
    ticking.tick(4.999)
    assert world.staged.calls["recover_expired"] == 1


def test_recovery_goes_on_batch_by_batch_until_nothing_is_left(world: World) -> None:
    expired(world, RECOVER_BATCH + 1)
    ticking = Ticking(world)
    ticking.tick(5)
    assert world.staged.calls["recover_expired"] == 2
    assert len(world.seen.of(JobRecovered)) == RECOVER_BATCH + 1
    assert ticking.wakes == 2


def test_a_pass_that_finds_nothing_says_nothing(world: World) -> None:
    ticking = Ticking(world, retention=Retention())
    ticking.maintenance.run_all()
    assert (world.seen.events, ticking.wakes) == ([], 0)


def test_a_repair_is_told_and_wakes(world: World) -> None:
    world.store.enqueue("n", concurrency_key="k", max_concurrency=1)
    world.staged.real.data.edit_counter(  # type: ignore[attr-defined]
        "k", max_concurrency=1, active=17
    )
    ticking = Ticking(world)
    ticking.maintenance.run_all()
    (event,) = world.seen.of(CountersRepaired)
    (repair,) = event.summary.repairs
    assert (repair.concurrency_key, repair.previous_active_count) == ("k", 17)
    assert ticking.wakes == 1


def test_ended_jobs_are_pruned_if_that_is_configured(world: World) -> None:
    world.store.enqueue("n")
    (handoff,) = world.store.claim()
    world.store.complete(handoff.job.id, handoff.handoff_id)
    world.clock.advance(10)
    keep = Retention(completed_ttl_ms=10, failed_ttl_ms=None, every_ms=1000)
    ticking = Ticking(world, retention=keep)
    assert ticking.maintenance.interval_ms == 1000
    ticking.tick(1)
    assert world.store.counts()[JobStatus.COMPLETED] == 0
    assert [event.count for event in world.seen.of(JobsPruned)] == [1]


def test_the_error_of_one_part_does_not_stop_the_others(world: World) -> None:
    def refuse(*_args: object, **_options: object) -> None:
        raise StoreUnavailable("staged: down")

    world.staged.before["recover_expired"] = refuse
    world.staged.before["reconcile_active_concurrency"] = refuse
    world.store.enqueue("n")
    (handoff,) = world.store.claim()
    world.store.complete(handoff.job.id, handoff.handoff_id)
    ticking = Ticking(world, retention=Retention(completed_ttl_ms=0))
    ticking.maintenance.run_all()
    assert world.seen.stages() == ["recover", "repair"]
    assert len(world.seen.of(JobsPruned)) == 1


def test_a_stopped_worker_can_be_asked_for_maintenance(world: World) -> None:
    expired(world, 1)
    world.worker().maintain()
    assert world.store.counts()[JobStatus.QUEUED] == 1


def test_a_running_worker_ticks_by_itself(world: World) -> None:
    with world.running(recover_every_ms=1, queues=["other"]):
        expired(world, 1)
        world.seen.wait(JobRecovered)
