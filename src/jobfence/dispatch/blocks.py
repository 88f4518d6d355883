"""The `with` block of `JobContext.transaction`: what it is given, and how it is used."""

import inspect

from contextlib import AbstractContextManager
from types import TracebackType
from typing import NoReturn, TypeVar

from jobfence.statemachine.errors import InvalidOption

T = TypeVar("T")

_ASYNC = (
    "with an AsyncSession use AsyncSqlJobStore(engine).within(session).complete("
    "job.id, handoff_id), and commit the session if the answer is accepted"
)


def check_session(session: object) -> None:
    """Refuse what cannot be committed here, before anything is begun."""
    ends = [getattr(session, name, None) for name in ("commit", "rollback")]
    if any(inspect.iscoroutinefunction(end) for end in ends):
        raise InvalidOption("session", session, f"must be one that blocks: {_ASYNC}")
    if not all(map(callable, ends)):
        raise InvalidOption(
            "session", session, "must be a SQLAlchemy Session or Connection"
        )


class Block(AbstractContextManager[T]):
    """A `with` block, which says what to use instead of `async with`."""

    def __init__(self, block: AbstractContextManager[T]) -> None:
        self._block = block

    def __enter__(self) -> T:
        return self._block.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        return self._block.__exit__(kind, error, trace)

    async def __aenter__(self) -> NoReturn:
        raise TypeError(f"transaction() is for `with`, not `async with`: {_ASYNC}")

    async def __aexit__(self, *_end: object) -> None:
        """Is looked for beside `__aenter__`."""
