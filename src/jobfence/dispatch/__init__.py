"""Running jobs: the registry, the app, and the worker."""

from jobfence.dispatch.app import JobApp
from jobfence.dispatch.context import JobContext, Reschedule, current_job
from jobfence.dispatch.errors import (
    DuplicateJobName,
    HandoffLost,
    JobTimedOut,
    NoCurrentJob,
    OwnershipHeld,
    SecondCompletion,
    StopIncomplete,
    UncommittedEnqueue,
    WorkerStopping,
)
from jobfence.dispatch.health import Health
from jobfence.dispatch.registry import RegisteredJob, Registry
from jobfence.dispatch.settings import Retention, WorkerOptions
from jobfence.dispatch.worker import Worker

__all__ = [
    "DuplicateJobName",
    "HandoffLost",
    "Health",
    "JobApp",
    "JobContext",
    "JobTimedOut",
    "NoCurrentJob",
    "OwnershipHeld",
    "RegisteredJob",
    "Registry",
    "Reschedule",
    "Retention",
    "SecondCompletion",
    "StopIncomplete",
    "UncommittedEnqueue",
    "Worker",
    "WorkerOptions",
    "WorkerStopping",
    "current_job",
]
