"""Enqueues of registered jobs, with options and in transactions (rules D1 and T1)."""

import asyncio

from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple, ParamSpec, Union, Unpack, cast, overload

from jobfence.dispatch.registry import JobFunction, Registry, no_options
from jobfence.statemachine import checks
from jobfence.statemachine.canonical import JSONInput
from jobfence.statemachine.clock import Clock
from jobfence.statemachine.errors import InvalidOption, UnsupportedCapability
from jobfence.statemachine.options import EnqueueOptions, ScheduleOptions
from jobfence.statemachine.values import Replacement
from jobfence.store.contract import JobStore

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy.orm import Session

P = ParamSpec("P")
Send = Callable[[JobStore], str]


class Enqueuing(ABC):
    """
    The ways to enqueue, shared by an app and what its `options` and `within` return.

    A job is named by its function or its registered name; any other raises
    `UnknownJobName` before anything is written. All but the first argument are the
    job's own, whatever they are called; options go through `options()`.
    """

    @property
    @abstractmethod
    def registry(self) -> Registry:
        """Which jobs there are."""

    @property
    @abstractmethod
    def clock(self) -> Clock:
        """What "in five minutes" is counted from."""

    @abstractmethod
    def options(self, **options: Unpack[EnqueueOptions]) -> "Enqueuing":
        """Return an enqueuer whose jobs get these options, over the job's defaults."""

    @abstractmethod
    def within(self, transaction: Union["Connection", "Session"]) -> "Enqueuing":
        """Return an enqueuer that writes in this transaction, for you to commit."""

    @abstractmethod
    def _given(self) -> EnqueueOptions: ...

    @abstractmethod
    def _target(self) -> JobStore: ...

    @overload
    def enqueue(self, job: str, /, *args: JSONInput, **kwargs: JSONInput) -> str: ...

    @overload
    def enqueue(
        self, job: Callable[P, object], /, *args: P.args, **kwargs: P.kwargs
    ) -> str: ...

    def enqueue(
        self, job: str | JobFunction, /, *args: object, **kwargs: object
    ) -> str:
        """Store a job and return its id, or its twin's, or the key's (the E rules)."""
        return self._send(job, args, kwargs)(self._target())

    @overload
    def enqueue_in(
        self, job: str, delay: timedelta, /, *args: JSONInput, **kwargs: JSONInput
    ) -> str: ...

    @overload
    def enqueue_in(
        self,
        job: Callable[P, object],
        delay: timedelta,
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> str: ...

    def enqueue_in(
        self,
        job: str | JobFunction,
        delay: timedelta,
        /,
        *args: object,
        **kwargs: object,
    ) -> str:
        """Enqueue for a time from now, rounded up to a millisecond."""
        at = checks.later_ms(self.clock.now_ms(), _delay_ms(delay))
        return self._send(job, args, kwargs, scheduled_at=at)(self._target())

    @overload
    async def aenqueue(
        self, job: str, /, *args: JSONInput, **kwargs: JSONInput
    ) -> str: ...

    @overload
    async def aenqueue(
        self, job: Callable[P, object], /, *args: P.args, **kwargs: P.kwargs
    ) -> str: ...

    async def aenqueue(
        self, job: str | JobFunction, /, *args: object, **kwargs: object
    ) -> str:
        """Do as `enqueue` on a thread, without blocking the loop."""
        send = self._send(job, args, kwargs)
        # The caller's session is looked up here: a scoped one differs by thread.
        return await asyncio.to_thread(send, self._target())

    @overload
    def replace_scheduled(
        self, schedule_key: str, job: str, /, *args: JSONInput, **kwargs: JSONInput
    ) -> Replacement: ...

    @overload
    def replace_scheduled(
        self,
        schedule_key: str,
        job: Callable[P, object],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Replacement: ...

    def replace_scheduled(
        self,
        schedule_key: str,
        job: str | JobFunction,
        /,
        *args: object,
        **kwargs: object,
    ) -> Replacement:
        """
        Enqueue a job as the key's owner, in the place of the one before it (K rules).

        When it is due goes through `options(scheduled_at=...)`. A key has no twins: the
        job's own `deduplicate_while_queued` is no option here.
        """
        request = self._request(job, args, kwargs)
        if "deduplicate_while_queued" not in self._given():
            request.options.pop("deduplicate_while_queued", None)
        # The store refuses what does not go with a key, by name.
        options = cast("ScheduleOptions", request.options)
        return self._target().replace_scheduled(
            schedule_key, request.name, request.args, request.kwargs, **options
        )

    def _send(
        self,
        job: str | JobFunction,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        **more: Unpack[EnqueueOptions],
    ) -> Send:
        """Check all that can be checked without the store."""
        request = self._request(job, args, kwargs, **more)
        return lambda store: store.enqueue(
            request.name, request.args, request.kwargs, **request.options
        )

    def _request(
        self,
        job: str | JobFunction,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        **more: Unpack[EnqueueOptions],
    ) -> "_Request":
        registered = self.registry.resolve(job)
        registered.check_arguments(args, kwargs)
        given = self._given()
        if more and "scheduled_at" in given:
            raise InvalidOption(
                "scheduled_at",
                given["scheduled_at"],
                "must not be given beside a delay: use enqueue",
            )
        # The store checks that they are JSON.
        return _Request(
            registered.name,
            cast("tuple[JSONInput, ...]", args),
            cast("dict[str, JSONInput]", kwargs),
            {**registered.defaults, **given, **more},
        )


class _Request(NamedTuple):
    """What the store is asked for."""

    name: str
    args: tuple[JSONInput, ...]
    kwargs: dict[str, JSONInput]
    options: EnqueueOptions


class Enqueuer(Enqueuing):
    """An app's enqueues with options, or in a transaction, or both."""

    def __init__(
        self,
        app: Enqueuing,
        given: EnqueueOptions,
        target: Callable[[], JobStore],
        join: Callable[[Union["Connection", "Session"]], JobStore],
    ) -> None:
        unknown = set(given) - set(EnqueueOptions.__annotations__)
        if unknown:
            raise no_options("enqueue", unknown, EnqueueOptions.__annotations__)
        self._app, self._options = app, given
        self._find_target, self._join = target, join

    @property
    def registry(self) -> Registry:
        """The app's registry."""
        return self._app.registry

    @property
    def clock(self) -> Clock:
        """The app's clock."""
        return self._app.clock

    def options(self, **options: Unpack[EnqueueOptions]) -> "Enqueuer":
        """Return an enqueuer with these options over the ones given before."""
        merged: EnqueueOptions = {**self._options, **options}
        return Enqueuer(self._app, merged, self._find_target, self._join)

    def within(self, transaction: Union["Connection", "Session"]) -> "Enqueuer":
        """Return an enqueuer with the same options that writes in a transaction."""
        return Enqueuer(
            self._app, self._options, lambda: self._join(transaction), self._join
        )

    def _given(self) -> EnqueueOptions:
        return self._options

    def _target(self) -> JobStore:
        return self._find_target()


def joined(store: JobStore, transaction: Union["Connection", "Session"]) -> JobStore:
    """Join a store to a transaction; `UnsupportedCapability` where it cannot."""
    within = getattr(store, "within", None)
    if within is None:
        raise UnsupportedCapability(
            type(store).__name__, "within", "use a SQL store to join transactions"
        )
    found: JobStore = within(transaction)
    return found


def _delay_ms(delay: timedelta) -> int:
    if not isinstance(delay, timedelta):
        raise InvalidOption("delay", delay, "must be a timedelta")
    # Not by -(-delay // ms): the longest timedelta has no opposite.
    whole, rest = divmod(delay, timedelta(milliseconds=1))
    return checks.delay_ms(whole + bool(rest))
