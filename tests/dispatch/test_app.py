"""`JobApp`: enqueues, options, transactions, and the worker it owns."""

from datetime import timedelta

import pytest

from jobfence.dispatch import JobApp, Registry
from jobfence.statemachine.clock import DatabaseClock, ManualClock, SystemClock
from jobfence.statemachine.errors import (
    IdempotencyConflict,
    InvalidOption,
    UnknownJobName,
)
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import Job
from jobfence.store.memory import MemoryJobStore
from tests.dispatch.support import (
    START_MS,
    World,
    idle,
)


@pytest.fixture
def world() -> World:
    return World()


def only(world: World) -> Job:
    (job,) = world.store.list_jobs()
    return job


def test_a_function_is_enqueued_with_its_registered_defaults(world: World) -> None:
    @world.app.job("n", queue="media", max_retries=3, priority=5, timeout_ms=250)
    def n(a: int, *, b: int) -> None: ...

    job_id = world.app.enqueue(n, 1, b=2)
    job = only(world)
    assert (job.id, job.name, job.queue) == (job_id, "n", "media")
    assert (job.args, dict(job.kwargs)) == ((1,), {"b": 2})
    assert (job.max_retries, job.priority, job.timeout_ms) == (3, 5, 250)


def test_options_win_over_defaults_and_later_ones_over_earlier(world: World) -> None:
    world.app.job("n", queue="media", max_retries=3)(lambda: None)
    hurried = world.app.options(max_retries=0, queue="slow")
    hurried.options(queue="slower").enqueue("n")
    job = only(world)
    assert (job.queue, job.max_retries) == ("slower", 0)


def test_options_never_collide_with_the_job_s_own_keywords(world: World) -> None:
    @world.app.job("n")
    def n(job: str, self: str, queue: str, max_retries: int) -> None: ...

    world.app.enqueue(n, job="j", self="s", queue="q", max_retries=9)
    job = only(world)
    assert (job.queue, job.max_retries) == ("default", 10)
    assert job.kwargs == {"job": "j", "self": "s", "queue": "q", "max_retries": 9}


def test_D1_an_unregistered_name_is_refused_before_a_row_is_written(
    world: World,
) -> None:
    for enqueue in (world.app.enqueue, world.app.options(queue="q").enqueue):
        with pytest.raises(UnknownJobName):
            enqueue("n")
    assert world.store.list_jobs() == []
    assert world.staged.calls["enqueue"] == 0


def test_D1_an_unregistered_name_met_at_run_time_is_an_ordinary_failure(
    world: World,
) -> None:
    job_id = world.store.enqueue("gone", max_retries=0)
    with world.running() as worker:
        idle(worker)
    job = world.job(job_id)
    assert (job.status, job.attempts) == (JobStatus.FAILED, 1)
    assert "no job is registered as 'gone'" in str(job.last_error)


def test_arguments_that_do_not_fit_are_refused_before_a_row_is_written(
    world: World,
) -> None:
    @world.app.job("n")
    def n(a: int) -> None: ...

    with pytest.raises(InvalidOption, match="must fit job 'n'"):
        world.app.enqueue("n", b=1)
    assert world.store.list_jobs() == []


def test_unknown_options_are_refused(world: World) -> None:
    with pytest.raises(TypeError, match=r"prioriti.*; there are .*priority, queue"):
        world.app.options(prioriti=1)  # type: ignore[call-arg]


def test_enqueue_in_counts_from_the_app_s_clock_and_rounds_up(world: World) -> None:
    world.app.job("n")(lambda: None)
    world.app.enqueue_in("n", timedelta(microseconds=1500))
    assert only(world).scheduled_at_ms == START_MS + 2


@pytest.mark.parametrize(
    "delay", [timedelta(milliseconds=-1), timedelta.max, timedelta.min, 5, None]
)
def test_a_delay_that_is_none_is_refused(world: World, delay: object) -> None:
    world.app.job("n")(lambda: None)
    with pytest.raises(InvalidOption, match="delay"):
        world.app.enqueue_in("n", delay)  # type: ignore[call-overload]
    assert world.store.list_jobs() == []


def test_a_delay_beside_a_time_is_refused(world: World) -> None:
    world.app.job("n")(lambda: None)
    with pytest.raises(InvalidOption, match="scheduled_at must not be given beside"):
        world.app.options(scheduled_at=5).enqueue_in("n", timedelta(0))
    assert world.store.list_jobs() == []


def test_the_store_s_refusals_come_through(world: World) -> None:
    world.app.job("n")(lambda value: None)
    once = world.app.options(idempotency_key="once")
    once.enqueue("n", 1)
    with pytest.raises(IdempotencyConflict):
        once.enqueue("n", 2)
    with pytest.raises(InvalidOption, match=r"args\[0\]"):
        world.app.enqueue("n", float("nan"))


def test_an_app_may_share_a_registry() -> None:
    registry = Registry()
    registry.job("n")(lambda: None)
    one, two = (JobApp(MemoryJobStore(), registry=registry) for _ in range(2))
    assert one.enqueue("n") != two.enqueue("n")
    assert one.registry is two.registry


def test_an_app_goes_by_its_store_s_clock_if_that_can_be_read() -> None:
    class OnServer:
        """Times are the database server's: there is nothing to read here."""

        clock = DatabaseClock()

        def settle(self) -> None: ...

    store = MemoryJobStore(clock=ManualClock(7))
    assert JobApp(store).clock is store.clock
    on_server = JobApp(OnServer())  # type: ignore[arg-type]
    assert isinstance(on_server.clock, SystemClock)
    assert JobApp(store, clock=ManualClock(9)).clock.now_ms() == 9


def test_a_scheduled_job_has_the_defaults_of_its_registration(world: World) -> None:
    @world.app.job(
        "nightly", queue="reports", max_retries=0, deduplicate_while_queued=True
    )
    def nightly(day: int) -> None: ...

    first = world.app.replace_scheduled("nightly", nightly, 1)
    at = world.clock.now_ms() + 1000
    later = world.app.options(scheduled_at=at, priority=3)
    second = later.replace_scheduled("nightly", "nightly", day=2)
    assert second.previous_job_id == first.job_id
    assert world.status(first.job_id) is JobStatus.CANCELLED
    job = world.job(second.job_id)
    assert (job.queue, job.max_retries, job.priority) == ("reports", 0, 3)
    assert (job.kwargs, job.scheduled_at_ms) == ({"day": 2}, at)
    assert job.schedule_key == "nightly"


def test_a_schedule_is_of_a_registered_job_and_of_its_arguments(world: World) -> None:
    @world.app.job("nightly")
    def nightly(day: int) -> None: ...

    with pytest.raises(UnknownJobName, match="'nigthly'"):
        world.app.replace_scheduled("k", "nigthly", 1)
    with pytest.raises(InvalidOption, match="must fit job 'nightly'"):
        world.app.replace_scheduled("k", "nightly", 1, 2)
    with pytest.raises(InvalidOption, match="deduplicate_while_queued does not go"):
        world.app.options(deduplicate_while_queued=True).replace_scheduled(
            "k", nightly, 1
        )
    assert world.store.list_jobs() == []
