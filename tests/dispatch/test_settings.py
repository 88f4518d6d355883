"""A worker's options: what is refused, and what the defaults mean."""

import math
import os

from typing import Any

import pytest

from jobfence.dispatch.settings import (
    MAX_PRUNE_BATCH,
    Retention,
    effective_timeout_ms,
    seconds,
    worker_settings,
    worker_timeout_ms,
)
from jobfence.statemachine import checks
from jobfence.statemachine.errors import InvalidOption
from jobfence.store.memory import MemoryJobStore


@pytest.mark.parametrize(
    ("given", "kept"),
    [(None, None), (0, None), (-5, None), (250, 250), (5_000_000_000, 2_147_483_647)],
)
def test_A188_a_worker_s_timeout_is_none_or_capped(
    given: int | None, kept: int | None
) -> None:
    assert worker_timeout_ms(given) == kept


@pytest.mark.parametrize("given", [float("inf"), 1.5, True, "250"])
def test_A188_a_timeout_that_is_no_integer_is_refused(given: object) -> None:
    with pytest.raises(InvalidOption, match="timeout_ms"):
        worker_timeout_ms(given)


@pytest.mark.parametrize(("own", "effective"), [(15, 15), (0, None), (None, 250)])
def test_A188_a_job_s_own_timeout_beats_the_worker_s(
    own: int | None, effective: int | None
) -> None:
    assert effective_timeout_ms(own, 250) == effective


def test_defaults() -> None:
    settings = worker_settings()
    assert (settings.concurrency, settings.queues) == (10, None)
    assert (settings.lease_ms, settings.heartbeat_ms) == (60_000, 20_000)
    assert (settings.poll_ms, settings.recover_every_ms) == (1000, 5000)
    assert (settings.timeout_ms, settings.retention) == (None, None)
    assert not settings.single_owner


def test_each_worker_has_an_id_of_its_own_that_names_its_process() -> None:
    one, two = worker_settings().worker_id, worker_settings().worker_id
    assert one != two
    assert f"-{os.getpid()}-" in one
    assert worker_settings(worker_id="mine").worker_id == "mine"


@pytest.mark.parametrize(("given", "kept"), [(5, 5), (10, 10), (29, 10)])
def test_L1_a_lease_is_renewed_at_least_three_times_in_its_length(
    given: int, kept: int
) -> None:
    assert worker_settings(lease_ms=30, heartbeat_ms=given).heartbeat_ms == kept


@pytest.mark.parametrize("heartbeat_ms", [30, 31])
def test_L1_a_heartbeat_as_long_as_the_lease_is_refused(heartbeat_ms: int) -> None:
    with pytest.raises(InvalidOption, match="must be shorter than the lease of 30 ms"):
        worker_settings(lease_ms=30, heartbeat_ms=heartbeat_ms)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("concurrency", 0),
        ("concurrency", True),
        ("queues", []),
        ("queues", "media"),
        ("worker_id", ""),
        ("lease_ms", 2),
        ("heartbeat_ms", 0),
        ("poll_ms", 0),
        ("recover_every_ms", 0),
        ("repair_every_ms", -1),
        ("retention", 7),
        ("timeout_ms", 1.5),
        ("single_owner", 1),
        ("release_others", None),
    ],
)
def test_a_bad_option_is_refused_by_name(option: str, value: object) -> None:
    with pytest.raises(InvalidOption, match=option):
        worker_settings(**{option: value})  # type: ignore[arg-type]


def test_an_option_that_does_not_exist_is_refused() -> None:
    with pytest.raises(TypeError, match="concurency"):
        worker_settings(concurency=4)  # type: ignore[call-arg]


def test_queues_are_trimmed_and_sorted() -> None:
    assert worker_settings(queues=["b ", "a"]).queues == ("a", "b")


def test_retention_has_a_period() -> None:
    with pytest.raises(InvalidOption, match="every_ms"):
        Retention(every_ms=0)


@pytest.mark.parametrize(
    "value",
    [None, "5", pytest.param(10**400, id="huge"), math.nan, -1, -0.1, True, 1j],
)
def test_a_wait_that_is_none_is_refused(value: object) -> None:
    with pytest.raises(InvalidOption, match="grace_s must be a number of seconds, 0 "):
        seconds("grace_s", value)


def test_a_wait_may_be_any_length_or_without_end() -> None:
    assert [seconds("s", each) for each in (0, 0.5, 10**9, math.inf)] == [
        0.0,
        0.5,
        1e9,
        math.inf,
    ]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(
            (f"{state}_ttl_ms", value)
            for state in ("completed", "failed", "cancelled")
            for value in (-1, 1.5, True, "7d", checks.LAST_MS + 1)
        ),
        *(("batch_size", value) for value in (0, -1, None, 1.5, MAX_PRUNE_BATCH + 1)),
    ],
)
def test_a_retention_is_checked_when_it_is_made(option: str, value: object) -> None:
    given: Any = {option: value}
    with pytest.raises(InvalidOption, match=option):
        Retention(**given)
    with pytest.raises(InvalidOption, match=option):  # as a store refuses it
        MemoryJobStore().prune_terminal(**given)


def test_a_retention_takes_what_stores_take() -> None:
    for ttl in (None, 0, checks.LAST_MS):
        keep = Retention(completed_ttl_ms=ttl, batch_size=MAX_PRUNE_BATCH)
        MemoryJobStore().prune_terminal(
            completed_ttl_ms=keep.completed_ttl_ms, batch_size=keep.batch_size
        )
