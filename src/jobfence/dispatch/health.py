"""How a worker is, at a glance (rule D8)."""

from collections.abc import Collection
from dataclasses import dataclass

from jobfence.statemachine.errors import JobfenceError
from jobfence.store.contract import JobStore


@dataclass(frozen=True, slots=True)
class Health:
    """
    `ready`: takes jobs, and the database answers. `in_flight`: jobs held now.

    `oldest_due_age_ms`: for how long the oldest due job has waited; None when none is
    due, or the database does not answer.
    """

    ready: bool
    in_flight: int
    oldest_due_age_ms: int | None


def health_of(
    store: JobStore, *, ready: bool, in_flight: int, queues: Collection[str] | None
) -> Health:
    """Ask the store; a health check tells of its errors, and does not raise them."""
    try:
        ages = [
            stats.oldest_due_age_ms
            for stats in store.queue_stats()
            if queues is None or stats.queue in queues
        ]
    except JobfenceError:
        return Health(ready=False, in_flight=in_flight, oldest_due_age_ms=None)
    oldest = max((age for age in ages if age is not None), default=None)
    return Health(ready=ready, in_flight=in_flight, oldest_due_age_ms=oldest)
