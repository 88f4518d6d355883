"""What a queue's configuration means for its jobs (rules C0 and C2)."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from jobfence.statemachine import checks
from jobfence.statemachine.errors import InvalidOption, shown

DERIVED_PREFIX = "queue:"
NO_QUEUES: Mapping[str, "QueuePolicy"] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class QueuePolicy:
    """A queue's cap on jobs at once (None: no cap) and its jobs' usual priority."""

    max_concurrent: int | None = None
    priority: int = 0

    def __post_init__(self) -> None:
        if self.max_concurrent is not None:
            cap = checks.integer(
                "max_concurrent", self.max_concurrent, least=1, most=checks.INT32_MAX
            )
            object.__setattr__(self, "max_concurrent", cap)
        object.__setattr__(self, "priority", checks.int32("priority", self.priority))


NO_POLICY = QueuePolicy()


class Concurrency(NamedTuple):
    """A job's concurrency key and cap; both None when it is uncapped."""

    key: str | None
    cap: int | None


UNCAPPED = Concurrency(None, None)


def derived_key(queue: str) -> str:
    """Return the key that a capped queue's jobs share."""
    return DERIVED_PREFIX + queue


def is_derived(key: str | None) -> bool:
    """Whether a stored key follows its queue's policy: none, or made from the queue."""
    return key is None or key.startswith(DERIVED_PREFIX)


def resolve_concurrency(
    queue: str, policy: QueuePolicy, explicit: Concurrency = UNCAPPED
) -> Concurrency:
    """Rule C2: an explicit pair, else the queue's cap, else none."""
    if explicit.key is not None:
        return explicit
    if policy.max_concurrent is not None:
        return Concurrency(derived_key(queue), policy.max_concurrent)
    return UNCAPPED


def check_queues(
    queues: Mapping[str, QueuePolicy] | None,
) -> Mapping[str, QueuePolicy] | None:
    """Check a store's `queues` and freeze a copy; None stays None: no opinion (C0)."""
    if queues is None:
        return None
    if not isinstance(queues, Mapping):
        raise InvalidOption("queues", queues, "must map queue names to QueuePolicy")
    checked: dict[str, QueuePolicy] = {}
    for name, policy in queues.items():
        if not isinstance(policy, QueuePolicy):
            raise InvalidOption(
                f"queues[{shown(name)}]", policy, "must be a QueuePolicy"
            )
        queue = checks.queue_name(name, "queues")
        if queue in checked:
            raise InvalidOption("queues", name, "must name each queue once")
        checked[queue] = policy
    return MappingProxyType(checked)
