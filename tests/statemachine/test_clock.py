"""Clocks tell integer milliseconds; the one for tests moves only when told."""

import threading
import time

from jobfence.statemachine.clock import Clock, DatabaseClock, ManualClock, SystemClock


def test_the_systems_clock_tells_milliseconds_rounded_down() -> None:
    before = time.time_ns()
    now = SystemClock().now_ms()
    after = time.time_ns()
    assert type(now) is int
    assert before // 1_000_000 <= now <= after // 1_000_000


def test_a_manual_clock_stands_until_it_is_moved() -> None:
    clock: Clock = ManualClock(1000)
    assert [clock.now_ms(), clock.now_ms()] == [1000, 1000]
    assert ManualClock().now_ms() == 0


def test_a_manual_clock_goes_forward_back_and_to_any_time() -> None:
    clock = ManualClock(1000)
    clock.advance(500)
    assert clock.now_ms() == 1500
    clock.advance(-1000)
    assert clock.now_ms() == 500
    clock.set(7)
    assert clock.now_ms() == 7


def test_no_step_of_a_manual_clock_is_lost_between_threads() -> None:
    clock = ManualClock()
    together = threading.Barrier(8)

    def work() -> None:
        together.wait()
        for _ in range(2000):
            clock.advance(1)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert clock.now_ms() == 16_000


def test_L3_asking_for_the_databases_clock_is_a_value_without_a_time() -> None:
    assert DatabaseClock() == DatabaseClock()
    assert not hasattr(DatabaseClock(), "now_ms")
