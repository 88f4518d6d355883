"""Faults of listeners that are not alone (T3)."""

import logging

from jobfence.conformance.faults.base import Faulty, fault
from jobfence.store.contract import WakeListener


@fault("T3", "examples", "a second listener takes the place of the first")
class OneListener(Faulty):
    def on_commit_wake(self, listener: WakeListener) -> None:
        self._listeners = [listener]


@fault("T3", "examples", "a listener that raises keeps the others from being called")
class RaisingListenerIsTheLast(Faulty):
    def _wake(self) -> None:
        try:
            for each in tuple(self._listeners):
                each()
        except Exception:
            logging.getLogger(__name__).exception("a listener raised")
