"""What is printed and written down of what a run found."""

from jobfence.conformance.report import page
from jobfence.conformance.result import Result
from jobfence.conformance.results import Results
from jobfence.conformance.stateful.comparing import Difference, Divergence, Step


def ended(outcome: str, name: str = "test_it", says: str = "") -> Result:
    return Result(
        name=name,
        layer="matrix",
        rules=("M18",),
        cases=(),
        outcome=outcome,
        seconds=0.1,
        says=says,
    )


def failed(name: str, says: str) -> Result:
    return ended("failed", name, says)


def results_of(*results: Result) -> Results:
    found = Results("mine")
    found.found = {str(number): each for number, each in enumerate(results)}
    return found


def printed(*results: Result) -> list[str]:
    return list(results_of(*results).lines())


def paged(*results: Result) -> str:
    return page(results_of(*results).as_json())


def test_of_many_steps_the_middle_is_cut_and_what_differs_is_always_shown() -> None:
    steps = [Step(f"store1.call({number})", []) for number in range(40)]
    difference = Difference("counts", "1", "2")
    told = Divergence("M18", steps, [difference]).told
    lines = printed(failed("test_it", told))
    assert lines[0] == "M18: test_it"
    assert lines[1] == "    the store differs from the model"
    assert lines[2].endswith("1. store1.call(0)  ->  []")
    assert "    … 26 more lines" in lines
    assert lines[-3].endswith("40. store1.call(39)  ->  []")
    assert lines[-2] == "      counts: expected 1, seen 2"
    assert len(lines) < 22


def test_a_rule_is_green_only_if_most_of_its_tests_were_run() -> None:
    passed, skipped = ended("passed"), ended("skipped")
    assert "'rule skipped' id=rule-M18" in paged(passed, skipped, skipped, skipped)
    assert "'rule passed' id=rule-M18" in paged(passed, passed, skipped)
    assert "'rule failed' id=rule-M18" in paged(passed, passed, ended("failed"))
