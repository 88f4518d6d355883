"""Which function runs a job of which name (rule D1)."""

import inspect
import threading

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypedDict, TypeVar, Unpack, cast

from jobfence.dispatch.errors import DuplicateJobName
from jobfence.dispatch.locate import reference
from jobfence.statemachine.errors import InvalidOption, UnknownJobName
from jobfence.statemachine.options import EnqueueOptions, prepare

JobFunction = Callable[..., object]
F = TypeVar("F", bound=JobFunction)


class JobDefaults(TypedDict, total=False):
    """The options of `enqueue` that make sense for every job of a name."""

    queue: str | None
    priority: int | None
    max_retries: int | None
    concurrency_key: str | None
    max_concurrency: int | None
    deduplicate_while_queued: bool
    timeout_ms: int | None
    execution_mode: str | None


@dataclass(frozen=True, slots=True)
class RegisteredJob:
    """A function under its job name, with the options its enqueues begin from."""

    name: str
    function: JobFunction
    defaults: EnqueueOptions
    is_async: bool
    signature: inspect.Signature | None

    def check_arguments(
        self, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> None:
        """Refuse arguments the function does not take: each run would only fail."""
        if self.signature is None:
            return
        try:
            self.signature.bind(*args, **kwargs)
        except TypeError as problem:
            raise InvalidOption(
                "arguments", (args, kwargs), f"must fit job {self.name!r} ({problem})"
            ) from None


class Registry:
    """Jobs by name. It may be shared between apps."""

    def __init__(self) -> None:
        self._by_name: dict[str, RegisteredJob] = {}
        self._by_function: dict[JobFunction, RegisteredJob] = {}
        self._lock = threading.Lock()

    def job(self, name: str, **defaults: Unpack[JobDefaults]) -> Callable[[F], F]:
        """
        Register a function, `def` or `async def`, and return it unchanged.

        `defaults` are what its enqueues begin from; they are checked here (E1).
        """
        unknown = set(defaults) - set(JobDefaults.__annotations__)
        if unknown:
            raise no_options("a registered job", unknown, JobDefaults.__annotations__)
        checked = prepare(name, (), None, **defaults)
        given = cast("EnqueueOptions", dict(defaults))

        def register(function: F) -> F:
            _runnable(function)
            if checked.execution_mode == "process":
                reference(function)  # else each run would only fail
            self._add(
                RegisteredJob(
                    name=checked.name,
                    function=function,
                    defaults=given,
                    is_async=_is_async(function),
                    signature=_signature(function),
                )
            )
            return function

        return register

    def resolve(self, job: str | JobFunction) -> RegisteredJob:
        """Return the job of a name or function; `UnknownJobName` if there is none."""
        if isinstance(job, str):
            found = self._by_name.get(job)
        else:
            found = self._by_function.get(_callable(job))
        if found is None:
            name = job if isinstance(job, str) else _shown(job)
            raise UnknownJobName(name, self.names)
        return found

    @property
    def names(self) -> tuple[str, ...]:
        """The registered names, sorted."""
        return tuple(sorted(self._by_name))

    def _add(self, job: RegisteredJob) -> None:
        with self._lock:
            twin = self._by_name.get(job.name) or self._by_function.get(job.function)
            if twin is not None:
                raise DuplicateJobName(
                    twin.name, _shown(twin.function), _shown(job.function)
                )
            self._by_name[job.name] = job
            self._by_function[job.function] = job


def no_options(of: str, unknown: Iterable[str], known: Iterable[str]) -> TypeError:
    """Return the error for options that do not exist, as Python has of keywords."""
    return TypeError(
        f"no options of {of}: {', '.join(sorted(unknown))}; there are "
        f"{', '.join(sorted(known))}"
    )


def _callable(function: JobFunction) -> JobFunction:
    # Callers without types: a decorator put on a class attribute, a list, ...
    if not callable(function):
        raise InvalidOption("job", function, "must be a function or a job's name")
    try:
        hash(function)
    except TypeError:
        raise InvalidOption("job", function, "must be hashable") from None
    return function


def _runnable(function: JobFunction) -> JobFunction:
    """Refuse what only makes a generator: nobody would run its body."""
    _callable(function)
    if _is(inspect.isgeneratorfunction, function) or _is(
        inspect.isasyncgenfunction, function
    ):
        raise InvalidOption(
            "job",
            function,
            "must be a function without `yield`, for a call runs nothing of one that "
            "yields: loop inside the job",
        )
    return function


def _is(test: Callable[[object], bool], function: JobFunction) -> bool:
    """Ask of a function, or of an object with such a call."""
    call = getattr(function, "__call__", None)  # noqa: B004
    return test(function) or test(call)


def _is_async(function: JobFunction) -> bool:
    return _is(inspect.iscoroutinefunction, function)


def _signature(function: JobFunction) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):  # some functions written in C have none
        return None


def _shown(function: JobFunction) -> str:
    module = getattr(function, "__module__", None)
    name = getattr(function, "__qualname__", None)
    return f"{module}.{name}" if module and name else repr(function)
