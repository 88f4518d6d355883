"""
An explicit job state machine and a durable, fenced job store.

Everything a user needs is a name of this module; each is imported when it is first
used, so that `import jobfence` is quick and does not import SQLAlchemy.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobfence.dispatch import (
        DuplicateJobName,
        HandoffLost,
        Health,
        JobApp,
        JobContext,
        JobTimedOut,
        NoCurrentJob,
        OwnershipHeld,
        RegisteredJob,
        Registry,
        Reschedule,
        Retention,
        SecondCompletion,
        StopIncomplete,
        UncommittedEnqueue,
        Worker,
        WorkerOptions,
        WorkerStopping,
        current_job,
    )
    from jobfence.dispatch.events import (
        AcknowledgementStale,
        CountersRepaired,
        FrameworkError,
        JobCancelled,
        JobCompleted,
        JobFailed,
        JobLeftRunning,
        JobRecovered,
        JobRescheduled,
        JobReturned,
        JobsPruned,
        JobStarted,
        WorkerEvent,
        WorkerStarted,
        WorkerStopped,
    )
    from jobfence.statemachine.clock import (
        Clock,
        DatabaseClock,
        ManualClock,
        SystemClock,
    )
    from jobfence.statemachine.errors import (
        ConcurrencyConflict,
        HandoffIdInUse,
        IdempotencyConflict,
        IncompatibleSchema,
        InvalidOption,
        JobfenceError,
        MissingDriver,
        RetryableError,
        StoreUnavailable,
        UnknownJobName,
        UnreadableJob,
        UnsupportedCapability,
    )
    from jobfence.statemachine.options import JobRequest
    from jobfence.statemachine.policy import QueuePolicy
    from jobfence.statemachine.retry import ExponentialRetry, RetryPolicy, SteppedRetry
    from jobfence.statemachine.states import JobStatus
    from jobfence.statemachine.values import (
        Ack,
        AckResult,
        Cancellation,
        CancelOutcome,
        Handoff,
        Job,
        QueueStats,
        Reconciliation,
        Repair,
        Replacement,
        ScheduledJob,
        Settlement,
        Wake,
        WakeOutcome,
    )
    from jobfence.store import (
        AsyncSqlJobStore,
        JobStore,
        MemoryJobStore,
        SqlJobStore,
        TransactionalStore,
    )

__version__ = "0.1.0"

# Where a name is looked for, in this order: what takes long to import comes last.
_HOMES = (
    "statemachine.values",
    "statemachine.states",
    "statemachine.errors",
    "statemachine.clock",
    "statemachine.options",
    "statemachine.policy",
    "statemachine.retry",
    "store",
    "dispatch",
    "dispatch.events",
)

__all__ = [
    "Ack",
    "AckResult",
    "AcknowledgementStale",
    "AsyncSqlJobStore",
    "CancelOutcome",
    "Cancellation",
    "Clock",
    "ConcurrencyConflict",
    "CountersRepaired",
    "DatabaseClock",
    "DuplicateJobName",
    "ExponentialRetry",
    "FrameworkError",
    "Handoff",
    "HandoffIdInUse",
    "HandoffLost",
    "Health",
    "IdempotencyConflict",
    "IncompatibleSchema",
    "InvalidOption",
    "Job",
    "JobApp",
    "JobCancelled",
    "JobCompleted",
    "JobContext",
    "JobFailed",
    "JobLeftRunning",
    "JobRecovered",
    "JobRequest",
    "JobRescheduled",
    "JobReturned",
    "JobStarted",
    "JobStatus",
    "JobStore",
    "JobTimedOut",
    "JobfenceError",
    "JobsPruned",
    "ManualClock",
    "MemoryJobStore",
    "MissingDriver",
    "NoCurrentJob",
    "OwnershipHeld",
    "QueuePolicy",
    "QueueStats",
    "Reconciliation",
    "RegisteredJob",
    "Registry",
    "Repair",
    "Replacement",
    "Reschedule",
    "Retention",
    "RetryPolicy",
    "RetryableError",
    "ScheduledJob",
    "SecondCompletion",
    "Settlement",
    "SqlJobStore",
    "SteppedRetry",
    "StopIncomplete",
    "StoreUnavailable",
    "SystemClock",
    "TransactionalStore",
    "UncommittedEnqueue",
    "UnknownJobName",
    "UnreadableJob",
    "UnsupportedCapability",
    "Wake",
    "WakeOutcome",
    "Worker",
    "WorkerEvent",
    "WorkerOptions",
    "WorkerStarted",
    "WorkerStopped",
    "WorkerStopping",
    "__version__",
    "current_job",
]


if not TYPE_CHECKING:  # which would then take any name for one of ours

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        homes = (import_module(f"{__name__}.{home}") for home in _HOMES)
        found = next(getattr(home, name) for home in homes if hasattr(home, name))
        globals()[name] = found  # the next look-up does not come here
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
