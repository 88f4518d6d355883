"""What a failure says, in few words: the rule, or the statement that did not hold."""

import ast
import inspect
import re
import textwrap

from collections.abc import Callable, Iterable, Mapping
from itertools import takewhile
from pathlib import Path
from types import CodeType
from typing import TypeGuard, TypeVar

import pytest

from jobfence.conformance.stateful.comparing import Divergence

# How the suite's own messages begin, such as "M18: a stale …".
NAMED = re.compile(r"(?:AssertionError: )?([MECKOBLRST]\d{0,2}b?):")
_HERE = Path(__file__).parent
_PYTEST = Path(pytest.__file__).parent.parent / "_pytest"
_BARE = re.compile(r"(AssertionError: )?assert (not )?(True|False|None)")
_WHERE = re.compile(r"\s*\+\s+where (.*)")
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}")
_RAISED = "raised at "
WIDTH = 160
_MOST_CODE = 8  # lines of a test
_HEADS = (ast.For, ast.AsyncFor, ast.While, ast.If, ast.Try)
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
    return "\n".join([*_place(info), *(line[:WIDTH] for line in told)])


def _is_noise(line: str) -> bool:
    return bool(re.match(r"\s*(\+\s+(where|and)\s|Use -v)", line))


def _place(info: pytest.ExceptionInfo[BaseException]) -> list[str]:
    """
    Return the test's statements up to the one that did not hold: the way to the fault.

    Behind them, that of the suite's own helper, and where the store raised an error.
    """
    entries = [
        each for each in info.traceback if _PYTEST not in Path(each.path).parents
    ]
    own = [each for each in entries if _HERE in Path(each.path).parents]
    test = next((each for each in own if each.name.startswith("test_")), None)
    told = [] if test is None else way_to(test.frame.code.raw, test.lineno + 1)
    if own and own[-1] is not test:
        told.append(" ".join(str(own[-1].statement).split())[:WIDTH])
    if entries and entries[-1] not in own:
        last = entries[-1]
        told.append(f"{_RAISED}{Path(last.path).name}:{last.lineno + 1}")
    return told


def way_to(code: CodeType, failed: int) -> list[str]:
    """Return the last lines of a test, which failed in this line of its file."""
    source, first = inspect.getsourcelines(code)
    (test,) = ast.parse(textwrap.dedent("".join(source))).body
    assert isinstance(test, ast.FunctionDef | ast.AsyncFunctionDef)
    at = failed - first + 1
    around = [each for each in ast.walk(test) if _holds(each, at)]
    last = max(around, key=lambda each: each.lineno)
    # A `with` may fail at its end: what is in it was done.
    end = at if isinstance(last, _HEADS) else last.end_lineno or at
    begin = test.body[1 if ast.get_docstring(test) else 0].lineno
    lines = textwrap.dedent("".join(source[begin - 1 : end])).splitlines()
    cut = ["…"] if len(lines) > _MOST_CODE else []
    return cut + [line[:WIDTH] for line in lines[-_MOST_CODE:] if line.strip()]


def _holds(node: ast.AST, line: int) -> TypeGuard[ast.stmt]:
    """Whether it is a statement with this line in it."""
    return isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0)


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
