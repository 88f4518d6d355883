"""From what a caller gives to `enqueue` to what a store keeps (the E rules)."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypedDict, Unpack

from jobfence.statemachine import checks
from jobfence.statemachine.canonical import JSONInput, arguments, canonical, digest
from jobfence.statemachine.errors import InvalidOption
from jobfence.statemachine.policy import DERIVED_PREFIX, Concurrency

DEFAULT_QUEUE = "default"
DEFAULT_MAX_RETRIES = 10
EXECUTION_MODES = ("inline", "process")
DEFAULT_EXECUTION_MODE = "inline"


@dataclass(frozen=True, slots=True)
class Prepared:
    """
    One enqueue, checked, with its arguments as canonical text.

    None in `scheduled_at_ms`, `max_retries`, `priority`, `timeout_ms` or
    `execution_mode` means "not given", which an idempotency key compares (E5).
    """

    name: str
    args_text: str
    kwargs_text: str
    args_digest: str
    queue: str
    given_max_retries: int | None
    scheduled_at_ms: int | None
    concurrency: Concurrency
    priority: int | None
    deduplicate_while_queued: bool
    idempotency_key: str | None
    timeout_ms: int | None
    given_execution_mode: str | None

    @property
    def max_retries(self) -> int:
        """Retries after the first run."""
        given = self.given_max_retries
        return DEFAULT_MAX_RETRIES if given is None else given

    @property
    def execution_mode(self) -> str:
        """Where the job runs."""
        return self.given_execution_mode or DEFAULT_EXECUTION_MODE

    @property
    def deduplicates(self) -> bool:
        """Whether a twin may stand for it: asked for, and no idempotency key (E8)."""
        return self.deduplicate_while_queued and self.idempotency_key is None

    def dedupe_identity(self) -> str | None:
        """
        Return the digest two enqueues share when one may stand for the other (E4).

        None where dedupe does not apply. Args are compared in full later; this is what
        is locked.
        """
        if not self.deduplicates:
            return None
        return digest(canonical([self.name, self.queue, self.args_digest], "identity"))

    def idempotency_scope(self) -> str | None:
        """Return the digest of (name, queue, key), or None without a key."""
        if self.idempotency_key is None:
            return None
        return digest(canonical([self.name, self.queue, self.idempotency_key], "scope"))

    def request(self) -> dict[str, JSONInput]:
        """Return what an idempotency key compares: everything as given (E5, E8)."""
        return {
            "args": self.args_digest,
            "max_retries": self.given_max_retries,
            "scheduled_at": self.scheduled_at_ms,
            "concurrency_key": self.concurrency.key,
            "max_concurrency": self.concurrency.cap,
            "priority": self.priority,
            "timeout_ms": self.timeout_ms,
            "execution_mode": self.given_execution_mode,
        }


def prepare(
    name: object,
    args: object = (),
    kwargs: object = None,
    *,
    queue: object = None,
    priority: object = None,
    max_retries: object = None,
    scheduled_at: object = None,
    concurrency_key: object = None,
    max_concurrency: object = None,
    deduplicate_while_queued: object = False,
    idempotency_key: object = None,
    timeout_ms: object = None,
    execution_mode: object = None,
) -> Prepared:
    """
    Check every option of an enqueue (E1, E2); `InvalidOption` names the first bad one.

    Takes `object` on purpose: what it is given comes from callers without types too.
    """
    args_text, kwargs_text, args_digest = arguments(
        args, {} if kwargs is None else kwargs
    )
    return Prepared(
        name=checks.text("name", name),
        args_text=args_text,
        kwargs_text=kwargs_text,
        args_digest=args_digest,
        queue=DEFAULT_QUEUE if queue is None else checks.queue_name(queue),
        given_max_retries=_max_retries(max_retries),
        scheduled_at_ms=(
            None
            if scheduled_at is None
            else checks.time_ms("scheduled_at", scheduled_at)
        ),
        concurrency=explicit_concurrency(concurrency_key, max_concurrency),
        priority=None if priority is None else checks.int32("priority", priority),
        deduplicate_while_queued=checks.flag(
            "deduplicate_while_queued", deduplicate_while_queued
        ),
        idempotency_key=(
            None
            if idempotency_key is None
            else checks.text("idempotency_key", idempotency_key)
        ),
        timeout_ms=_timeout(timeout_ms),
        given_execution_mode=_execution_mode(execution_mode),
    )


def explicit_concurrency(key: object, cap: object) -> Concurrency:
    """Check a caller's own pair: both or neither, and no reserved prefix."""
    if key is None and cap is None:
        return Concurrency(None, None)
    if key is None or cap is None:
        option = "max_concurrency" if cap is None else "concurrency_key"
        raise InvalidOption(
            option, None, "must be paired: give concurrency_key and max_concurrency"
        )
    return Concurrency(explicit_key(key), positive_cap(cap))


