"""The five states of a job, as the database stores them."""

from enum import StrEnum


class JobStatus(StrEnum):
    """
    Where a job stands. Its value is what the `status` column holds.

    A retrying job is `QUEUED` with a future `scheduled_at_ms` and `attempts` above
    zero: there is no state for "running" or "retrying".
    """

    QUEUED = "queued"
    HANDED_OFF = "handed_off"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def terminal(self) -> bool:
        """Whether no transition leaves this state."""
        return self not in ACTIVE


ACTIVE = frozenset({JobStatus.QUEUED, JobStatus.HANDED_OFF})
TERMINAL = frozenset(JobStatus) - ACTIVE
