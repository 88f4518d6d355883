"""What a run of the suite found, ready to be printed or written down."""

import platform
import re
import time

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from jobfence import __version__
from jobfence.conformance import SUITE_VERSION, driven
from jobfence.conformance.base import SuiteBase
from jobfence.conformance.capabilities import ALL, Capability, needed_by, reason_for
from jobfence.conformance.seeded import Seeded
from jobfence.conformance.stateful.comparing import Divergence
from jobfence.conformance.whole import UNFINISHED

_RULE = re.compile(r"\b([MECKOBLRST]\d{1,2}b?)\b")
_RANGE = re.compile(r"\b([MECKOBLRST])(\d{1,2})b?-\1(\d{1,2})b?\b")
_CASE = re.compile(r"\b([AF]\d{1,3})\b")
# How the suite's own messages begin, such as "M18: a stale …".
_NAMED = re.compile(r"(?:AssertionError: )?([MECKOBLRST]\d{0,2}b?):")
_SHOWN_LINES = 8  # at each end


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
    steps: tuple[tuple[str, str], ...] = ()
    differences: tuple[str, ...] = ()


@dataclass(slots=True)
class Results:
    """All of them, and the store they are about."""

    store: str = ""
    found: dict[str, Result] = field(default_factory=dict)
    capabilities: Mapping[Capability, str | None] = field(default_factory=dict)
    began: float = field(default_factory=time.time)
    # By what was put in on purpose: whether every test of it found it.
    seeded: dict[str, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Count from nothing what this run drives."""
        driven.forget()

    def add(
        self,
        item: pytest.Item,
        call: pytest.CallInfo[None],
        report: pytest.TestReport,
    ) -> None:
        """Take in one phase of a test; a failure in any of them is the test's."""
        if not report.skipped and (report.failed or call.when == "call"):
            self._note_seeded(item, found=report.passed)
        cls = getattr(item, "cls", None)
        if not (isinstance(cls, type) and issubclass(cls, SuiteBase)):
            return
        if report.passed and call.when != "call":
            return
        old = self.found.get(item.nodeid)
        if old is not None and old.outcome == "failed":
            return
        self.store = self.store or cls.__name__.removeprefix("Test")
        self.capabilities = self.capabilities or _declared(cls)
        self.found[item.nodeid] = _result(item, call, report)

    def _note_seeded(self, item: pytest.Item, *, found: bool) -> None:
        callspec = getattr(item, "callspec", None)
        for value in callspec.params.values() if callspec is not None else ():
            if isinstance(value, Seeded):
                self.seeded[value.name] = self.seeded.get(value.name, True) and found

    def summary(self) -> dict[str, int]:
        """Return how many tests ended in which way."""
        counted: dict[str, int] = {}
        for each in self.found.values():
            counted[each.outcome] = counted.get(each.outcome, 0) + 1
        return counted

    def rules(self) -> dict[str, dict[str, int]]:
        """Return for every rule how many of its tests ended in which way."""
        by_rule: dict[str, dict[str, int]] = {}
        for each in self.found.values():
            for rule in each.rules:
                ends = by_rule.setdefault(rule, {})
                ends[each.outcome] = ends.get(each.outcome, 0) + 1
        return dict(sorted(by_rule.items(), key=lambda item: _by_rule(item[0])))

    def layers(self) -> dict[str, dict[str, float]]:
        """Return for every layer its tests, its failures and its seconds."""
        by_layer: dict[str, dict[str, float]] = {}
        for each in self.found.values():
            layer = by_layer.setdefault(
                each.layer, {"tests": 0, "failed": 0, "seconds": 0.0}
            )
            layer["tests"] += 1
            layer["failed"] += each.outcome == "failed"
            layer["seconds"] = round(layer["seconds"] + each.seconds, 3)
        return by_layer

    def working(self) -> list[Capability]:
        """Return what is declared missing and passed every test it has."""
        ends: dict[Capability, set[str]] = {}
        for each in self.found.values():
            for need in each.needs:
                ends.setdefault(need, set()).add(each.outcome)
        return sorted(need for need, seen in ends.items() if seen == {"works"})

    def faults(self) -> dict[str, list[Result]]:
        """Return the tests that failed, by the name they share before the brackets."""
        by_name: dict[str, list[Result]] = {}
        for each in self.found.values():
            if each.outcome == "failed":
                by_name.setdefault(each.name.partition("[")[0], []).append(each)
        return by_name

    def lines(self) -> Iterator[str]:
        """Say it for a terminal."""
        for name, failed in self.faults().items():
            first = failed[0]
            times = f" and {len(failed) - 1} more like it" if failed[1:] else ""
            yield ": ".join([*filter(None, [", ".join(first.rules)]), f"{name}{times}"])
            yield from (f"    {line}" for line in _middle_cut(first.says.splitlines()))
        if self.seeded:
            lost = [name for name, found in self.seeded.items() if not found]
            told = f": {', '.join(lost)}" if lost else ""
            yield f"{len(self.seeded)} seeded faults, {len(lost)} survived{told}"
        for capability in self.working():
            yield f"{capability} is declared missing, and works: declare it"
        told = ", ".join(f"{number} {end}" for end, number in self.summary().items())
        yield f"{self.store}: conformance suite {SUITE_VERSION}: {told or 'no tests'}"

    def as_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return {
            "suite": SUITE_VERSION,
            "jobfence": __version__,
            "python": platform.python_version(),
            "store": self.store,
            "began": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.began)),
            "seconds": round(time.time() - self.began, 3),
            "summary": self.summary(),
            "capabilities": {
                each.value: {
                    "meaning": each.meaning,
                    "declared": reason is None,
                    "reason": reason,
                    "works_though_missing": each in self.working(),
                }
                for each, reason in self.capabilities.items()
            },
            "layers": self.layers(),
            "coverage": driven.as_json(),
            "faults": {
                "seeded": len(self.seeded),
                "survived": [name for name, found in self.seeded.items() if not found],
            },
            "rules": self.rules(),
            "tests": [_as_json(each) for each in self.found.values()],
        }


