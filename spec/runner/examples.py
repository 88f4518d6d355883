"""Writes `counterexamples.md`: each planted fault, and how TLC found it."""

from collections.abc import Iterable, Iterator

from runner.catalogue import Negative
from runner.report import Line
from runner.trace import condense

_HEAD = """# How each planted fault is found

Written by `.venv/bin/python spec/run.py --counterexamples`, from what TLC printed. The numbers are
states; below each stands what the step changed, and nothing else. In the models whose
names begin with `sql`, the client that ran the statement stands behind it. Each run is a
shortest one. Of liveness none is kept: which run TLC shows varies.
"""


def examples(found: Iterable[tuple[Negative, Line]]) -> str:
    """Return the page: for each negative, why, the edit, and the counterexample."""
    return _HEAD + "".join(_section(*each) for each in found)


def _section(negative: Negative, line: Line) -> str:
    return (
        f"\n## {negative.name}\n\n{negative.why[0].upper()}{negative.why[1:]}. In `{negative.file}`, "
        f"checked with `models/{negative.base.name}.cfg`; TLC answers "
        f"{line.seen}.\n\n"
        f"```diff\n{''.join(_diff(negative))}```\n\n{_found(negative, line)}\n"
    )


def _found(negative: Negative, line: Line) -> str:
    if negative.base.liveness:
        return (
            f"Not {negative.breaks}: a run that goes on for ever without it. "
            f"`.venv/bin/python spec/run.py --trace {negative.name}` shows one."
        )
    trace = condense(line.outcome.output) or f"assumption {negative.breaks} is false"
    return f"```\n{trace}\n```"


def _diff(negative: Negative) -> Iterator[str]:
    for edit in negative.edits:
        old, new = edit.old.splitlines(), edit.new.splitlines()
        for each in old:
            yield f"{' ' if each in new else '-'} {each}\n"
        for each in new:
            if each not in old:
                yield f"+ {each}\n"
