"""What a run of the suite found, ready to be printed or written down."""

import platform
import time

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from jobfence import __version__
from jobfence.conformance import SUITE_VERSION, driven, words
from jobfence.conformance.base import SuiteBase
from jobfence.conformance.capabilities import ALL, Capability, reason_for
from jobfence.conformance.result import Result, as_json, result_of, rule_order
from jobfence.conformance.seeded import Seeded
from jobfence.conformance.whole import NOT_RUN

_SHOWN_LINES = 8  # at each end
# Of several causes the first are told whole, some in a few lines, the others by name.
_WHOLE, _SHORT, _FEW_LINES = 2, 6, 3


@dataclass(slots=True)
class Results:
    """All of them, and the store they are about."""

    store: str = ""
    found: dict[str, Result] = field(default_factory=dict)
    capabilities: Mapping[Capability, str | None] = field(default_factory=dict)
    began: float = field(default_factory=time.time)
    seed: str | None = None  # of the sequences, if one was given
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
        self.found[item.nodeid] = result_of(item, call, report)

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
        return dict(sorted(by_rule.items(), key=lambda item: rule_order(item[0])))

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

    def missing(self) -> list[Capability]:
        """Return what is declared missing."""
        return [each for each, reason in self.capabilities.items() if reason]

    def untested(self) -> dict[Capability, str]:
        """Return what is declared and was not tried, and why its tests were skipped."""
        ends: dict[Capability, list[Result]] = {}
        for each in self.found.values():
            for need in each.needs:
                ends.setdefault(need, []).append(each)
        return {
            capability: ", ".join(
                dict.fromkeys(each.reason for each in ends.get(capability, ()))
            )
            for capability, missing in self.capabilities.items()
            if missing is None
            and all(each.outcome == "skipped" for each in ends.get(capability, ()))
        }

    def left_out(self) -> dict[str, int]:
        """Return how many tests were left out for which reason."""
        counted: dict[str, int] = {}
        for each in self.found.values():
            if each.reason:
                counted[each.reason] = counted.get(each.reason, 0) + 1
        return counted

    def sequences(self) -> dict[str, Any]:
        """Return the seed and the numbers of the state machine, if it was run."""
        return {"seed": self.seed, **driven.sequences} if driven.sequences else {}

    def faults(self) -> list[list[Result]]:
        """Return the tests that failed, those with one cause together."""
        failed = [each for each in self.found.values() if each.outcome == "failed"]
        return words.grouped(failed, lambda each: (each.layer, each.name, each.says))

    def lines(self) -> Iterator[str]:
        """Say it for a terminal."""
        faults = self.faults()
        for number, failed in enumerate(faults[:_SHORT]):
            yield _heading(failed)
            says = failed[0].says.splitlines()
            shown = _middle_cut(says) if number < _WHOLE else says[-_FEW_LINES:]
            yield from (f"    {line}" for line in shown)
        if others := faults[_SHORT:]:
            yield f"and, said in the report: {'; '.join(map(_heading, others))}"
        if self.seeded:
            lost = [name for name, found in self.seeded.items() if not found]
            told = f": {', '.join(lost)}" if lost else ""
            yield f"{len(self.seeded)} seeded faults, {len(lost)} survived{told}"
        for capability, reason in self.untested().items():
            if reason not in ("", NOT_RUN):
                yield f"{capability} is declared, and not tested: {reason}"
        if missing := self.missing():
            yield f"declared missing: {', '.join(missing)}"
        for capability in self.working():
            yield f"{capability} is declared missing, and works: declare it"
        if self.sequences():
            yield words.of_sequences(self.sequences())
        told = ", ".join(f"{number} {end}" for end, number in self.summary().items())
        yield f"{self.store}: conformance suite {SUITE_VERSION}: {told or 'no tests'}"

    def as_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        untested = self.untested()
        found = {
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
                    "tested": reason is None and each not in untested,
                    "works_though_missing": each in self.working(),
                }
                for each, reason in self.capabilities.items()
            },
            "layers": self.layers(),
            "sequences": self.sequences(),
            "coverage": driven.as_json(),
            "rules": self.rules(),
            "left_out": self.left_out(),
            "tests": [as_json(each) for each in self.found.values()],
        }
        if self.seeded:
            found["seeded_faults"] = {
                "number": len(self.seeded),
                "survived": [name for name, seen in self.seeded.items() if not seen],
            }
        return found


def _heading(failed: Sequence[Result]) -> str:
    """Return the rules and the test of what failed for one cause."""
    more = f" and {len(failed) - 1} more like it" if failed[1:] else ""
    rules = ", ".join(failed[0].rules)
    return f"{rules}{': ' if rules else ''}{failed[0].name}{more}"


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


def _declared(cls: type[SuiteBase]) -> Mapping[Capability, str | None]:
    have = cls.capabilities
    return {
        each: None if each in have else reason_for(have, each) for each in sorted(ALL)
    }
