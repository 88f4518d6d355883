"""What the parts of the async store share."""

from typing import TypeVar

from jobfence.store.sql.aio.runner import AsyncJoinedRunner, AsyncOwnRunner
from jobfence.store.sql.calls import Call, Plan
from jobfence.store.sql.runner import Ready
from jobfence.store.sql.tx import Settings

T = TypeVar("T")


class AsyncMethods:
    """A part of the store: its settings, and the runner of its transactions."""

    _settings: Settings
    _ready: Ready
    _runner: AsyncOwnRunner | AsyncJoinedRunner

    async def _run(self, call: Call[T]) -> T:
        return await self._runner.run(call)

    async def _follow(self, plan: Plan[T]) -> T:
        """
        Run the transactions of a plan one after the other.

        One that fails is the plan's to judge: it knows what is committed before it.
        """
        sent: object = None
        failure: Exception | None = None
        try:
            while True:
                try:
                    call = plan.send(sent) if failure is None else plan.throw(failure)
                except StopIteration as done:
                    result: T = done.value
                    return result
                try:
                    sent, failure = await self._runner.run(call), None
                except StopIteration:  # thrown in, it would be another error
                    raise
                except Exception as error:  # noqa: BLE001  thrown in, and out again
                    failure = error
        finally:
            plan.close()
