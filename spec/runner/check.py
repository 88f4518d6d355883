"""Runs models and negatives and says what was expected and what was seen."""

import sys
import tempfile

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

from runner import tlc
from runner.batches import Batches
from runner.catalogue import SPEC, Model, Negative
from runner.jvm import Jvm
from runner.mutate import plant
from runner.report import Line
from runner.rows import read_rows, unreached
from runner.toolchain import Toolchain

AT_ONCE = 2


class Check(Protocol):
    """What checks one model of those that are run side by side."""

    def __call__(
        self,
        tools: Toolchain,
        model: Model,
        *,
        timeout_s: float,
        jvm: Jvm | None = None,
    ) -> Line:
        """Run it."""


def check_model(
    tools: Toolchain,
    model: Model,
    *,
    timeout_s: float,
    dump: Path | None = None,
    jvm: Jvm | None = None,
) -> Line:
    """Run one model; it must be accepted with the number of states on record."""
    run = tlc.Run(
        module=SPEC / f"{model.module}.tla",
        config=model.config,
        check_deadlock=model.deadlock,
        coverage=model.coverage,
        workers=model.workers,
        timeout_s=timeout_s,
        dump=dump,
    )
    return _asked(tools, run, jvm, partial(_of_model, model))


def _of_model(model: Model, outcome: tlc.Outcome) -> Line:
    seen = _seen(outcome)
    if seen == "ok":
        seen = f"ok, {outcome.distinct:,}"
    return Line(model.name, model.shows, outcome, f"ok, {model.states:,}", seen)


def check_negative(
    tools: Toolchain, negative: Negative, *, jvm: Jvm | None = None
) -> Line:
    """Run one negative; it must fail in the way on record."""
    with tempfile.TemporaryDirectory(prefix="negative-") as folder:
        run = plant(negative, Path(folder))
        return _asked(tools, run, jvm, partial(_of_negative, negative))


def _of_negative(negative: Negative, outcome: tlc.Outcome) -> Line:
    expected = f"{negative.code} {negative.breaks or tlc.MEANING[negative.code]}"
    seen = _seen(outcome)
    # A liveness counterexample is not named; the only property checked is the one.
    if outcome.code == negative.code and outcome.violated in (None, negative.breaks):
        seen = expected
        if negative.states is not None and outcome.distinct != negative.states:
            seen += f" after {outcome.distinct} states, {negative.states} on record"
    return Line(negative.name, negative.why, outcome, expected, seen)


def _asked(
    tools: Toolchain,
    run: tlc.Run,
    jvm: Jvm | None,
    judge: Callable[[tlc.Outcome], Line],
) -> Line:
    """Run it in this JVM; what is not as expected counts from one of its own only."""
    outcome = None if jvm is None else jvm.run(run)
    line = None if outcome is None else judge(outcome)
    return line if line and line.ok else judge(tlc.run_tlc(tools, run))


def check_all(
    tools: Toolchain,
    models: Sequence[Model],
    negatives: Sequence[Negative],
    *,
    timeout_s: float,
    check: Check = check_model,
    alone: bool = False,
) -> list[Line]:
    """
    Run everything, large models one by one, small ones two at a time.

    `alone`: each in a JVM of its own, which takes twice as long.
    """
    lines = [
        _large(check, tools, model, timeout_s) for model in models if model.workers > 1
    ]
    batches = Batches(share=tools.pinned and not alone)
    small = (model for model in models if model.workers == 1)
    for model in sorted(small, key=lambda model: -model.states):
        batches.add(model, partial(check, tools, model, timeout_s=timeout_s))
    for negative in negatives:
        batches.add(negative.base, partial(check_negative, tools, negative))
    lines += batches.run(tools, at_once=AT_ONCE)
    names = [model.name for model in models] + [each.name for each in negatives]
    return sorted(lines, key=lambda line: names.index(line.name))


def _large(check: Check, tools: Toolchain, model: Model, timeout_s: float) -> Line:
    line = check(tools, model, timeout_s=timeout_s)
    # A large model takes minutes: say that it is over, apart from the table.
    took = f"{line.outcome.seconds:.0f} s"
    print(f"{model.name}: {line.seen}, {took}", file=sys.stderr, flush=True)
    return line


def idle_actions(
    lines: Iterable[Line],
    of_slices: Iterable[str] = (),
    covered: Iterable[str] = (),
) -> tuple[str, ...]:
    """
    Say which actions, and which rows of the table, no model ever took.

    `of_slices`: the actions of JobQueue.tla that the graphs of slices have; `covered`:
    the modules of which TLC must have counted some.
    """
    taken = Counter(("JobQueue", name) for name in of_slices)
    for line in lines:
        for action, count in line.outcome.actions.items():
            taken[action] += count
    counted = {module for module, _ in taken}
    return (
        *(f"no action counted of {name}" for name in covered if name not in counted),
        *(
            f"never taken in any model: {name}"
            for name in unreached(taken, read_rows())
        ),
    )


def _seen(outcome: tlc.Outcome) -> str:
    meaning = tlc.MEANING.get(outcome.code)
    if outcome.code == tlc.OK:
        return "ok"
    if meaning is None:
        return "time-out" if outcome.code < 0 else f"error {outcome.code}"
    return f"{outcome.code} {outcome.violated or meaning}"
