"""When a failed job runs again (B1), also under policies that users got wrong."""

import decimal
import logging
import math
import random
import sys

from dataclasses import replace
from datetime import timedelta

import pytest

from hypothesis import example, given, strategies as st

from jobfence.statemachine.checks import LAST_MS
from jobfence.statemachine.errors import InvalidOption, shown
from jobfence.statemachine.retry import (
    DEFAULT_RETRY,
    ExponentialRetry,
    RetryPolicy,
    SteppedRetry,
    retry_delay_ms,
)

HOUR = 3_600_000

failures = st.integers(min_value=1, max_value=10**6)
caps = st.integers(min_value=0, max_value=LAST_MS)
factors = st.floats(min_value=1, allow_nan=False, allow_infinity=False) | st.floats(
    min_value=1, max_value=1.001
)


class Answers:
    """A user's policy that answers whatever it was told."""

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def delay_ms(self, failures: int) -> int:
        return self.answer  # type: ignore[return-value]  # that is the point


class Raises:
    def delay_ms(self, failures: int) -> int:
        raise OverflowError("(34, 'Numerical result out of range')")


def exponentials() -> st.SearchStrategy[ExponentialRetry]:
    return st.builds(ExponentialRetry, base_ms=caps, factor=factors, max_ms=caps)


@pytest.mark.parametrize(
    ("failures", "seconds"),
    [
        (1, 10),
        (2, 60),
        (3, 600),
        (4, 3600),
        (5, 7200),
        (6, 10800),
        (7, 14400),
        (8, 18000),
        (9, 21600),
        (10, 25200),
        (11, 28800),
        (12, 32400),
    ],
)
def test_B1_A10_the_default_waits_are_those_of_the_rule(
    failures: int, seconds: int
) -> None:
    assert SteppedRetry().delay_ms(failures) == seconds * 1000
    assert retry_delay_ms(DEFAULT_RETRY, failures) == seconds * 1000


def test_B1_the_hours_grow_until_the_cap() -> None:
    assert SteppedRetry().delay_ms(10**6) == (10**6 - 3) * HOUR
    assert SteppedRetry().delay_ms(10**12) == LAST_MS
    assert SteppedRetry(max_ms=30_000).delay_ms(1) == 10_000
    assert SteppedRetry(max_ms=30_000).delay_ms(2) == 30_000
    assert SteppedRetry(max_ms=30_000).delay_ms(10**6) == 30_000
    assert SteppedRetry(max_ms=0).delay_ms(1) == 0


@pytest.mark.parametrize(
    "policy", [SteppedRetry(), ExponentialRetry(base_ms=7, max_ms=99)]
)
def test_no_failure_yet_waits_as_after_the_first(policy: RetryPolicy) -> None:
    assert policy.delay_ms(0) == policy.delay_ms(-5) == policy.delay_ms(1)


def test_an_exponential_wait_doubles_up_to_its_cap() -> None:
    policy = ExponentialRetry(base_ms=1000, max_ms=60_000)
    waits = [policy.delay_ms(n) for n in range(1, 9)]
    assert waits == [1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000]
    assert ExponentialRetry(base_ms=100, factor=1.5, max_ms=999).delay_ms(3) == 225
    assert ExponentialRetry(base_ms=100, factor=1, max_ms=999).delay_ms(10**6) == 100
    assert ExponentialRetry(base_ms=100, factor=9, max_ms=50).delay_ms(1) == 50
    assert ExponentialRetry(base_ms=0, factor=9, max_ms=50).delay_ms(10**6) == 0


@given(exponentials() | st.builds(SteppedRetry, max_ms=caps), failures)
@example(ExponentialRetry(base_ms=LAST_MS, max_ms=LAST_MS), 10**6)
@example(ExponentialRetry(base_ms=1, factor=sys.float_info.max, max_ms=LAST_MS), 2)
@example(ExponentialRetry(base_ms=1, factor=1 + 2**-52, max_ms=0), 10**6)
def test_F44_a_wait_is_within_bounds_and_never_shrinks(
    policy: ExponentialRetry | SteppedRetry, n: int
) -> None:
    assert 0 <= policy.delay_ms(n) <= policy.delay_ms(n + 1) <= policy.max_ms
    assert type(policy.delay_ms(n)) is int


@pytest.mark.parametrize("n", [16, 1024, 10_000, 10**6, 10**400])
def test_F43_a_steep_wait_stops_at_its_cap_instead_of_overflowing(n: int) -> None:
    assert ExponentialRetry(base_ms=1000, factor=5, max_ms=86_400_000).delay_ms(n) == (
        86_400_000
    )
    assert retry_delay_ms(SteppedRetry(max_ms=HOUR), n) == HOUR


@given(
    exponentials(),
    st.floats(min_value=0, max_value=1),
    st.floats(min_value=0, max_value=1, exclude_max=True),
    failures,
)
@example(ExponentialRetry(base_ms=1, max_ms=1), 1.0, 0.999, 1)
@example(ExponentialRetry(base_ms=LAST_MS, max_ms=LAST_MS), 1.0, 0.0, 1)
def test_jitter_only_shortens_and_at_most_by_its_share(
    plain: ExponentialRetry, jitter: float, drawn: float, n: int
) -> None:
    spread = replace(plain, jitter=jitter, random=lambda: drawn)
    wait = plain.delay_ms(n)
    assert math.floor(wait * (1 - jitter)) - 1 <= spread.delay_ms(n) <= wait


