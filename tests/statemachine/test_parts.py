"""The parts that a store is made with, and what its clock says."""

import time

import pytest

from jobfence.statemachine.checks import LAST_MS
from jobfence.statemachine.clock import DatabaseClock, ManualClock, SystemClock
from jobfence.statemachine.errors import InvalidOption
from jobfence.statemachine.parts import check_parts, now_ms
from jobfence.statemachine.retry import SteppedRetry

GOOD = (None, None, None, None)


class Telling:
    def __init__(self, told: object) -> None:
        self.told = told

    def now_ms(self) -> int:
        return self.told  # type: ignore[return-value]


def test_what_a_store_chooses_itself_need_not_be_given() -> None:
    for has_server in (True, False):
        check_parts(*GOOD, has_server=has_server)


def test_parts_that_do_what_they_must_are_taken() -> None:
    check_parts(ManualClock(), SteppedRetry(), str, str, has_server=False)
    check_parts(DatabaseClock(), None, None, None, has_server=True)


@pytest.mark.parametrize(
    ("place", "option", "told"),
    [
        (0, "clock", r"clock must have a method now_ms\(\), not 5"),
        (1, "retry_policy", r"retry_policy must have a method delay_ms\(failures\)"),
        (2, "ids", "ids must be a function that makes ids, not 5"),
        (3, "handoff_ids", "handoff_ids must be a function that makes ids, not 5"),
    ],
)
@pytest.mark.parametrize("has_server", [True, False])
def test_a_part_that_does_not_is_refused_by_its_name(
    place: int, option: str, told: str, *, has_server: bool
) -> None:
    parts: list[object] = [*GOOD]
    parts[place] = 5
    with pytest.raises(InvalidOption, match=f"^{told}") as refused:
        check_parts(*parts, has_server=has_server)
    assert (refused.value.option, refused.value.value) == (option, 5)


def test_the_clock_of_a_server_needs_a_server() -> None:
    with pytest.raises(InvalidOption, match="must have a method now_ms"):
        check_parts(DatabaseClock(), None, None, None, has_server=False)


def test_a_clock_is_believed_up_to_the_end_of_year_9999_both_ways() -> None:
    for told in (0, 1, -1, LAST_MS, -LAST_MS):
        assert now_ms(ManualClock(told)) == told
    assert abs(now_ms(SystemClock()) - time.time() * 1000) < 60_000


@pytest.mark.parametrize(
    "told", [1.5, 1000.0, None, "5", True, LAST_MS + 1, -LAST_MS - 1, 10**30]
)
def test_a_clock_that_tells_no_whole_milliseconds_is_refused(told: object) -> None:
    words = "clock must tell the time in integer milliseconds since 1970, not "
    with pytest.raises(InvalidOption, match=f"^{words}") as refused:
        now_ms(Telling(told))
    assert (refused.value.option, refused.value.value) == ("clock", told)
