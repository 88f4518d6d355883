"""What is printed and written down of what a run found."""

from pathlib import Path
from unittest.mock import Mock

import pytest

from jobfence.conformance import words
from jobfence.conformance.report import page
from jobfence.conformance.result import Result
from jobfence.conformance.results import Results
from jobfence.conformance.stateful.comparing import Difference, Divergence, Step
from jobfence.conformance.words import says
from tests.conformance.support import run

ONE = "a_batch_respects or a_backlog_hides"


def ended(
    outcome: str, name: str = "test_it", says: str = "", layer: str = "matrix"
) -> Result:
    return Result(
        name=name,
        layer=layer,
        rules=("M18",),
        cases=(),
        outcome=outcome,
        seconds=0.1,
        says=says,
    )


def failed(name: str, says: str, layer: str = "matrix") -> Result:
    return ended("failed", name, says, layer)


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


def test_the_matrix_comes_first_and_one_cause_is_told_once() -> None:
    one, other = (
        "0199f3c2-54ba-7000-8000-000000000001",
        "0199f3c2-5555-7000-8000-000000000002",
    )
    lines = printed(
        failed("test_every_method", "the store differs", "stateful"),
        failed("test_a[1]", f"M16: job {one} is queued and has a lease"),
        failed("test_a[2]", "M16: something else"),
        failed("test_b", f"M16: job {other} is queued and has a lease", "examples"),
        failed("test_c", "store.claim()\nraised at mine.py:7\nKeyError: 1", "examples"),
        failed("test_d", "store.get(1)\nraised at mine.py:7\nKeyError: 1", "examples"),
        failed("test_e", "assert 1 == 2", "examples"),
        failed("test_f", "assert 1 == 2", "examples"),
    )
    assert [line for line in lines if not line.startswith(" ")][:-1] == [
        "M18: test_a[1] and 2 more like it",
        "M18: test_c and 1 more like it",
        "M18: test_e",
        "M18: test_f",
        "M18: test_every_method",
    ]


@pytest.mark.parametrize("ci", ["true", ""])  # pytest shows more where it is set
def test_a_failure_is_told_by_its_rule_or_by_the_statement_that_did_not_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ci: str
) -> None:
    monkeypatch.setenv("CI", ci)
    done = run("jobfence.conformance", "adapters:breaking", "-k", ONE, cwd=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    shown = done.stdout[done.stdout.index("= conformance =") :].splitlines()[1:]
    assert shown == [
        "C6: test_a_batch_respects_the_cap",
        "    store = bench.open()",
        '    keyed(store, "k", 2, 10)',
        '    (free,) = keyed(store, "l", 1)',
        "    taken = store.claim(10)",
        '    assert [each.job.concurrency_key for each in taken] == ["k", "k", "l"]',
        "    AssertionError: assert ['k', 'k'] == ['k', 'k', 'l']",
        "      Right contains one more item: 'l'",
        "C6: test_a_backlog_hides_nothing",
        "    store = bench.open()",
        '    keyed(store, "k", 1)',
        "    store.claim()",
        "    for _ in range(10):",
        '        keyed(store, "k", 1, 30)',
        '    (other,) = keyed(store, "l", 1)',
        "    assert [each.job.id for each in store.claim(1)] == [other]",
        f"    raised at adapters.py:{shown[-3].rpartition(':')[2]}",
        "    KeyError: 'no more'",
        "adapters:breaking: conformance suite 1.0: 2 failed",
    ]


def test_the_values_that_a_test_was_called_with_are_told(tmp_path: Path) -> None:
    only = "test_a_bad_option_of_any_call"
    done = run("jobfence.conformance", "adapters:lax", "-k", only, cwd=tmp_path)
    _, heading, values, *told = done.stdout.partition("= conf")[2].splitlines()
    assert heading.startswith(f"E1: {only}_is_refused_by_name_and_writes_nothing[")
    assert values == (
        "    with method='recover_expired', args=(), options={'limit': 0}, "
        "refused='limit'"
    )
    assert told[-3:-1] == [
        "        getattr(store, method)(*given, **options)",
        "    Failed: DID NOT RAISE InvalidOption",
    ]


def test_of_many_causes_the_last_are_told_by_name_only() -> None:
    says = "\n".join(f"line {number}" for number in range(12))
    lines = printed(
        failed("test_a", says),
        failed("test_b", says),
        *(failed(f"test_{name}", says, "examples") for name in "cdefgh"),
    )
    told = [f"    line {number}" for number in range(12)]
    assert lines == [
        *("M18: test_a", *told, "M18: test_b", *told),
        *(line for name in "cdef" for line in (f"M18: test_{name}", *told[-3:])),
        "and, said in the report: M18: test_g; M18: test_h",
        "mine: conformance suite 1.0: 8 failed",
    ]


def both(bench: list[str]) -> None:
    """Do what is not shown."""
    for each in bench:
        with pytest.raises(
            ValueError,
            match="no",
        ):
            int(each)
    assert bench == []


@pytest.mark.parametrize(
    ("given", "last"),
    [
        (["7"], ["    ):", "        int(each)"]),
        (["no"], ["        int(each)", "assert bench == []"]),
    ],
)
def test_the_way_to_a_fault_ends_with_the_statement_that_failed(
    given: list[str], last: list[str]
) -> None:
    with pytest.raises(BaseException) as info:  # noqa: PT011  of two kinds
        both(given)
    failed = next(each for each in info.traceback if each.name == "both")
    way = words.way_to(failed.frame.code.raw, failed.lineno + 1)
    assert len(way) <= 9
    assert way[-2:] == last


def test_how_pytest_came_to_the_values_of_an_assertion_is_left_out() -> None:
    told = (
        "assert 1 is 2\n +  where 1 = job.a\n +    and   2 = C.b\n  Use -v to get more"
    )
    with pytest.raises(AssertionError) as info:
        raise AssertionError(told)
    report = Mock(skipped=False, longrepr=None)
    assert says(info, report).splitlines()[1:] == ["assert 1 is 2"]


@pytest.mark.parametrize("bare", ["assert False", "AssertionError: assert not True"])
def test_of_a_bare_assertion_it_is_said_what_was_seen(bare: str) -> None:
    told = f"{bare}\n +  where False = Ack('accepted').stale\n +    where Ack = f()"
    with pytest.raises(AssertionError) as info:
        raise AssertionError(told)
    report = Mock(skipped=False, longrepr=None)
    assert says(info, report).splitlines()[1:] == [
        "seen: False = Ack('accepted').stale"
    ]