def test_jitter_spreads_by_the_random_numbers_it_is_given() -> None:
    drawn = iter([0.0, 0.5, 0.999])
    policy = ExponentialRetry(
        base_ms=1000, max_ms=1000, jitter=0.5, random=lambda: next(drawn)
    )
    assert [policy.delay_ms(1) for _ in range(3)] == [1000, 750, 500]
    seeded = ExponentialRetry(
        base_ms=10**6, max_ms=10**6, jitter=1, random=random.Random(7).random
    )
    assert len({seeded.delay_ms(1) for _ in range(100)}) > 90


def test_without_jitter_no_random_number_is_drawn() -> None:
    def draw() -> float:
        raise AssertionError

    assert ExponentialRetry(base_ms=5, max_ms=9, random=draw).delay_ms(1) == 5


@pytest.mark.parametrize(
    ("option", "value", "rule"),
    [
        ("base_ms", -1, "must be an integer from 0"),
        ("base_ms", LAST_MS + 1, "must be an integer from 0"),
        ("base_ms", 1.5, "must be an integer from 0"),
        ("base_ms", True, "must be an integer from 0"),
        ("max_ms", -1, "must be an integer from 0"),
        ("max_ms", LAST_MS + 1, "must be an integer from 0"),
        ("max_ms", None, "must be an integer from 0"),
        ("factor", 0.999, "must be a number from 1 up"),
        ("factor", -2, "must be a number from 1 up"),
        ("factor", math.nan, "must be a number from 1 up"),
        ("factor", math.inf, "must be a number from 1 up"),
        ("factor", 10**400, "must be a number from 1 up"),
        ("factor", "2", "must be a number from 1 up"),
        ("factor", True, "must be a number from 1 up"),
        ("factor", None, "must be a number from 1 up"),
        ("jitter", -0.1, "must be a number from 0 to 1"),
        ("jitter", 1.1, "must be a number from 0 to 1"),
        ("jitter", math.nan, "must be a number from 0 to 1"),
        ("jitter", "0", "must be a number from 0 to 1"),
        ("jitter", True, "must be a number from 0 to 1"),
    ],
)
def test_E1_a_bad_option_of_a_policy_is_refused(
    option: str, value: object, rule: str
) -> None:
    usual: dict[str, object] = {"base_ms": 1000, "max_ms": 60_000}
    with pytest.raises(InvalidOption, match=f"^{option} {rule}.*, not ") as refused:
        ExponentialRetry(**{**usual, option: value})  # type: ignore[arg-type]
    assert refused.value.value is value
    if option == "max_ms":
        with pytest.raises(InvalidOption, match=f"^{option} {rule}.*, not "):
            SteppedRetry(**{option: value})  # type: ignore[arg-type]


def test_a_factor_may_be_as_large_as_a_float_can() -> None:
    policy = ExponentialRetry(base_ms=1, factor=sys.float_info.max, max_ms=5)
    assert [policy.delay_ms(n) for n in (1, 2)] == [1, 5]


@pytest.mark.parametrize(
    ("answer", "wait"),
    [
        (0, 0),
        (1500, 1500),
        (-1, 0),
        (-(10**400), 0),
        (LAST_MS, LAST_MS),
        (LAST_MS + 1, LAST_MS),
        (10**400, LAST_MS),
        (1500.9, 1500),
        (-0.5, 0),
        (1e300, LAST_MS),
        (decimal.Decimal("1500.9"), 1500),
    ],
)
def test_B1_a_users_answer_is_kept_within_what_a_time_can_hold(
    answer: object, wait: int
) -> None:
    found = retry_delay_ms(Answers(answer), 3)
    assert (found, type(found)) == (wait, int)


@pytest.mark.parametrize(
    "policy",
    [
        Answers(None),
        Answers("soon"),
        Answers(math.nan),
        Answers(math.inf),
        Answers(-math.inf),
        Answers(1j),
        Answers([1]),
        Answers(timedelta(seconds=1)),
        Answers(decimal.Decimal("sNaN")),
        Raises(),
    ],
    ids=lambda policy: repr(getattr(policy, "answer", "raises")),
)
def test_F43_a_policy_without_a_usable_answer_neither_stops_a_failure_nor_loses_the_job(
    policy: RetryPolicy, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, logger="jobfence"):
        assert retry_delay_ms(policy, 3) == 600_000
    (record,) = caplog.records
    assert record.message == (
        f"retry policy {shown(policy)} gave no delay; rule B1 is used"
    )
    assert record.exc_info is not None


def test_an_interrupt_inside_a_policy_is_not_swallowed() -> None:
    class Interrupted:
        def delay_ms(self, failures: int) -> int:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        retry_delay_ms(Interrupted(), 1)


@given(st.integers() | st.floats() | st.none() | st.text(), failures)
def test_B1_whatever_a_policy_answers_the_wait_fits(answer: object, n: int) -> None:
    assert 0 <= retry_delay_ms(Answers(answer), n) <= LAST_MS


def test_a_policy_is_a_value_whose_source_of_random_numbers_does_not_count() -> None:
    policy = ExponentialRetry(base_ms=1, max_ms=2)
    assert policy == ExponentialRetry(base_ms=1, max_ms=2, random=lambda: 0.5)
    assert policy != ExponentialRetry(base_ms=1, max_ms=3)
    assert "random" not in repr(policy)
    assert SteppedRetry() == SteppedRetry(max_ms=LAST_MS)


def test_the_options_of_an_exponential_policy_are_given_by_name() -> None:
    with pytest.raises(TypeError):
        ExponentialRetry(1, max_ms=2)  # type: ignore[call-arg]
