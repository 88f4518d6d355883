"""Runs TLC once and reads what it printed."""

import os
import re
import subprocess
import tempfile
import time

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from runner.toolchain import Toolchain

# What TLC's exit code says. Anything else is an error in the spec or in the tool.
OK, ASSUMPTION, DEADLOCK, INVARIANT, PROPERTY = 0, 10, 11, 12, 13
MEANING: Mapping[int, str] = {
    OK: "ok",
    ASSUMPTION: "assumption false",
    DEADLOCK: "deadlock",
    INVARIANT: "invariant violated",
    PROPERTY: "property violated",
}

# One worker means a small model: start-up is all its time, so no parallel collector and
# no second compiler.
SMALL = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

_COUNTS = re.compile(
    r"^(\d+) states generated, (\d+) distinct states found", re.MULTILINE
)
_DEPTH = re.compile(r"depth of the complete state graph search is (\d+)")
_ACTION = re.compile(
    r"^<(?P<action>\w+) line .* of module (?P<module>\w+)(?: \([^)]*\))?>: "
    r"\d+:(?P<taken>\d+)$"
)
_VIOLATED = (
    re.compile(r"Error: Invariant (\w+) is violated"),
    re.compile(r"Error: Action property (\w+) is violated"),
    re.compile(r"Error: Property (\w+) is violated"),
)
_FALSE = re.compile(r"Error: Assumption line (\d+), .* of module (\w+) is false")


@dataclass(frozen=True, slots=True)
class Run:
    """What to check: a module with a configuration, and how."""

    module: Path
    config: Path
    check_deadlock: bool = False
    coverage: bool = False
    workers: int = 1
    timeout_s: float = 120.0
    dump: Path | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What TLC found. `actions`: (module, action) to how often it was taken."""

    code: int
    seconds: float
    distinct: int | None
    generated: int | None
    depth: int | None
    violated: str | None
    actions: Mapping[tuple[str, str], int]
    output: str


def run_tlc(tools: Toolchain, run: Run) -> Outcome:
    """Run TLC in a JVM of its own and return what it found; a time-out is code -1."""
    with tempfile.TemporaryDirectory(prefix="tlc-") as scratch:
        command = _command(tools, run, scratch)
        started = time.monotonic()
        try:
            done = subprocess.run(
                command,
                cwd=run.module.parent,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=run.timeout_s,
                check=False,
            )
            code, output = done.returncode, done.stdout
        except subprocess.TimeoutExpired as late:
            code, output = -1, _text(late.stdout)
        return read(code, time.monotonic() - started, output, run.module.parent)


def _command(tools: Toolchain, run: Run, scratch: str) -> list[str]:
    return [
        tools.java,
        *(SMALL if run.workers == 1 else ["-XX:+UseParallelGC"]),
        # TLC unpacks its standard modules there: they are this run's own.
        f"-Djava.io.tmpdir={scratch}",
        "-cp",
        str(tools.jar),
        "tlc2.TLC",
        *arguments(run, f"{scratch}/states"),
    ]


def arguments(run: Run, states: str) -> list[str]:
    """
    Return what TLC is to be told.

    `states` is a folder for this run alone: TLC would name it by the second. Module
    and configuration are told as seen from the module's folder.
    """
    told = ["-workers", str(run.workers), "-metadir", states]
    told += ["-config", os.path.relpath(run.config, run.module.parent)]
    if not run.check_deadlock:
        told.append("-deadlock")  # TLC 2.15: this option switches the check off
    if run.coverage:
        told += ["-coverage", "1"]
    if run.dump is not None:
        told += ["-dump", "dot,actionlabels,colorize", str(run.dump)]
    return [*told, run.module.stem]


def _text(output: str | bytes | None) -> str:
    if output is None:
        return ""
    return output if isinstance(output, str) else output.decode(errors="replace")


def read(code: int, seconds: float, output: str, folder: Path) -> Outcome:
    """Return what this output of TLC says; `folder` is where the modules are."""
    counts = list(_COUNTS.finditer(output))
    depth = _DEPTH.search(output)
    return Outcome(
        code=code,
        seconds=seconds,
        distinct=int(counts[-1][2]) if counts else None,
        generated=int(counts[-1][1]) if counts else None,
        depth=int(depth[1]) if depth else None,
        violated=_violated(output, folder),
        actions=_coverage(output),
        output=output,
    )


def _violated(output: str, folder: Path) -> str | None:
    for pattern in _VIOLATED:
        match = pattern.search(output)
        if match:
            return match[1]
    false = _FALSE.search(output)
    if false is None:
        return None
    # TLC 2.15 gives an assumption's line only; its name is in the module.
    lines = (folder / f"{false[2]}.tla").read_text().splitlines()[: int(false[1])]
    named = (re.match(r"ASSUME (\w+) ==", line) for line in reversed(lines))
    return next((match[1] for match in named if match), None)


def _coverage(output: str) -> Mapping[tuple[str, str], int]:
    # An action that is reached through several disjuncts has a line for each: the sum.
    _, _, last = output.rpartition("The coverage statistics at")
    actions: Counter[tuple[str, str]] = Counter()
    for line in last.splitlines():
        match = _ACTION.match(line)
        if match and match["action"] != "Init":
            actions[match["module"], match["action"]] += int(match["taken"])
    return actions
