"""
Let TLC judge a journal against the rows of the transition table.

    jobfence audit --url URL --tla TraceData.tla
    python spec/trace/run.py TraceData.tla

Exit code 0: every event was possible; 1: one was not, and it is named; 2: wrong usage.
Without Java or the jar nothing is judged: that fails where CI=true, else it is said and
passes.
"""

import argparse
import os
import re
import shutil
import sys
import tempfile

from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from runner import tlc  # noqa: E402  of this folder's parent, which is no package
from runner.toolchain import (  # noqa: E402
    Toolchain,
    ToolMissingError,
    find_toolchain,
)

TIMEOUT_S = 600.0
_DEPTH = re.compile(r"The depth of the complete state graph search is (\d+)")


class NoTraceError(Exception):
    """What was given is no trace, or TLC could not read it."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What TLC said; `rejected` is the first impossible event, counted from 0."""

    events: int
    rejected: int | None
    seconds: float


def judge(tools: Toolchain, data: Path) -> Judgement:
    """Run TLC on one trace."""
    text = data.read_text()
    events = len(re.findall(r"^<<\"", text, re.MULTILINE))
    if "MODULE TraceData" not in text or not events:
        raise NoTraceError(f"{data} is no module TraceData with events in it")
    with tempfile.TemporaryDirectory(prefix="trace-") as folder:
        place = Path(folder)
        for module in (HERE / "TraceCheck.tla", HERE.parent / "TransitionTable.tla"):
            shutil.copy(module, place)
        shutil.copy(data, place / "TraceData.tla")
        run = tlc.Run(
            module=place / "TraceCheck.tla",
            config=HERE / "TraceCheck.cfg",
            check_deadlock=True,
            timeout_s=TIMEOUT_S,
        )
        outcome = tlc.run_tlc(tools, run)
    if outcome.code == tlc.OK and outcome.distinct == events + 1:
        return Judgement(events, None, outcome.seconds)
    if outcome.code != tlc.DEADLOCK or outcome.distinct is None:
        raise NoTraceError(f"TLC could not judge it:\n{outcome.output[-3000:]}")
    # Each state is a place in the trace: so many events were possible, and no more.
    return Judgement(events, outcome.distinct - 1, outcome.seconds)


def main() -> int:
    """Judge the trace named on the command line."""
    parser = argparse.ArgumentParser(description="Judge a journal by TLC.")
    parser.add_argument("data", type=Path, help="made by jobfence audit --tla")
    options = parser.parse_args()
    if not options.data.is_file():
        print(f"there is no file {options.data}", file=sys.stderr)
        return 2
    try:
        found = judge(find_toolchain(), options.data)
    except ToolMissingError as error:
        print(f"the trace was not judged: {error}", file=sys.stderr)
        return 1 if os.environ.get("CI") == "true" else 0
    except NoTraceError as error:
        print(error, file=sys.stderr)
        return 2
    if found.rejected is None:
        print(f"accepted: {found.events:,} events, {found.seconds:.1f} s")
        return 0
    event = re.findall(r"^<<\".*$", options.data.read_text(), re.MULTILINE)
    print(
        f"rejected: event {found.rejected:,} of {found.events:,}, {found.seconds:.1f} s"
    )
    print(event[found.rejected].rstrip(","))
    return 1


if __name__ == "__main__":
    sys.exit(main())
