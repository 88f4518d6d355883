"""Runs both sides of every slice and says whether their graphs are the same."""

import logging
import re
import tempfile
import time

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from runner import tlc
from runner.catalogue import SPEC, Model
from runner.mutate import without_checks
from runner.toolchain import Toolchain

from equality.explore import explore
from equality.graph import Graph, compare, described, read_dump
from equality.slices import read_slice

# Together they name every action of JobQueue.tla, which `report_equality` requires.
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
EVERY_WORLD: Final = 1_000_000
_TIMEOUT_S: Final = 600.0
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
    """Return the names of all actions: what `Next` is a disjunction of."""
    _, _, after = module.read_text().partition("\nNext ==\n")
    body, _, _ = after.partition("\nSpec ==")
    return frozenset(_QUANTIFIED.findall(re.sub(r".*\\E .* :(?=\s|$)", _rest, body)))


def _rest(quantifier: re.Match[str]) -> str:
    return " " * len(quantifier[0])


def compare_slice(
    model: Model, dumped: tuple[Graph, float], *, worlds_per_state: int
) -> Compared:
    """Explore the store within the slice and compare with what TLC found."""
    theirs, tlc_seconds = dumped
    started = time.monotonic()
    explored = explore(read_slice(model.name), worlds_per_state=worlds_per_state)
    seconds = time.monotonic() - started
    ours = explored.graph
    return Compared(
        name=model.name,
        sizes=(_size(theirs), _size(ours)),
        worlds=explored.worlds,
        seconds=(tlc_seconds, seconds),
        actions=theirs.actions & ours.actions,
        complaints=tuple(complaints(model.states, theirs, ours)),
    )


def _size(graph: Graph) -> tuple[int, int]:
    return len(graph.states), len(graph.edges)


def complaints(states: int, spec: Graph, store: Graph) -> Iterator[str]:
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
    if len(spec.states) != states:
        yield f"models.toml has {states:,} states on record"


def dump_graph(tools: Toolchain, name: str) -> tuple[Graph, float]:
    """Let TLC write its state graph and read it; checks belong to other runs."""
    with tempfile.TemporaryDirectory(prefix="graph-") as folder:
        config = Path(folder) / "slice.cfg"
        config.write_text(without_checks((SPEC / "models" / f"{name}.cfg").read_text()))
        dump = Path(folder) / "graph.dot"
        outcome = tlc.run_tlc(
            tools,
            tlc.Run(
                module=SPEC / "MC.tla", config=config, dump=dump, timeout_s=_TIMEOUT_S
            ),
        )
        if outcome.code != tlc.OK:
            raise RuntimeError(
                f"TLC on {name}: exit code {outcome.code}\n{outcome.output}"
            )
        return read_dump(dump), outcome.seconds


def report_equality(
    tools: Toolchain, models: Iterable[Model], *, every_world: bool
) -> int:
    """Compare all slices, print a line for each; return the exit code."""
    # Unreadable rows are meant to be there: the store says so each time.
    logging.getLogger("jobfence").setLevel(logging.ERROR)
    most = EVERY_WORLD if every_world else 1
    slices = [model for model in models if model.name in SLICES]
    done: list[Compared] = []
    print(_HEAD)
    with ThreadPoolExecutor(1) as pool:  # TLC is one slice ahead of the store
        graphs = pool.map(partial(dump_graph, tools), [each.name for each in slices])
        for model, dumped in zip(slices, graphs, strict=True):
            found = compare_slice(model, dumped, worlds_per_state=most)
            print(_line(found), flush=True)
            for each in found.complaints:
                print(f"  {each}")
            done.append(found)
    return _verdict(done)


def _verdict(done: Sequence[Compared]) -> int:
    wrong = [each for each in done if each.complaints]
    taken = frozenset().union(*(each.actions for each in done))
    missing = sorted(actions_of_spec() - taken)
    for action in missing:
        print(f"in no slice on both sides: {action}")
    print(f"{len(done)} slices, {len(taken)} actions, {len(wrong)} not equal")
    return 1 if wrong or missing else 0


_HEAD: Final = (
    "| slice | actions | states (spec = store) | edges (spec = store) | worlds "
    "| equal | TLC s | store s |\n|---|---|---|---|---|---|---|---|"
)


def _line(found: Compared) -> str:
    (their_states, their_edges), (our_states, our_edges) = found.sizes
    tlc_seconds, seconds = found.seconds
    return (
        f"| {found.name} | {len(found.actions)} "
        f"| {their_states:,} = {our_states:,} | {their_edges:,} = {our_edges:,} "
        f"| {found.worlds:,} | {'NO' if found.complaints else 'yes'} "
        f"| {tlc_seconds:.1f} | {seconds:.1f} |"
    )
