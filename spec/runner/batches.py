"""What may share a JVM, and what runs beside what."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from runner.catalogue import Model
from runner.jvm import Jvm
from runner.report import Line
from runner.toolchain import Toolchain


class Work(Protocol):
    """A run of TLC, in this JVM or in one of its own."""

    def __call__(self, *, jvm: Jvm | None) -> Line:
        """Run it."""


class Batches:
    """
    Works of one root module after each other in one JVM, the others each in its own.

    `share` false: all of them in their own.
    """

    def __init__(self, *, share: bool) -> None:
        self._share = share
        self._together: dict[str, list[Work]] = {}
        self._alone: list[Work] = []

    def add(self, model: Model, work: Work) -> None:
        """Add a work that checks this model, or a copy of it with a fault."""
        if self._share and not model.liveness:
            self._together.setdefault(model.module, []).append(work)
        else:
            self._alone.append(work)

    def run(self, tools: Toolchain, *, at_once: int) -> list[Line]:
        """Run all, so many JVMs side by side."""
        batches = sorted(self._together.values(), key=len, reverse=True)
        with ThreadPoolExecutor(at_once) as pool:
            done = [pool.submit(_in_one_jvm, tools, batch) for batch in batches]
            done += [pool.submit(_in_its_own, work) for work in self._alone]
            return [line for each in done for line in each.result()]


def _in_one_jvm(tools: Toolchain, batch: Sequence[Work]) -> list[Line]:
    with Jvm(tools) as jvm:
        return [work(jvm=jvm) for work in batch]


def _in_its_own(work: Work) -> list[Line]:
    return [work(jvm=None)]
