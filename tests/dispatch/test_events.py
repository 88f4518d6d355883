"""Rule D7: events, counters, log lines; a listener hurts nobody."""

import asyncio
import logging

from collections.abc import Iterator

import pytest

from jobfence.dispatch.acks import announce
from jobfence.dispatch.events import (
    EventHub,
    FrameworkError,
    JobCancelled,
    JobCompleted,
    JobFailed,
    JobReturned,
    JobStarted,
    WorkerEvent,
    WorkerStarted,
    WorkerStopped,
)
from jobfence.statemachine.clock import ManualClock
from jobfence.statemachine.errors import RetryableError, StoreUnavailable
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import Ack, AckResult, Settlement
from jobfence.store.memory import MemoryJobStore
from tests.dispatch.support import START_MS, Recorder, World, idle, stopped


def test_names_are_the_words_of_the_class() -> None:
    assert WorkerStarted(worker_id="w").name == "worker_started"


def test_a_listener_that_raises_is_logged_and_the_next_one_is_called(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen = Recorder()

    def broken(_event: WorkerEvent) -> None:
        raise RuntimeError("staged")

    hub = EventHub("w", [broken, seen])
    hub.emit(WorkerStarted(worker_id="w"))
    assert len(seen.of(WorkerStarted)) == 1
    assert "an event listener raised on worker_started" in caplog.text
    assert hub.counters == {"worker_started": 1}


@pytest.mark.parametrize(
    "kind", [SystemExit, KeyboardInterrupt, asyncio.CancelledError, GeneratorExit]
)
def test_what_would_end_a_thread_ends_no_further_than_the_listener(
    kind: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    seen = Recorder()

    def leaving(_event: WorkerEvent) -> None:
        raise kind("staged")

    EventHub("w", [leaving, seen]).emit(WorkerStarted(worker_id="w"))
    assert len(seen.of(WorkerStarted)) == 1
    assert "an event listener raised on worker_started" in caplog.text
    assert f"{kind.__name__}: staged" in caplog.text


@pytest.mark.parametrize("kind", [JobStarted, JobCompleted, WorkerStopped])
def test_a_listener_that_exits_ends_no_thread_of_a_worker(
    kind: type[WorkerEvent],
) -> None:
    world = World()

    def leaving(event: WorkerEvent) -> None:
        if isinstance(event, kind):
            raise SystemExit("staged")

    world.listeners.insert(0, leaving)
    world.app.job("n")(lambda: None)
    for _ in range(2):
        world.app.enqueue("n")
    worker = world.worker(concurrency=1)
    worker.start()
    idle(worker)
    assert worker.health().in_flight == 0
    stopped(worker)
    assert world.store.counts()[JobStatus.COMPLETED] == 2
    assert len(world.seen.of(JobCompleted)) == 2


class BrokenLog(logging.Handler):
    """A handler, and a filter, that raise."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error

    def emit(self, _record: logging.LogRecord) -> None:
        raise self.error

    def refuse(self, _record: logging.LogRecord) -> bool:
        raise self.error


class TestBrokenLogs:
    """A log that cannot be written to is no reason to stop."""

    @pytest.fixture(params=[ConnectionError, SystemExit])
    def broken(self, request: pytest.FixtureRequest) -> Iterator[BrokenLog]:
        handler = BrokenLog(request.param("staged: no log server"))
        logger = logging.getLogger("jobfence")
        logger.addHandler(handler)
        yield handler
        logger.removeHandler(handler)
        logger.removeFilter(handler.refuse)

    def test_a_worker_whose_log_lines_fail_goes_on_and_can_be_stopped(
        self, broken: BrokenLog
    ) -> None:
        assert broken.error is not None
        world = World()

        @world.app.job("n", max_retries=0)
        def n() -> None:
            raise ValueError("staged")

        for _ in range(2):
            world.app.enqueue(n)
        worker = world.worker(concurrency=1)
        worker.start()
        idle(worker)
        assert worker.health().in_flight == 0
        stopped(worker)
        assert world.store.counts()[JobStatus.FAILED] == 2
        assert len(world.seen.of(JobFailed)) == 2

    def test_the_listeners_are_called_all_the_same(self, broken: BrokenLog) -> None:
        seen = Recorder()
        logging.getLogger("jobfence").addFilter(broken.refuse)
        EventHub("w", seen).error("claim", RuntimeError("staged"))
        assert seen.stages() == ["claim"]

    def test_a_listener_that_raises_need_not_be_logged_to_be_isolated(
        self, broken: BrokenLog, capsys: pytest.CaptureFixture[str]
    ) -> None:
        seen = Recorder()

        def leaving(_event: WorkerEvent) -> None:
            raise SystemExit("staged: leaving")

        broken.setLevel(logging.ERROR)
        EventHub("w", [leaving, seen]).emit(WorkerStarted(worker_id="w"))
        assert len(seen.of(WorkerStarted)) == 1
        assert "staged: leaving" in capsys.readouterr().err

    def test_standard_error_is_told_once_what_is_wrong(
        self, broken: BrokenLog, capsys: pytest.CaptureFixture[str]
    ) -> None:
        hub = EventHub("w")
        for _ in range(3):
            hub.error("claim", RuntimeError("staged"))
        told = capsys.readouterr().err
        assert told.count("log line of framework_error was lost") == 1
        assert told.count(str(broken.error)) == 1
        assert hub.counters == {"framework_error": 3}

    def test_logging_may_be_told_to_keep_its_errors_to_itself(
        self,
        broken: BrokenLog,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(logging, "raiseExceptions", False)
        EventHub("w").error("claim", RuntimeError(str(broken.error)))
        assert capsys.readouterr().err == ""

    def test_there_need_be_no_standard_error(
        self, broken: BrokenLog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen = Recorder()
        monkeypatch.setattr("sys.stderr", None)
        EventHub("w", seen).error("claim", RuntimeError(str(broken.error)))
        assert seen.stages() == ["claim"]


def test_an_error_without_a_text_is_logged_without_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Unprintable(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    EventHub("w").error("claim", Unprintable())
    assert "framework_error worker_id=w stage=claim error=" in caplog.text
    assert "Unprintable object at" in caplog.text


def test_one_listener_several_or_none_may_be_given() -> None:
    seen = Recorder()
    for listeners in (seen, [seen], None, ()):
        EventHub("w", listeners).emit(WorkerStarted(worker_id="w"))
    assert len(seen.events) == 2


def test_counters_are_a_copy() -> None:
    hub = EventHub("w")
    before = hub.counters
    hub.emit(WorkerStarted(worker_id="w"))
    assert (before, hub.counters) == ({}, {"worker_started": 1})


def test_log_lines_are_structured(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "jobfence")
    world = World()

    @world.app.job("my job", max_retries=0)
    def my_job() -> None:
        raise ValueError("staged")

    job_id = world.app.enqueue(my_job)
    with world.running(worker_id="w") as worker:
        idle(worker)
    (record,) = [r for r in caplog.records if r.getMessage().startswith("job_failed")]
    line = record.getMessage()
    for part in (
        "worker_id=w",
        f"job_id={job_id}",
        "job_name='my job'",
        "queue=default",
        "status=failed",
        "attempts=1",
        "will_retry=False",
        "terminal=True",
    ):
        assert part in line
    assert record.levelno == logging.WARNING
    details = record.__dict__["jobfence"]
    assert (record.__dict__["jobfence_event"], details["job_id"]) == (
        "job_failed",
        job_id,
    )


def test_errors_of_the_worker_are_logged_with_their_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen = Recorder()
    hub = EventHub("w", seen)
    with pytest.raises(RuntimeError) as raised:
        raise RuntimeError("staged")
    hub.error("claim", raised.value)
    (event,) = seen.of(FrameworkError)
    assert (event.stage, str(event.error)) == ("claim", "staged")
    assert "framework_error worker_id=w stage=claim error=staged" in caplog.text
    assert "Traceback" in caplog.text


@pytest.mark.parametrize("kind", [StoreUnavailable, RetryableError])
@pytest.mark.parametrize(
    ("stage", "level", "shown"),
    [
        ("claim", logging.INFO, False),
        ("claim", logging.DEBUG, True),
        ("after_completion", logging.INFO, True),
    ],
)
def test_a_database_that_is_gone_is_told_in_one_line_unless_all_is_asked_for(
    caplog: pytest.LogCaptureFixture,
    kind: type[Exception],
    stage: str,
    level: int,
    shown: bool,  # noqa: FBT001  pytest gives it by name
) -> None:
    caplog.set_level(level, "jobfence")
    with pytest.raises(kind) as raised:
        raise kind("connection refused\non two lines") from ConnectionError("refused")
    EventHub("w").error(stage, raised.value)
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert "connection refused" in record.getMessage()
    assert "\n" not in record.getMessage()
    assert (record.exc_info is not None) == shown


def test_lines_below_the_logger_s_level_cost_no_formatting(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.ERROR, "jobfence")
    monkeypatch.delattr(WorkerEvent, "details")
    EventHub("w").emit(WorkerStarted(worker_id="w"))
    assert caplog.records == []


def test_a_run_is_told_from_its_start_to_its_end() -> None:
    world = World()
    world.app.job("n")(lambda: None)
    job_id = world.app.enqueue("n")
    with world.running() as worker:
        idle(worker)
    kinds = [type(event) for event in world.seen.events]
    assert kinds.index(JobStarted) < kinds.index(JobCompleted)
    (completed,) = world.seen.of(JobCompleted)
    assert completed.job is not None
    assert (completed.job.id, completed.job.completed_at_ms) == (job_id, START_MS)
    assert completed.handoff.job.completed_at_ms is None


class TestAnnouncements:
    """From the store's answer to the event."""

    def announced(self, trigger: str, **store_options: int) -> WorkerEvent:
        store = MemoryJobStore(
            clock=ManualClock(), max_handoffs=store_options.get("max_handoffs")
        )
        store.enqueue("n")
        handoff = store.claim()[0]
        if "cancel" in store_options:
            store.cancel(handoff.job.id)
        settlement = {
            "fail": Settlement.fail(handoff, "why"),
            "return": Settlement.return_to_queue(handoff),
            "reschedule": Settlement.reschedule(handoff, 5),
        }[trigger]
        (ack,), _ = store.settle([settlement])
        seen = Recorder()
        announce(EventHub("w", seen), handoff, settlement, ack)
        (event,) = seen.events
        return event

    @pytest.mark.parametrize("trigger", ["fail", "return", "reschedule"])
    def test_M15_whatever_goes_back_after_a_request_to_cancel_is_cancelled(
        self, trigger: str
    ) -> None:
        assert isinstance(self.announced(trigger, cancel=1), JobCancelled)

    @pytest.mark.parametrize("trigger", ["return", "reschedule"])
    def test_M7b_a_job_given_up_has_failed_for_good(self, trigger: str) -> None:
        event = self.announced(trigger, max_handoffs=1)
        assert isinstance(event, JobFailed)
        assert (event.terminal, event.will_retry, event.attempts) == (True, False, 0)
        assert "max_handoffs=1" in event.error

    def test_a_failure_carries_the_text_that_was_stored(self) -> None:
        event = self.announced("fail")
        assert isinstance(event, JobFailed)
        assert (event.error, event.will_retry) == ("why", True)

    def test_a_job_that_cannot_be_read_back_is_announced_without_it(self) -> None:
        store = MemoryJobStore(clock=ManualClock())
        store.enqueue("n")
        handoff = store.claim()[0]
        seen = Recorder()
        hub = EventHub("w", seen)
        repeated = Ack(AckResult.REPEATED)
        announce(hub, handoff, Settlement.fail(handoff, "why"), repeated)
        announce(hub, handoff, Settlement.return_to_queue(handoff), repeated)
        failed, returned = seen.events
        assert isinstance(failed, JobFailed)
        assert (failed.job, failed.attempts, failed.error) == (None, 0, "why")
        assert isinstance(returned, JobReturned)
