"""What applications and workers raise beside the store's own errors."""

from collections.abc import Sequence

from jobfence.statemachine.errors import JobfenceError
from jobfence.statemachine.values import Handoff


class DuplicateJobName(JobfenceError, ValueError):
    """A registry was given a second job of one name, or one function twice (D1)."""

    def __init__(self, name: str, registered: str, given: str) -> None:
        super().__init__(
            f"job {name!r} is already registered as {registered}; give {given} a name "
            f"of its own, and register each function once"
        )
        self.name, self.registered, self.given = name, registered, given


class NoCurrentJob(JobfenceError, LookupError):
    """`current_job()` was called outside a job that a worker runs."""

    def __init__(self) -> None:
        super().__init__("no job runs here: call current_job() from inside a job")


class HandoffLost(JobfenceError):
    """
    The handoff no longer holds its job, so the effects were rolled back (R6).

    Let it pass: whoever holds the job now does the work.
    """

    def __init__(self, handoff: Handoff) -> None:
        super().__init__(
            f"handoff {handoff.handoff_id} of job {handoff.job.id} was lost; its "
            f"effects are rolled back"
        )
        self.handoff = handoff


class SecondCompletion(JobfenceError):
    """
    A run asked to complete its job again; what that block did is rolled back (R6).

    In contrast to `HandoffLost` the job is safe: what it did before is committed with
    its completion, or an outer block is about to commit it.
    """

    def __init__(self, handoff: Handoff, how: str) -> None:
        super().__init__(
            f"job {handoff.job.id} {how}, and a run completes its job once; the "
            f"effects of this block are rolled back: put all of a run's effects into "
            f"one transaction() block"
        )
        self.handoff = handoff


class UncommittedEnqueue(JobfenceError):
    """A job enqueued in a transaction of the app's session, and left it open (T1)."""

    def __init__(self) -> None:
        super().__init__(
            "the job enqueued in a transaction of the app's session that it had begun, "
            "and did not commit it, so all of it was rolled back; commit the session "
            "in the job, or end its transaction before the enqueue"
        )


class OwnershipHeld(JobfenceError):
    """Another live worker owns the database alone, so this one does not start (L2)."""

    def __init__(self, worker_id: str) -> None:
        super().__init__(
            f"worker {worker_id} was not started: another live worker owns this "
            f"database; stop it first, or start without single_owner"
        )
        self.worker_id = worker_id


class StopIncomplete(JobfenceError):
    """
    A worker stopped working, but could not store every acknowledgement (D6).

    It goes on trying; `stop()` may be called again. If the process ends instead, the
    leases of `handoffs` run out and the jobs are run again.
    """

    def __init__(self, worker_id: str, handoffs: Sequence[Handoff]) -> None:
        super().__init__(
            f"worker {worker_id} could not store {len(handoffs)} acknowledgement(s); "
            f"call stop() again when the database answers"
        )
        self.worker_id, self.handoffs = worker_id, tuple(handoffs)


class WorkerStopping(JobfenceError):
    """A worker was told to start while it stops."""

    def __init__(self, worker_id: str) -> None:
        super().__init__(
            f"worker {worker_id} is stopping; start it again when stop() has returned"
        )
        self.worker_id = worker_id


class JobTimedOut(JobfenceError, TimeoutError):
    """A job ran longer than its timeout, and was ended (D8)."""

    def __init__(self, name: str, timeout_ms: int) -> None:
        super().__init__(f"job {name!r} ran longer than timeout_ms={timeout_ms}")
        self.name, self.timeout_ms = name, timeout_ms


class JobProcessFailed(JobfenceError):
    """
    A job failed in its own process; `text` is the traceback from there.

    Not the exception itself: what it was made of exists only in that process.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class JobProcessEnded(JobfenceError):
    """A job's process ended without an answer: it was killed, or crashed."""

    def __init__(self, name: str, returncode: int) -> None:
        super().__init__(
            f"the process of job {name!r} ended without an answer, "
            f"with exit code {returncode}"
        )
        self.name, self.returncode = name, returncode
