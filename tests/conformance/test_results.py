"""What is printed and written down of what a run found."""

from jobfence.conformance.results import Result, Results
from jobfence.conformance.stateful.comparing import Difference, Divergence, Step


def failed(name: str, says: str) -> Result:
    return Result(
        name=name,
        layer="matrix",
        rules=("M18",),
        cases=(),
        outcome="failed",
        seconds=0.1,
        says=says,
    )


def printed(*results: Result) -> list[str]:
    found = Results("mine")
    found.found = {str(number): each for number, each in enumerate(results)}
    return list(found.lines())


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
