"""Every error the library raises by itself. All derive from `JobfenceError`."""

import pickle

from collections.abc import Sequence
from typing import Self

from jobfence.statemachine.hiding import without_password

_SHOWN = 80


def shown(value: object) -> str:
    """Show a value in a message, however large or broken it is."""
    try:
        text = str.__str__(repr(value))
    except Exception:  # noqa: BLE001  a repr that raises must not hide the refusal
        text = f"<{type(value).__name__}>"
    text = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    # A class may put a lone surrogate into its repr: no log could take the message.
    return text.encode(errors="backslashreplace").decode()


class JobfenceError(Exception):
    """
    The base of every error below.

    Each survives pickling and copying with its attributes: process pools send errors.
    """

    def __reduce__(
        self,
    ) -> tuple[object, tuple[type[Self], tuple[object, ...]], dict[str, object]]:
        """Rebuild from the message: the constructors take other arguments."""
        return _rebuilt, (type(self), self.args), self._state()

    def _state(self) -> dict[str, object]:
        return dict(self.__dict__)


def _rebuilt(
    error_type: type[JobfenceError], args: tuple[object, ...]
) -> JobfenceError:
    error = error_type.__new__(error_type, *args)
    # The initialiser behind ours: ImportError keeps its message in a field of its own.
    super(JobfenceError, error).__init__(*args)
    return error


class InvalidOption(JobfenceError, ValueError):
    """
    An option, argument or value that the rules refuse (E1, E2). Nothing was written.

    `option` is its name or path, `value` what was given, `rule` what is allowed.
    """

    def __init__(self, option: str, value: object, rule: str) -> None:
        super().__init__(f"{option} {rule}, not {shown(value)}")
        self.option, self.value, self.rule = option, value, rule

    def _state(self) -> dict[str, object]:
        """Give a value that cannot be sent to another process as it is shown."""
        try:
            pickle.dumps(self.value)
        except Exception:  # noqa: BLE001  any class may refuse in its own way
            return {**self.__dict__, "value": shown(self.value)}
        return super()._state()


class ConcurrencyConflict(JobfenceError):
    """An explicit key was given with another cap than it is registered with (C3)."""

    def __init__(self, concurrency_key: str, registered: int, given: int) -> None:
        super().__init__(
            f"concurrency key {shown(concurrency_key)} is registered with "
            f"max_concurrency {registered}, not {given}; give {registered}, or change "
            f"it for everyone with set_concurrency"
        )
        self.concurrency_key = concurrency_key
        self.registered, self.given = registered, given


class IdempotencyConflict(JobfenceError):
    """The idempotency key belongs to a different request (E5). Nothing was written."""

    def __init__(
        self, idempotency_key: str, job_id: str, differing: Sequence[str]
    ) -> None:
        super().__init__(
            f"idempotency key {shown(idempotency_key)} belongs to job {job_id}, "
            f"enqueued with another {', '.join(sorted(differing))}; use a new key for a new "
            f"request"
        )
        self.idempotency_key, self.job_id = idempotency_key, job_id
        self.differing = tuple(sorted(differing))


class HandoffIdInUse(JobfenceError):
    """A claim chose a handoff id that the database already holds (M19)."""

    def __init__(self, handoff_id: str) -> None:
        super().__init__(
            f"handoff id {shown(handoff_id)} was used before; choose a fresh one"
        )
        self.handoff_id = handoff_id


class UnknownJobName(JobfenceError, LookupError):
    """The registry has no job of this name (D1). Nothing was written."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        listed = ", ".join(sorted(known)) or "none"
        super().__init__(
            f"no job is registered as {shown(name)}; register it first, or use one of "
            f"those registered: {listed}"
        )
        self.name, self.known = name, tuple(sorted(known))


class UnreadableJob(JobfenceError):
    """A stored row that cannot be read back as a job (M21)."""

    def __init__(self, job_id: str, column: str, problem: str) -> None:
        super().__init__(
            f"job {job_id} cannot be read: column {column} {problem}; mend or delete "
            f"the row"
        )
        self.job_id, self.column, self.problem = job_id, column, problem


class IncompatibleSchema(JobfenceError):
    """The database's tables are not ones this version can use (S2). Nothing changed."""

    def __init__(
        self, problem: str, *, table: str | None = None, columns: Sequence[str] = ()
    ) -> None:
        super().__init__(problem)
        self.table, self.columns = table, tuple(columns)


class RetryableError(JobfenceError):
    """
    The database asked to run the transaction again (T1, T2).

    In a caller's transaction: roll it back and repeat it whole. From the store's own
    transaction: its bounded retries are used up, and nothing was written.
    """


class StoreUnavailable(JobfenceError):
    """
    The database could not be reached, or refused to write.

    With `in_doubt` the connection was lost while COMMIT was under way: the change may
    have been made. Ask again by id (M18, M19) before doing it a second time.
    """

    def __init__(self, problem: str, *, in_doubt: bool = False) -> None:
        super().__init__(problem)
        self.in_doubt = in_doubt


class MissingDriver(JobfenceError, ImportError):
    """What `url` names needs a library that is not installed; `extra` brings it."""

    def __init__(self, url: str, driver: str, extra: str) -> None:
        url = without_password(url)
        super().__init__(
            f"{url} needs the driver {driver}, which is not installed; "
            f"pip install 'jobfence[{extra}]'"
        )
        self.url, self.driver, self.extra = url, driver, extra


class UnsupportedCapability(JobfenceError, NotImplementedError):
    """What was asked is not offered by the store; `capability` names it."""

    def __init__(self, store: str, capability: str, reason: str) -> None:
        super().__init__(f"{store} does not support {capability}: {reason}")
        self.store, self.capability, self.reason = store, capability, reason
