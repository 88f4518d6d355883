"""Runs both sides of every slice and says whether their graphs are the same."""

import gc
import logging
import multiprocessing
import re
import shutil
import tempfile
import time

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from runner import tlc
from runner.catalogue import SPEC, Model
from runner.check import AT_ONCE, check_model
from runner.jvm import Jvm
from runner.report import Line
from runner.toolchain import Toolchain

from equality.explore import explore
from equality.graph import Graph, compare, described, read_dump
from equality.slices import read_slice

# Together they name every action of JobQueue.tla, which `Comparing.report` requires.
SLICES: Final = (
    "counters-3jobs",
    "endings-2jobs",
    "schedule-3jobs",
    "schedule-2keys",
    "policy-3jobs",
    "enqueue-3jobs",
    "prune-2jobs",
    "damage-2jobs",
)
# Larger ones, for `--deep`; each is a model of its own.
DEEP_SLICES: Final = ("deep-fences-3jobs", "deep-attempts-3jobs")
EVERY_WORLD: Final = 1_000_000
_QUANTIFIED = re.compile(r"\b([A-Z]\w+)(?=\(|\s*$)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Compared:
    """What came of one slice: sizes of TLC's graph and of the store's."""

    name: str
    sizes: tuple[tuple[int, int], tuple[int, int]]
    worlds: int
    seconds: tuple[float, float]
    actions: frozenset[str]
    complaints: tuple[str, ...]


def actions_of_spec(module: Path = SPEC / "JobQueue.tla") -> frozenset[str]:
    """Return the names of all actions: what `Next`, `Refused` in it, is made of."""
    _, _, after = module.read_text().partition("\nRefused ==\n")
    body, _, _ = after.partition("\nSpec ==")
    named = _QUANTIFIED.findall(re.sub(r".*\\E .* :(?=\s|$)", _rest, body))
    return frozenset(named) - {"Refused"}


def _rest(quantifier: re.Match[str]) -> str:
    return " " * len(quantifier[0])


def compare_dump(
    model: Model, dump: Path, seconds: float, *, worlds_per_state: int
) -> Compared:
    """Explore the store within the slice and compare with what TLC dumped."""
    # Unreadable rows are meant to be there: the store says so each time.
    logging.getLogger("jobfence").setLevel(logging.ERROR)
    gc.disable()  # millions of rows that are all kept: nothing to collect
    theirs = read_dump(dump)
    started = time.monotonic()
    explored = explore(read_slice(model.name), worlds_per_state=worlds_per_state)
    ours = explored.graph
    return Compared(
        name=model.name,
        sizes=(_size(theirs), _size(ours)),
        worlds=explored.worlds,
        seconds=(seconds, time.monotonic() - started),
        actions=theirs.actions & ours.actions,
        complaints=tuple(complaints(model, theirs, ours)),
    )


def _size(graph: Graph) -> tuple[int, int]:
    return len(graph.states), len(graph.edges)


def complaints(model: Model, spec: Graph, store: Graph) -> Iterator[str]:
    """Yield each way in which the graphs differ, or are not the ones on record."""
    found = compare(spec, store)
    sides = ("only the spec has", "only the store has")
    if found.initial:
        yield "they do not begin in the same states"
    for side, extra, edges in zip(sides, found.states, found.edges, strict=True):
        if extra:
            yield f"{side} {len(extra):,} states"
        if edges:
            yield f"{side} {len(edges):,} edges:"
            yield from (f"    {each}" for each in described(edges))
    if len(spec.states) != model.states:
        yield f"models.toml has {model.states:,} states on record"
    if len(spec.edges) != model.edges:
        yield f"models.toml has {model.edges or 'no'} edges on record"


class Comparing:
    """Checks models, and compares the graphs of those that are slices."""

    def __init__(
        self,
        processes: Executor,
        slices: Sequence[str] = SLICES,
        *,
        every_world: bool = False,
    ) -> None:
        self._slices = slices
        self._processes = processes
        self._most = EVERY_WORLD if every_world else 1
        self._under_way: dict[str, Future[Compared]] = {}

    def __call__(
        self,
        tools: Toolchain,
        model: Model,
        *,
        timeout_s: float,
        jvm: Jvm | None = None,
    ) -> Line:
        """Check the model; if it is a slice, begin to compare its graph."""
        check = partial(check_model, tools, model, timeout_s=timeout_s, jvm=jvm)
        if model.name not in self._slices:
            return check()
        folder = tempfile.mkdtemp(prefix="graph-")
        dump = Path(folder) / "graph.dot"
        line = check(dump=dump)
        if line.outcome.code == tlc.OK:
            work = self._processes.submit(
                compare_dump,
                model,
                dump,
                line.outcome.seconds,
                worlds_per_state=self._most,
            )
            work.add_done_callback(lambda _: shutil.rmtree(folder))
            self._under_way[model.name] = work
        else:
            shutil.rmtree(folder)
        return line

    def compared(self, name: str) -> Compared | None:
        """Wait for what came of a slice; None if it is none, or TLC refused it."""
        work = self._under_way.get(name)
        return work.result() if work else None

    def taken(self) -> frozenset[str]:
        """Return the actions that both graphs of some slice have."""
        return frozenset().union(*(each.actions for each in self._all()))

    def _all(self) -> list[Compared]:
        found = (self.compared(name) for name in self._slices)
        return [each for each in found if each is not None]

    def report(self) -> tuple[str, bool]:
        """Return a line for each slice and the verdict, and whether all are equal."""
        done = self._all()
        compared = {each.name for each in done}
        wrong = [
            f"{name}: not compared" for name in self._slices if name not in compared
        ]
        if self._slices is SLICES:
            missing = sorted(actions_of_spec() - self.taken())
            wrong += [f"in no slice on both sides: {action}" for action in missing]
        lines = [_HEAD]
        for each in done:
            lines += [_line(each), *(f"  {text}" for text in each.complaints)]
        equal = not wrong and not any(each.complaints for each in done)
        return "\n".join([*lines, "", *wrong, _verdict(done)]), equal


def processes() -> ProcessPoolExecutor:
    """Return where the slices of the store are explored."""
    return ProcessPoolExecutor(AT_ONCE, mp_context=multiprocessing.get_context("spawn"))


def _verdict(done: Sequence[Compared]) -> str:
    states, edges = (sum(each.sizes[0][at] for each in done) for at in (0, 1))
    actions = frozenset().union(*(each.actions for each in done))
    wrong = sum(bool(each.complaints) for each in done)
    return (
        f"{len(done)} slices, {states:,} states and {edges:,} edges, "
        f"{len(actions)} actions, {wrong} not equal"
    )


_HEAD: Final = (
    "| slice | actions | states (spec = store) | edges (spec = store) | worlds "
    "| equal | TLC s | store s |\n|---|---|---|---|---|---|---|---|"
)


def cells(found: Compared) -> tuple[str, ...]:
    """Return a slice's figures: actions, states, edges, worlds, equal or not."""
    (their_states, their_edges), (our_states, our_edges) = found.sizes
    return (
        f"{len(found.actions)}",
        f"{their_states:,} = {our_states:,}",
        f"{their_edges:,} = {our_edges:,}",
        f"{found.worlds:,}",
        "NO" if found.complaints else "yes",
    )


def _line(found: Compared) -> str:
    told = [found.name, *cells(found), *(f"{each:.1f}" for each in found.seconds)]
    return f"| {' | '.join(told)} |"
