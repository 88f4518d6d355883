"""What every layer of the suite stands on: the author's one method, and the bench."""

import itertools
import secrets

from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

import pytest

from jobfence.conformance.bench import Backdoor, Bench
from jobfence.conformance.capabilities import ALL, Capability, needed_by, reason_for
from jobfence.conformance.whole import Finished, missing_parts
from jobfence.statemachine.clock import ManualClock
from jobfence.statemachine.policy import QueuePolicy
from jobfence.statemachine.retry import RetryPolicy
from jobfence.store.contract import JobStore

_numbers = itertools.count(1)


def new_namespace() -> str:
    """Return a name no run has used: short, and legal in any database's names."""
    return f"c{secrets.token_hex(3)}{next(_numbers)}"


class SuiteBase:
    """
    Subclass one of the suites and write `open_store`; nothing else is needed.

    The suite closes what it opens. One namespace serves a whole class, cleared before
    each test; `drop_namespace` may remove it at the end.
    """

    capabilities: Collection[Capability] = ALL

    def open_store(
        self,
        namespace: str,
        *,
        clock: ManualClock,
        queues: Mapping[str, QueuePolicy] | None,
        lease_ms: int | None,
        retry_policy: RetryPolicy,
        max_handoffs: int | None = None,
    ) -> JobStore:
        """
        Open a store (or an async one) that reads this clock.

        The same namespace again is the same data: reopened, or seen by a second
        instance. `max_handoffs` is given by the look at whether the store is
        finished, by the sequences, and where M7b is tested; a store that
        declares `Capability.MAX_HANDOFFS` missing need not take it.
        """
        raise NotImplementedError(f"{type(self).__name__} does not say open_store")

    def open_backdoor(self, namespace: str) -> Backdoor | None:  # noqa: ARG002
        """Return a way past the store into this namespace's data, if there is one."""
        return None

    def open_transaction(
        self,
        namespace: str,  # noqa: ARG002
    ) -> AbstractContextManager[Any] | None:
        """
        Return a transaction on this namespace's data for `within` to join, if any.

        Left normally it commits, left by an exception it rolls back.
        """
        return None

    def drop_namespace(self, namespace: str) -> None:
        """Remove what a namespace left behind; its stores are closed by then."""

    @pytest.fixture(scope="class")
    @classmethod
    def namespace(cls) -> Iterator[str]:
        """Give the class its data, and remove it at the end."""
        name = new_namespace()
        yield name
        cls().drop_namespace(name)

    @pytest.fixture(scope="class")
    @classmethod
    def _finished(cls, namespace: str) -> Finished:
        """Look once for what is not there at all."""
        suite = cls()
        return Finished(
            lambda: missing_parts(suite.open_store, namespace, suite.capabilities)
        )

    @pytest.fixture
    def bench(self, namespace: str) -> Iterator[Bench]:
        """Give a test its bench; close its stores, and check the data it leaves."""
        door = self.open_backdoor(namespace)
        bench = Bench(self.open_store, namespace, door, self.open_transaction)
        try:
            bench.clean()
            yield bench
            bench.audit()
        finally:
            bench.close_all()

    @pytest.fixture(autouse=True)
    def _declared(self, request: pytest.FixtureRequest) -> None:
        """Expect a test of a capability that is declared missing to fail."""
        # Asked for here, not as an argument: what it needs would be set up before the
        # fixtures of an author's class, and torn down although they had skipped it.
        finished: Finished = request.getfixturevalue("_finished")
        finished.check()
        for each in needed_by(request.function):
            if each not in self.capabilities:
                reason = f"{each}: {reason_for(self.capabilities, each)}"
                request.applymarker(pytest.mark.xfail(reason=reason, strict=False))
