"""One test of the suite: how it ended, and what that says about which rules."""

import re

from dataclasses import dataclass
from typing import Any

import pytest

from jobfence.conformance.capabilities import Capability, needed_by
from jobfence.conformance.stateful.comparing import Divergence
from jobfence.conformance.whole import UNFINISHED
from jobfence.conformance.words import NAMED, WIDTH, says

_RULE = re.compile(r"\b([MECKOBLRST]\d{1,2}b?)\b")
_RANGE = re.compile(r"\b([MECKOBLRST])(\d{1,2})b?-\1(\d{1,2})b?\b")
_CASE = re.compile(r"\b([AF]\d{1,3})\b")


@dataclass(frozen=True, slots=True)
class Result:
    """One test of the suite."""

    name: str
    layer: str
    rules: tuple[str, ...]
    cases: tuple[str, ...]
    outcome: str  # passed, failed, skipped, missing (as declared) or works (though not)
    seconds: float
    needs: tuple[Capability, ...] = ()
    says: str = ""
    reason: str = ""  # why it was left out
    steps: tuple[tuple[str, str], ...] = ()
    differences: tuple[str, ...] = ()


def as_json(result: Result) -> dict[str, Any]:
    """Return it as JSON values."""
    found: dict[str, Any] = {
        "name": result.name,
        "layer": result.layer,
        "rules": list(result.rules),
        "cases": list(result.cases),
        "outcome": result.outcome,
        "seconds": round(result.seconds, 4),
    }
    if result.says:
        found["says"] = result.says
    if result.reason:
        found["reason"] = result.reason
    if result.steps:
        found["steps"] = [
            {"call": call, "answer": answer} for call, answer in result.steps
        ]
        found["differences"] = list(result.differences)
    return found


def result_of(
    item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport
) -> Result:
    """Judge one phase of a test."""
    test: object = getattr(item, "function", None)
    doc = getattr(test, "__doc__", None) or ""
    error = call.excinfo.value if call.excinfo is not None else None
    steps: tuple[tuple[str, str], ...] = ()
    differences: tuple[str, ...] = ()
    rules = _rules(doc)
    if isinstance(error, Divergence):
        steps = tuple(error.steps)
        differences = tuple(str(each) for each in error.differences)
        rules = _rules(error.rules)
    told = ""
    if call.excinfo is not None and not report.passed:
        told = says(call.excinfo, report)
    if named := NAMED.match(told):
        rules = (named[1],)
    elif told and not steps:
        told = "\n".join([*_values(item), told])
    if unfinished := str(error).startswith(UNFINISHED):
        told = str(error).removeprefix(UNFINISHED).strip()
    return Result(
        name=UNFINISHED if unfinished else item.name,
        layer=_layer(test),
        rules=() if unfinished else rules,
        cases=tuple(_CASE.findall(doc)),
        outcome=_outcome(report),
        seconds=call.duration,
        needs=needed_by(test),
        says=told,
        reason=_reason(error, report),
        steps=steps,
        differences=differences,
    )


def _values(item: pytest.Item) -> list[str]:
    """Say what a test was called with: its id may show a number in the place of it."""
    callspec = getattr(item, "callspec", None)
    given = {} if callspec is None else callspec.params
    told = ", ".join(f"{name}={value!r}" for name, value in given.items())
    return [f"with {told}"[:WIDTH]] if told else []


def _outcome(report: pytest.TestReport) -> str:
    if hasattr(report, "wasxfail"):
        return "missing" if report.skipped else "works"
    return report.outcome


def _reason(error: BaseException | None, report: pytest.TestReport) -> str:
    """Say why a test is no judgement: what was not there, or is declared missing."""
    if not report.skipped:
        return ""
    told: str | None = getattr(report, "wasxfail", None)
    return str(error) if told is None else f"declared missing: {told}"


def _layer(test: object) -> str:
    module = str(getattr(test, "__module__", "")).removeprefix("jobfence.conformance.")
    return module.split(".")[0]


def _rules(text: str) -> tuple[str, ...]:
    """Find rule ids, the ones within ranges such as M3-M7 too."""
    cases = re.split(r"\bcases?\b", text)[0]
    found = dict.fromkeys(_RULE.findall(cases))
    for letter, first, last in _RANGE.findall(cases):
        found |= dict.fromkeys(
            f"{letter}{number}" for number in range(int(first), int(last) + 1)
        )
    letters = re.findall(r"\bRules? ([MECKOBLRST])\b", cases)
    return tuple(sorted(found, key=rule_order)) or tuple(letters)


def rule_order(rule: str) -> tuple[str, int, str]:
    """Return what rules are sorted by: their letter, then their number."""
    number = re.sub(r"\D", "", rule)
    return rule[0], int(number or 0), rule
