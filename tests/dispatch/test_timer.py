"""Rule D3: the exact timer, and what keeps it from spinning."""

import pytest

from jobfence.dispatch.timer import Timer
from jobfence.statemachine.clock import ManualClock
from jobfence.statemachine.values import Job
from jobfence.store.memory import MemoryJobStore

POLL_MS = 1000


def upcoming(at_ms: int) -> Job:
    store = MemoryJobStore(clock=ManualClock(0))
    store.enqueue("n", scheduled_at=at_ms)
    found = store.next_scheduled()
    assert found is not None
    return found


def test_without_a_scheduled_job_it_polls() -> None:
    timer = Timer(ManualClock(0), POLL_MS)
    assert timer.arm(None, woken=False) == POLL_MS
    assert timer.armed_for is None


@pytest.mark.parametrize(
    ("at_ms", "wait_ms"),
    [(1, 1), (999, 999), (1000, 1000), (1001, 1000), (10**14, 1000)],
)
def test_it_waits_for_the_very_millisecond_but_never_longer_than_a_poll(
    at_ms: int, wait_ms: int
) -> None:
    timer = Timer(ManualClock(0), POLL_MS)
    job = upcoming(at_ms)
    assert timer.arm(job, woken=False) == wait_ms
    assert timer.armed_for is job


def test_a_store_whose_clock_is_behind_is_asked_less_and_less_often() -> None:
    timer = Timer(ManualClock(5000), POLL_MS)
    job = upcoming(100)  # long due by this clock, but not by the store's
    waits = [timer.arm(job, woken=False) for _ in range(10)]
    assert waits == [1, 2, 4, 8, 16, 32, 64, 64, 64, 64]


def test_looks_for_other_reasons_do_not_put_the_timer_off() -> None:
    clock = ManualClock(0)
    timer = Timer(clock, POLL_MS)
    job = upcoming(100)
    waits = []
    for _ in range(20):
        clock.advance(4)
        waits.append(timer.arm(job, woken=True))
    assert waits == [100 - 4 * n for n in range(1, 21)]


def test_polls_before_a_far_job_do_not_make_its_timer_late() -> None:
    clock = ManualClock(0)
    timer = Timer(clock, POLL_MS)
    job = upcoming(10_005)
    for _ in range(10):
        assert timer.arm(job, woken=False) == POLL_MS
        clock.advance(POLL_MS)
    assert timer.arm(job, woken=False) == 5


def test_a_new_earliest_job_starts_afresh() -> None:
    timer = Timer(ManualClock(5000), POLL_MS)
    first, second = upcoming(100), upcoming(200)
    assert [timer.arm(first, woken=False) for _ in range(3)] == [1, 2, 4]
    assert timer.arm(second, woken=False) == 1
