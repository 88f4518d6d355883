"""The layers one by one, without pytest: to judge a store, or a faulty one, at once."""

import inspect

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import pytest

from jobfence.conformance.base import SuiteBase, new_namespace
from jobfence.conformance.bench import Bench
from jobfence.conformance.capabilities import needed_by
from jobfence.conformance.examples.acknowledging import Acknowledging
from jobfence.conformance.examples.awaiting import Awaiting
from jobfence.conformance.examples.caps import Caps
from jobfence.conformance.examples.claiming import Claiming
from jobfence.conformance.examples.edges import Edges
from jobfence.conformance.examples.enqueueing import Enqueueing
from jobfence.conformance.examples.identity import Identity
from jobfence.conformance.examples.joining import Joining
from jobfence.conformance.examples.lacking import Lacking
from jobfence.conformance.examples.mending import Mending
from jobfence.conformance.examples.operating import Operating
from jobfence.conformance.examples.ordering import Ordering
from jobfence.conformance.examples.owning import Owning
from jobfence.conformance.examples.policies import Policies
from jobfence.conformance.examples.racing import Racing
from jobfence.conformance.examples.reading import Reading
from jobfence.conformance.examples.recovering import Recovering
from jobfence.conformance.examples.refusing import Refusing
from jobfence.conformance.examples.retrying import Retrying
from jobfence.conformance.examples.schedules import Schedules
from jobfence.conformance.examples.settling import Settling
from jobfence.conformance.examples.sharing import Sharing
from jobfence.conformance.examples.waking import Waking
from jobfence.conformance.matrix import Matrix
from jobfence.conformance.processes import Processes

MATRIX: tuple[type[SuiteBase], ...] = (Matrix,)
PROCESSES: tuple[type[SuiteBase], ...] = (Processes,)
EXAMPLES: tuple[type[SuiteBase], ...] = (
    Claiming,
    Acknowledging,
    Enqueueing,
    Identity,
    Refusing,
    Edges,
    Recovering,
    Retrying,
    Caps,
    Policies,
    Mending,
    Schedules,
    Ordering,
    Operating,
    Settling,
    Joining,
    Lacking,
    Owning,
    Waking,
    Sharing,
    Reading,
    Awaiting,
    Racing,
)


@dataclass(frozen=True, slots=True)
class Check:
    """One test of a layer, with the values for its parameters."""

    cls: type[SuiteBase]
    name: str
    values: Mapping[str, Any] = field(default_factory=dict)

    def _part(self, suite: SuiteBase) -> SuiteBase:
        """Return the part of the suite that has the test, with the author's stores."""
        part = self.cls()
        part.__dict__.update(
            capabilities=suite.capabilities,
            open_store=suite.open_store,
            open_backdoor=suite.open_backdoor,
            open_transaction=suite.open_transaction,
        )
        return part

    def run(self, suite: SuiteBase, namespace: str) -> BaseException | None:
        """
        Run it on a store; return how it failed, or None.

        None also if it needs what the store declares missing.
        """
        needed = needed_by(getattr(self.cls, self.name))
        if any(each not in suite.capabilities for each in needed):
            return None
        door = suite.open_backdoor(namespace)
        bench = Bench(suite.open_store, namespace, door, suite.open_transaction)
        try:
            bench.clean()
            getattr(self._part(suite), self.name)(bench, **self.values)
            bench.audit()
        except pytest.skip.Exception:
            return None
        except (Exception, pytest.fail.Exception) as problem:  # noqa: BLE001  any at all
            return problem
        finally:
            bench.close_all()
        return None

    def __str__(self) -> str:
        told = ", ".join(str(value) for value in self.values.values())
        return f"{self.name}[{told}]" if told else self.name


def checks(classes: tuple[type[SuiteBase], ...]) -> Iterator[Check]:
    """Return every test of these parts of the suite, with every set of values."""
    for cls in classes:
        for name, test in inspect.getmembers(cls, inspect.isfunction):
            if name.startswith("test_"):
                for values in _parameters(test):
                    yield Check(cls, name, values)


def first_failure(
    suite: SuiteBase, classes: tuple[type[SuiteBase], ...]
) -> tuple[Check, BaseException] | None:
    """Run a layer until a test fails; None if none does."""
    namespace = new_namespace()
    try:
        for check in checks(classes):
            problem = check.run(suite, namespace)
            if problem is not None:
                return check, problem
    finally:
        suite.drop_namespace(namespace)
    return None


def _parameters(test: object) -> Iterator[dict[str, Any]]:
    """Read what pytest's own marks say, in the same way."""
    axes = []
    for mark in getattr(test, "pytestmark", []):
        if mark.name == "parametrize":
            names, values = mark.args
            split = names if isinstance(names, tuple) else (names,)
            axes.append(
                [
                    dict(zip(split, row if len(split) > 1 else (row,), strict=True))
                    for row in values
                ]
            )
    for chosen in product(*axes):
        yield {name: value for part in chosen for name, value in part.items()}
