"""What the parts of the sync store share."""

from typing import TypeVar

from jobfence.store.sql.calls import Call, Plan
from jobfence.store.sql.joined import JoinedRunner
from jobfence.store.sql.runner import OwnRunner, Ready
from jobfence.store.sql.tx import Settings

T = TypeVar("T")


class Methods:
    """A part of the store: its settings, and the runner of its transactions."""

    _settings: Settings
    _ready: Ready
    _runner: OwnRunner | JoinedRunner

    def _run(self, call: Call[T]) -> T:
        return self._runner.run(call)

    def _follow(self, plan: Plan[T]) -> T:
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
                    sent, failure = self._runner.run(call), None
                except StopIteration:  # thrown in, it would be another error
                    raise
                except Exception as error:  # noqa: BLE001  thrown in, and out again
                    failure = error
        finally:
            plan.close()