def _middle_cut(lines: list[str]) -> list[str]:
    """Keep the beginning, and the end: there it says what was expected and seen."""
    left = len(lines) - 2 * _SHOWN_LINES
    if left <= 1:
        return lines
    return [
        *lines[:_SHOWN_LINES],
        f"… {left} more lines",
        *lines[-_SHOWN_LINES:],
    ]


def _as_json(result: Result) -> dict[str, Any]:
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
    if result.steps:
        found["steps"] = [
            {"call": call, "answer": answer} for call, answer in result.steps
        ]
        found["differences"] = list(result.differences)
    return found


def _declared(cls: type[SuiteBase]) -> Mapping[Capability, str | None]:
    have = cls.capabilities
    return {
        each: None if each in have else reason_for(have, each) for each in sorted(ALL)
    }


def _result(
    item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport
) -> Result:
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
    says = _says(error, report)
    if named := _NAMED.match(says):
        rules = (named[1],)
    if unfinished := str(error).startswith(UNFINISHED):
        says = str(error).removeprefix(UNFINISHED).strip()
    return Result(
        name=UNFINISHED if unfinished else item.name,
        layer=_layer(test),
        rules=() if unfinished else rules,
        cases=tuple(_CASE.findall(doc)),
        outcome=_outcome(report),
        seconds=call.duration,
        needs=needed_by(test),
        says=says,
        steps=steps,
        differences=differences,
    )


def _outcome(report: pytest.TestReport) -> str:
    if hasattr(report, "wasxfail"):
        return "missing" if report.skipped else "works"
    return report.outcome


def _says(error: BaseException | None, report: pytest.TestReport) -> str:
    if error is None or report.passed:
        return ""
    if isinstance(error, Divergence):
        return error.told
    if report.skipped:
        return str(error)
    crash = getattr(report.longrepr, "reprcrash", None)
    message = getattr(crash, "message", None) or str(error)
    return str(message)


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
    return tuple(sorted(found, key=_by_rule)) or tuple(letters)


def _by_rule(rule: str) -> tuple[str, int, str]:
    number = re.sub(r"\D", "", rule)
    return rule[0], int(number or 0), rule