def explicit_key(key: object) -> str:
    """Check a concurrency key that a caller names."""
    found = checks.text("concurrency_key", key)
    if found.startswith(DERIVED_PREFIX):
        raise InvalidOption(
            "concurrency_key",
            key,
            f"must not start with the reserved prefix {DERIVED_PREFIX!r}",
        )
    return found


def positive_cap(cap: object) -> int:
    """Check a cap on jobs at once."""
    return checks.integer("max_concurrency", cap, least=1, most=checks.INT32_MAX)


def schedule_key(key: object) -> str:
    """Check a stable schedule key (the K rules)."""
    return checks.text("schedule_key", key)


def execution_modes(modes: object) -> tuple[str, ...] | None:
    """Check the modes a claim asks for; None asks for all, an empty one for none."""
    if modes is None:
        return None
    if isinstance(modes, str | bytes) or not isinstance(modes, Collection):
        raise InvalidOption("execution_modes", modes, "must be a collection of modes")
    return tuple(sorted({_mode("execution_modes", each) for each in modes}))


def queue_names(queues: object) -> tuple[str, ...] | None:
    """Check the queues a claim asks for; None asks for all, an empty one for none."""
    if queues is None:
        return None
    if isinstance(queues, str | bytes) or not isinstance(queues, Collection):
        raise InvalidOption("queues", queues, "must be a collection of queue names")
    return tuple(sorted({checks.queue_name(each, "queues") for each in queues}))


def _max_retries(value: object) -> int | None:
    if value is None:
        return None
    return checks.integer("max_retries", value, least=0, most=checks.INT32_MAX)


def _timeout(value: object) -> int | None:
    """Any integer at or below zero means no timeout, and is stored as 0."""
    if value is None:
        return None
    found = checks.whole(value)
    if found is None or found > checks.INT32_MAX:
        raise InvalidOption(
            "timeout_ms",
            value,
            f"must be an integer of milliseconds up to {checks.INT32_MAX}",
        )
    return max(found, 0)


def _execution_mode(value: object) -> str | None:
    return None if value is None else _mode("execution_mode", value)


def _mode(option: str, value: object) -> str:
    found = checks.plain_text(value) if isinstance(value, str) else None
    if found not in EXECUTION_MODES:
        raise InvalidOption(
            option, value, f"must be one of {', '.join(EXECUTION_MODES)}"
        )
    return found


class ScheduleOptions(TypedDict, total=False):
    """The options of `replace_scheduled`: those of `enqueue` but the last two."""

    queue: str | None
    priority: int | None
    max_retries: int | None
    scheduled_at: datetime | int | None
    concurrency_key: str | None
    max_concurrency: int | None
    timeout_ms: int | None
    execution_mode: str | None


class EnqueueOptions(ScheduleOptions, total=False):
    """The options of `enqueue`; `prepare` checks them and has their rules."""

    deduplicate_while_queued: bool
    idempotency_key: str | None


class JobRequest:
    """One job for `enqueue_many`: the same arguments as `enqueue`, checked at once."""

    __slots__ = ("_prepared",)

    def __init__(
        self,
        name: str,
        args: Sequence[JSONInput] = (),
        kwargs: Mapping[str, JSONInput] | None = None,
        **options: Unpack[EnqueueOptions],
    ) -> None:
        self._prepared = prepare(name, args, kwargs, **options)

    @property
    def prepared(self) -> Prepared:
        """The request after its checks."""
        return self._prepared


def prepare_scheduled(
    key: object,
    name: object,
    args: object = (),
    kwargs: object = None,
    **options: object,
) -> tuple[str, Prepared]:
    """Check a `replace_scheduled`, which takes no dedupe and no idempotency (K3)."""
    for refused in ("deduplicate_while_queued", "idempotency_key"):
        if options.get(refused):
            raise InvalidOption(
                refused, options[refused], "does not go with a schedule key"
            )
    # `prepare` checks every value itself and refuses unknown names by a TypeError.
    checked = prepare(name, args, kwargs, **options)
    return schedule_key(key), checked
