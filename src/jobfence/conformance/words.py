"""What a failure says, in few words: the rule, or the statement that did not hold."""

import re

from collections.abc import Callable, Iterable, Mapping
from itertools import takewhile
from pathlib import Path
from typing import TypeVar

import pytest

from jobfence.conformance.stateful.comparing import Divergence

# How the suite's own messages begin, such as "M18: a stale …".
NAMED = re.compile(r"(?:AssertionError: )?([MECKOBLRST]\d{0,2}b?):")
_HERE = Path(__file__).parent
_BARE = re.compile(r"(AssertionError: )?assert (not )?(True|False|None)")
_WHERE = re.compile(r"\s*\+\s+where (.*)")
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}")
_RAISED = "raised at "
_WIDTH = 160
_LAYERS = ("matrix", "examples", "stateful")
Failure = TypeVar("Failure")


def says(info: pytest.ExceptionInfo[BaseException], report: pytest.TestReport) -> str:
    """Say what was wrong: expected and seen, not how pytest came to know it."""
    if isinstance(info.value, Divergence):
        return info.value.told
    if report.skipped:
        return str(info.value)
    crash = getattr(report.longrepr, "reprcrash", None)
    message = str(getattr(crash, "message", None) or info.value)
    lines = message.splitlines()
    if NAMED.match(message):
        end = next((n for n, line in enumerate(lines) if line[:7] == "assert "), None)
        return "\n".join(lines[:end]).removeprefix("AssertionError: ")
    # Where CI is set pytest gives a whole diff instead of an offer to give it.
    short = takewhile(lambda line: not line.strip().startswith("Full diff"), lines)
    told = [line for line in short if line.strip() and not _is_noise(line)]
    if len(told) == 1 and _BARE.fullmatch(told[0].strip()):
        # Of a bare assertion only the value's origin says what was seen.
        told = [f"seen: {found[1]}" for found in map(_WHERE.match, lines) if found][:1]
    return "\n".join([*_place(info), *(line[:_WIDTH] for line in told)])


def _is_noise(line: str) -> bool:
    return bool(re.match(r"\s*(\+\s+(where|and)\s|Use -v)", line))


def _place(info: pytest.ExceptionInfo[BaseException]) -> list[str]:
    """Return the suite's statement, and where the store raised an error, if it did."""
    entries = [*info.traceback]
    own = [each for each in entries if _HERE in Path(each.path).parents]
    told = [" ".join(str(own[-1].statement).split())[:_WIDTH]] if own else []
    if entries and entries[-1] not in own:
        last = entries[-1]
        told.append(f"{_RAISED}{Path(last.path).name}:{last.lineno + 1}")
    return told


def of_sequences(found: Mapping[str, object]) -> str:
    """Say how much the state machine tried, and what makes it try the same again."""
    seed = found["seed"]
    told = "no seed was given" if seed is None else f"seed {seed}"
    return f"sequences: {found['examples']} of up to {found['steps']} steps, {told}"


def grouped(
    failures: Iterable[Failure], told: Callable[[Failure], tuple[str, str, str]]
) -> list[list[Failure]]:
    """
    Put failures of one test together, and those that say the same; the matrix first.

    `told` gives a failure's layer, name and words.
    """
    by_name: dict[str, list[Failure]] = {}
    for each in failures:
        by_name.setdefault(told(each)[1].partition("[")[0], []).append(each)
    by_cause: dict[str, list[Failure]] = {}
    for alike in by_name.values():
        _, name, words = told(alike[0])
        by_cause.setdefault(_cause(words) or name, []).extend(alike)
    return sorted(by_cause.values(), key=lambda alike: _place_of(told(alike[0])[0]))


def _cause(words: str) -> str:
    """Return what failures of one cause share, whichever tests met it."""
    _, raised, rest = words.partition(_RAISED)
    told = rest if raised else words if NAMED.match(words) else ""
    return _ID.sub("…", told)


def _place_of(layer: str) -> int:
    return _LAYERS.index(layer) if layer in _LAYERS else len(_LAYERS)
