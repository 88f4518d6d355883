"""What a worker tells: events as values, counters and log lines (rule D7)."""

import contextlib
import logging
import re
import sys
import threading

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import ClassVar, TypeAlias

from jobfence.statemachine.errors import RetryableError, StoreUnavailable
from jobfence.statemachine.errortext import error_text
from jobfence.statemachine.table import Trigger
from jobfence.statemachine.values import Handoff, Job, Reconciliation

logger = logging.getLogger("jobfence")

# The stage at which a job raised though it was completed already.
AFTER_COMPLETION = "after_completion"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerEvent:
    """Something a worker saw or did."""

    level: ClassVar[int] = logging.INFO

    worker_id: str

    @property
    def name(self) -> str:
        """The event's name in counters and log lines, such as `job_completed`."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", type(self).__name__).lower()

    def details(self) -> Mapping[str, object]:
        """Return what a log line shows, flat."""
        shown: dict[str, object] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Handoff):
                shown |= _job_details(value.job) | {"handoff_id": value.handoff_id}
            elif isinstance(value, Job):
                shown |= _job_details(value)
            else:
                shown[field.name] = value
        return shown


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStarted(WorkerEvent):
    """The worker takes jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStopped(WorkerEvent):
    """The worker has stopped; what it held is stored, returned or left behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStarted(WorkerEvent):
    """A claimed job begins to run."""

    level: ClassVar[int] = logging.DEBUG

    handoff: Handoff


@dataclass(frozen=True, slots=True, kw_only=True)
class AckEvent(WorkerEvent):
    """
    An acknowledgement that the store holds.

    `job` is as that very transition left it, or as it stands when the reply had been
    lost; None where the row cannot be read.
    """

    handoff: Handoff
    job: Job | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCompleted(AckEvent):
    """A job is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFailed(AckEvent):
    """A run failed: the job is queued again (`will_retry`) or has ended (`terminal`)."""

    level: ClassVar[int] = logging.WARNING

    attempts: int
    will_retry: bool
    terminal: bool
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRescheduled(AckEvent):
    """A job asked to come back later."""

    delay_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReturned(AckEvent):
    """A job was given back as it was, without its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCancelled(AckEvent):
    """A job that was asked to cancel ended instead of going back (M15)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AcknowledgementStale(WorkerEvent):
    """The handoff had been lost: nothing was written (M18)."""

    level: ClassVar[int] = logging.WARNING

    handoff: Handoff
    trigger: Trigger


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLeftRunning(WorkerEvent):
    """A stopping worker no longer waits for a job that it cannot end (D6)."""

    level: ClassVar[int] = logging.WARNING

    handoff: Handoff


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecovered(WorkerEvent):
    """A handoff whose worker was lost was ended as a failure (M8)."""

    level: ClassVar[int] = logging.WARNING

    job: Job


@dataclass(frozen=True, slots=True, kw_only=True)
class CountersRepaired(WorkerEvent):
    """Counters of running jobs were wrong and have been mended (C9)."""

    level: ClassVar[int] = logging.WARNING

    summary: Reconciliation


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsPruned(WorkerEvent):
    """Ended jobs were deleted by age (R1)."""

    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameworkError(WorkerEvent):
    """The worker itself met an error, at this stage; it goes on."""

    level: ClassVar[int] = logging.ERROR

    stage: str
    error: BaseException


Listener: TypeAlias = Callable[[WorkerEvent], None]
Listeners: TypeAlias = Listener | Iterable[Listener] | None


class EventHub:
    """Counts, logs and passes on the events of one worker."""

    def __init__(self, worker_id: str, listeners: Listeners = None) -> None:
        self.worker_id = worker_id
        if listeners is None:
            listeners = ()
        elif callable(listeners):
            listeners = (listeners,)
        self._listeners = tuple(listeners)
        self._counts: Counter[str] = Counter()
        self._log_failed = False
        self._lock = threading.Lock()

    @property
    def counters(self) -> Mapping[str, int]:
        """How many events of each name there were, as a copy."""
        with self._lock:
            return dict(self._counts)

    def emit(self, event: WorkerEvent) -> None:
        """
        Pass an event on; a listener that raises is logged and hurts nobody else.

        Nothing that a listener or a log handler raises comes out of here, `SystemExit`
        included: events are told in the middle of work, on threads that must go on.
        """
        with self._lock:
            self._counts[event.name] += 1
        self._write(event.name, partial(_log, event))
        for listener in self._listeners:
            try:
                listener(event)
            except BaseException as error:  # noqa: BLE001  as said above
                self._write(event.name, partial(_log_listener, event, error))

    def error(self, stage: str, error: BaseException) -> None:
        """Report an error of the worker itself."""
        self.emit(FrameworkError(worker_id=self.worker_id, stage=stage, error=error))

    def _write(self, name: str, log: Callable[[], None]) -> None:
        """Log; that this fails is told once, for it may fail at every event."""
        try:
            log()
        except BaseException as error:  # noqa: BLE001  as in `emit`
            with self._lock:
                told, self._log_failed = self._log_failed, True
            if not told:
                _tell_of_lost_line(name, error)


def _job_details(job: Job) -> dict[str, object]:
    return {
        "job_id": job.id,
        "job_name": job.name,
        "queue": job.queue,
        "status": job.status.value,
        "attempts": job.attempts,
    }


def _log(event: WorkerEvent) -> None:
    if not logger.isEnabledFor(event.level):
        return
    details = event.details()
    line = " ".join(f"{key}={_value(value)}" for key, value in details.items())
    logger.log(
        event.level,
        "%s %s",
        event.name,
        line,
        extra={"jobfence_event": event.name, "jobfence": details},
        exc_info=_to_trace(event),
    )


def _to_trace(event: WorkerEvent) -> BaseException | None:
    """
    Return the error whose traceback follows a log line.

    A database that is gone is told again and again, and always by the same three errors
    in a chain: the line says it all. What a job itself raised is worth looking at.
    """
    if not isinstance(event, FrameworkError):
        return None
    of_the_database = issubclass(type(event.error), StoreUnavailable | RetryableError)
    if of_the_database and event.stage != AFTER_COMPLETION:
        return event.error if logger.isEnabledFor(logging.DEBUG) else None
    return event.error


def _log_listener(event: WorkerEvent, error: BaseException) -> None:
    logger.error("an event listener raised on %s", event.name, exc_info=error)


def _tell_of_lost_line(name: str, error: BaseException) -> None:
    """Say on standard error what `logging` could not, unless it is told not to."""
    if not logging.raiseExceptions:
        return
    with contextlib.suppress(BaseException):  # there is no other place to tell it
        sys.stderr.write(
            f"jobfence: the log line of {name} was lost, and others after it may be: "
            f"a log handler or filter raised; mend or remove it\n{error_text(error)}\n"
        )


def _value(value: object) -> str:
    try:
        text = str(value)
    except Exception:  # noqa: BLE001  an error of the user's may have no text
        text = object.__repr__(value)
    return text if re.fullmatch(r"[^\s\"=]+", text) else repr(text)
