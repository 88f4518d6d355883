"""Queue policies and the cap they give to a job (C0, C2)."""

import enum

import pytest

from jobfence.statemachine.errors import InvalidOption
from jobfence.statemachine.policy import (
    NO_POLICY,
    NO_QUEUES,
    UNCAPPED,
    Concurrency,
    QueuePolicy,
    check_queues,
    derived_key,
    is_derived,
    resolve_concurrency,
)


class Level(enum.IntEnum):
    HIGH = 3


def test_a_policy_has_no_cap_and_priority_zero_unless_it_says_so() -> None:
    assert QueuePolicy() == NO_POLICY == QueuePolicy(None, 0)
    assert QueuePolicy(2**31 - 1, -(2**31)).max_concurrent == 2**31 - 1


def test_a_policy_holds_plain_integers() -> None:
    policy = QueuePolicy(Level.HIGH, Level.HIGH)
    assert {type(policy.max_concurrent), type(policy.priority)} == {int}
    with pytest.raises(AttributeError):
        policy.priority = 1  # type: ignore[misc]


@pytest.mark.parametrize("cap", [0, -1, 2**31, True, 1.5, "1"])
def test_E1_a_bad_cap_is_refused(cap: int) -> None:
    with pytest.raises(
        InvalidOption, match=r"^max_concurrent must be an integer from 1"
    ):
        QueuePolicy(cap)


@pytest.mark.parametrize("priority", [2**31, -(2**31) - 1, True, None, 1.5, "1"])
def test_E1_a_bad_priority_is_refused(priority: int) -> None:
    with pytest.raises(InvalidOption, match=r"^priority must be an integer from -2147"):
        QueuePolicy(priority=priority)


@pytest.mark.parametrize(
    ("policy", "explicit", "expected"),
    [
        (QueuePolicy(), UNCAPPED, UNCAPPED),
        (QueuePolicy(2), UNCAPPED, Concurrency("queue:builds", 2)),
        (QueuePolicy(5), Concurrency("account:1", 1), Concurrency("account:1", 1)),
        (QueuePolicy(), Concurrency("account:1", 1), Concurrency("account:1", 1)),
        (QueuePolicy(priority=9), UNCAPPED, UNCAPPED),
    ],
)
def test_C2_an_explicit_pair_wins_then_the_queues_cap_then_none(
    policy: QueuePolicy, explicit: Concurrency, expected: Concurrency
) -> None:
    assert resolve_concurrency("builds", policy, explicit) == expected


def test_a_key_follows_the_queue_if_there_is_none_or_it_was_made_from_one() -> None:
    assert is_derived(None)
    assert is_derived(derived_key("q"))
    assert is_derived("queue:")
    assert not is_derived("account:1")
    assert not is_derived("Queue:q")


def test_C0_no_queues_is_no_opinion_and_an_empty_mapping_is_one() -> None:
    assert check_queues(None) is None
    assert check_queues({}) == {} == NO_QUEUES


def test_queues_are_copied_trimmed_and_cannot_be_changed() -> None:
    mine = {" a ": QueuePolicy(1)}
    checked = check_queues(mine)
    mine.clear()
    assert checked == {"a": QueuePolicy(1)}
    with pytest.raises(TypeError):
        checked["b"] = QueuePolicy()  # type: ignore[index]


@pytest.mark.parametrize(
    ("queues", "message"),
    [
        (
            [("a", QueuePolicy())],
            r"^queues must map queue names to QueuePolicy, not \[\(",
        ),
        ("a", r"^queues must map queue names to QueuePolicy, not 'a'"),
        ({"a": 5}, r"^queues\['a'\] must be a QueuePolicy, not 5"),
        ({"a" * 500: None}, r"^queues\['aaaa.*…\] must be a QueuePolicy, not None"),
        ({"": QueuePolicy()}, r"^queues must be a non-empty string"),
        ({7: QueuePolicy()}, r"^queues must be a string, not 7"),
        (
            {"a": QueuePolicy(), " a": QueuePolicy()},
            r"^queues must name each queue once, not ' a'",
        ),
    ],
    ids=["list", "text", "number", "long", "empty", "key", "twice"],
)
def test_E1_bad_queues_are_refused(queues: object, message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        check_queues(queues)  # type: ignore[arg-type]
