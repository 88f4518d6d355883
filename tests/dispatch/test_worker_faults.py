"""The acceptance cases of calls that fail and counters that are wrong, by their ids."""

from jobfence.dispatch import Reschedule
from jobfence.dispatch.events import (
    CountersRepaired,
    FrameworkError,
    JobCompleted,
    JobReturned,
)
from jobfence.statemachine.clock import ManualClock
from jobfence.statemachine.errors import StoreUnavailable
from jobfence.statemachine.policy import QueuePolicy
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import Settlement
from jobfence.store.memory import MemoryJobStore
from tests.dispatch.support import (
    START_MS,
    World,
    idle,
    once,
)


def refuse_settling(world: World, trigger: str) -> None:
    """Refuse the first `settle` with an acknowledgement of this kind, once."""
    left = [StoreUnavailable("staged: the acknowledgement is refused")]

    def refuse(acks: list[Settlement], **_options: object) -> None:
        if left and any(ack.trigger == trigger for ack in acks):
            raise left.pop()

    world.staged.before["settle"] = refuse


def test_A46_a_failure_that_could_not_be_stored_is_stored_later() -> None:
    world = World()
    runs: list[str] = []

    @world.app.job("bad", max_retries=0)
    def bad() -> None:
        raise ValueError("bad")

    world.app.job("good")(lambda: runs.append("run"))
    refuse_settling(world, "fail")
    bad_id, good_id = world.app.enqueue(bad), world.app.enqueue("good")
    with world.running(concurrency=1) as worker:
        idle(worker)
    job = world.job(bad_id)
    assert (job.status, job.attempts, job.handoffs) == (JobStatus.FAILED, 1, 1)
    assert world.status(good_id) is JobStatus.COMPLETED
    assert runs == ["run"]
    assert world.seen.stages() == ["acknowledge"]


def test_A47_a_reschedule_that_could_not_be_stored_is_stored_later() -> None:
    world = World()
    runs: list[str] = []

    @world.app.job("later", max_retries=0)
    def later() -> None:
        runs.append("run")
        if len(runs) == 1:
            raise Reschedule(500)

    world.app.job("good")(lambda: None)
    refuse_settling(world, "reschedule")
    later_id, good_id = world.app.enqueue(later), world.app.enqueue("good")
    with world.running(concurrency=1) as worker:
        idle(worker)
        job = world.job(later_id)
        assert (job.status, job.attempts) == (JobStatus.QUEUED, 0)
        assert job.scheduled_at_ms == START_MS + 500
        assert world.status(good_id) is JobStatus.COMPLETED
        world.clock.advance(500)
        idle(worker)
    assert world.status(later_id) is JobStatus.COMPLETED
    assert len(runs) == 2


def test_A157_a_claim_whose_answer_was_lost_is_given_back_and_run_once() -> None:
    world = World()
    runs: list[str] = []
    world.app.job("n")(lambda: runs.append("run"))
    job_id = world.app.enqueue("n")
    world.staged.after["settle"] = once(StoreUnavailable("staged", in_doubt=True))
    with world.running() as worker:
        idle(worker)
    (returned,) = world.seen.of(JobReturned)
    assert returned.job is not None
    assert (returned.job.status, returned.job.handoff_id) == (JobStatus.QUEUED, None)
    assert returned.job.lease_expires_at_ms is None
    job = world.job(job_id)
    assert (job.status, job.attempts, job.handoffs) == (JobStatus.COMPLETED, 0, 2)
    assert runs == ["run"]


def test_A166_one_maintenance_tick_mends_a_counter_and_the_job_runs() -> None:
    store = MemoryJobStore(
        clock=ManualClock(START_MS), queues={"limited": QueuePolicy(1)}
    )
    world = World(store)
    world.app.job("n", queue="limited")(lambda: None)
    job_id = world.app.enqueue("n")
    store.data.edit_counter("queue:limited", max_concurrency=1, active=1)
    with world.running() as worker:
        idle(worker)
        assert world.status(job_id) is JobStatus.QUEUED
        worker.maintain()
        idle(worker)
    assert world.status(job_id) is JobStatus.COMPLETED
    (repaired,) = world.seen.of(CountersRepaired)
    assert repaired.summary.repaired_count == 1


def test_F20_an_outcome_whose_write_raises_is_written_again() -> None:
    world = World()

    class Unprintable(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    @world.app.job("n", max_retries=0)
    def n() -> None:
        raise Unprintable

    world.staged.before["settle"] = lambda acks, **_: hook(acks)
    errors = [RuntimeError("staged"), RuntimeError("staged again")]

    def hook(acks: list[Settlement]) -> None:
        if acks and errors:
            raise errors.pop()

    job_id = world.app.enqueue(n)
    with world.running() as worker:
        idle(worker)
    job = world.job(job_id)
    assert (job.status, job.attempts, job.handoffs) == (JobStatus.FAILED, 1, 1)
    assert len(world.seen.of(FrameworkError)) == 2


def test_a_lost_reply_is_not_mistaken_for_a_stale_handoff() -> None:
    world = World()
    world.app.job("n")(lambda: None)
    left = [StoreUnavailable("staged", in_doubt=True)]

    def lose(acks: list[Settlement], **_options: object) -> None:
        if acks and left:
            raise left.pop()

    world.staged.after["settle"] = lose
    job_id = world.app.enqueue("n")
    with world.running() as worker:
        idle(worker)
    assert world.status(job_id) is JobStatus.COMPLETED
    assert len(world.seen.of(JobCompleted)) == 1
    assert world.seen.stages() == ["acknowledge"]
