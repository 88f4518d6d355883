"""Runs models and negatives and says what was expected and what was seen."""

import sys
import tempfile

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from runner import tlc
from runner.catalogue import SPEC, Model, Negative
from runner.mutate import checked_names, plant
from runner.report import Line
from runner.rows import read_rows, unreached
from runner.toolchain import Toolchain

# Two small models at a time: the JVM's start is most of their time.
AT_ONCE = 2


def check_model(tools: Toolchain, model: Model, *, timeout_s: float) -> Line:
    """Run one model; it must be accepted with the number of states on record."""
    run = tlc.Run(
        module=SPEC / f"{model.module}.tla",
        config=model.config,
        check_deadlock=model.deadlock,
        coverage=model.coverage,
        workers=model.workers,
        timeout_s=timeout_s,
    )
    outcome = tlc.run_tlc(tools, run)
    seen = _seen(outcome)
    if seen == "ok":
        seen = f"ok, {outcome.distinct:,}"
    return Line(model.name, model.shows, outcome, f"ok, {model.states:,}", seen)


def check_negative(tools: Toolchain, negative: Negative) -> Line:
    """Run one negative; it must fail in the way on record."""
    with tempfile.TemporaryDirectory(prefix="negative-") as folder:
        outcome = tlc.run_tlc(tools, plant(negative, Path(folder)))
    expected = f"{negative.code} {negative.breaks or tlc.MEANING[negative.code]}"
    seen = _seen(outcome)
    # A liveness counterexample is not named; the only property checked is the one.
    if outcome.code == negative.code and outcome.violated in (None, negative.breaks):
        seen = expected
    return Line(negative.name, negative.why, outcome, expected, seen)


def check_all(
    tools: Toolchain,
    models: Sequence[Model],
    negatives: Sequence[Negative],
    *,
    timeout_s: float,
) -> list[Line]:
    """Run everything, large models one by one, small ones two at a time."""
    lines: list[Line] = []
    for model in models:
        if model.workers > 1:
            lines.append(check_model(tools, model, timeout_s=timeout_s))
            # A large model takes minutes: say that it is over, apart from the table.
            took = f"{lines[-1].outcome.seconds:.0f} s"
            print(
                f"{model.name}: {lines[-1].seen}, {took}", file=sys.stderr, flush=True
            )
    small: list[Callable[[], Line]] = [
        partial(check_model, tools, model, timeout_s=timeout_s)
        for model in models
        if model.workers == 1
    ]
    small += [partial(check_negative, tools, negative) for negative in negatives]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        lines += pool.map(lambda work: work(), small)
    names = [model.name for model in models] + [each.name for each in negatives]
    return sorted(lines, key=lambda line: names.index(line.name))


def idle_actions(lines: Iterable[Line]) -> tuple[str, ...]:
    """Say which actions, and which rows of the table, no model ever took."""
    taken: Counter[tuple[str, str]] = Counter()
    for line in lines:
        for action, count in line.outcome.actions.items():
            taken[action] += count
    return tuple(
        f"never taken in any model: {name}" for name in unreached(taken, read_rows())
    )


def never_broken(
    models: Iterable[Model], negatives: Iterable[Negative]
) -> tuple[str, ...]:
    """Say which checked properties no planted fault breaks."""
    broken = {negative.breaks for negative in negatives}
    return tuple(
        f"no planted fault breaks: {name}"
        for name in sorted(checked_names(models) - broken)
    )


def _seen(outcome: tlc.Outcome) -> str:
    meaning = tlc.MEANING.get(outcome.code)
    if outcome.code == tlc.OK:
        return "ok"
    if meaning is None:
        return "time-out" if outcome.code < 0 else f"error {outcome.code}"
    return f"{outcome.code} {outcome.violated or meaning}"
