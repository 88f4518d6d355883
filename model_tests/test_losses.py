"""
Layer (f): whatever is lost on the way, a caller who asks again ends up right.

Each call is one that may be asked again: an acknowledgement, a claim with an id of its
own, an enqueue with an idempotency key. The state at the end is that of one call, and so
is every counter.
"""

import os
import subprocess
import sys

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from jobfence.conformance.base import new_namespace
from jobfence.conformance.sql.judging import state_of
from jobfence.conformance.sql.losses import backend_killed, commit_lost
from jobfence.conformance.sql.scenarios import FIRST, PAIR
from jobfence.conformance.sql.worlds import (
    ModelWorld,
    Operation,
    Scenario,
    World,
    set_up,
)
from jobfence.statemachine.errors import StoreUnavailable
from jobfence.statemachine.table import Trigger
from jobfence.statemachine.values import Settlement
from jobfence.store.contract import JobStore
from jobfence.store.dialects.engines import make_engine
from model_tests.worlds import SqlWorld

MOST_TRIES = 5


def scene(store: JobStore) -> None:
    """One job held by `old`, one that waits for its slot."""
    job_id = store.enqueue("mail", **PAIR)
    assert store.claim_job(job_id, handoff_id="old") is not None
    store.enqueue("mail", [2], **PAIR)


CALLS: Mapping[str, Operation] = {
    "complete": lambda store: store.complete(FIRST, "old"),
    "fail": lambda store: store.fail(FIRST, "old", "boom"),
    "reschedule": lambda store: store.reschedule(FIRST, "old", delay_ms=500),
    "return_to_queue": lambda store: store.return_to_queue(FIRST, "old"),
    "settle": lambda store: store.settle([Settlement(Trigger.COMPLETE, FIRST, "old")]),
    "cancel": lambda store: store.cancel(FIRST),
    "enqueue": lambda store: store.enqueue("mail", [7], idempotency_key="i"),
    "claim_job": lambda store: store.claim_job(
        store.enqueue("scan", idempotency_key="c"), handoff_id="mine"
    ),
}


@pytest.fixture(scope="module", params=["postgresql", "mariadb"])
def world(
    request: pytest.FixtureRequest, database_urls: Mapping[str, str]
) -> Iterator[SqlWorld]:
    if request.param not in database_urls:
        pytest.skip(f"{request.param} does not answer")
    engine = make_engine(database_urls[request.param])
    found = SqlWorld(engine, new_namespace())
    yield found
    found.close()
    engine.dispose()


def once_on_the_model(call: Operation) -> object:
    model = ModelWorld()
    set_up(Scenario("", "", scene, ()), model)
    call(model.open(0))
    return state_of(model)


def ask_until_answered(call: Callable[[], object]) -> int:
    """Do what a worker does whose acknowledgement met an error."""
    for tries in range(MOST_TRIES):
        try:
            call()
        except StoreUnavailable:
            continue
        return tries
    raise AssertionError("never answered")


@pytest.mark.parametrize("applied", [False, True], ids=["before COMMIT", "after it"])
@pytest.mark.parametrize("name", CALLS)
def test_a_commit_lost_on_the_way_changes_things_once(
    world: SqlWorld,
    name: str,
    applied: bool,  # noqa: FBT001  a value of the test
) -> None:
    """Case F74."""
    call = CALLS[name]
    set_up(Scenario("", "", scene, ()), world)
    with commit_lost(world.engine, applied=applied) as loss:
        ask_until_answered(lambda: call(world.open(0)))
    assert loss.count == 1
    assert same_but_for_ids(state_of(world), once_on_the_model(call))


@pytest.mark.parametrize("name", CALLS)
def test_a_connection_ended_by_the_server_changes_things_once(
    world: SqlWorld, name: str
) -> None:
    """At every statement of the call in turn."""
    call, survived = CALLS[name], 0
    with world.engine.connect().execution_options(
        isolation_level="AUTOCOMMIT"
    ) as monitor:
        for at in range(1, 40):
            set_up(Scenario("", "", scene, ()), world)
            with backend_killed(world.engine, monitor, at) as loss:
                ask_until_answered(lambda: call(world.open(0)))
            assert same_but_for_ids(state_of(world), once_on_the_model(call)), at
            if not loss.count:
                break
            survived += 1
    assert survived > 0


def same_but_for_ids(seen: object, expected: object) -> bool:
    """A call that was asked again may have used up an id that nobody saw."""
    return repr(seen).replace("'c1'", "'c0'") == repr(expected)


def test_a_process_killed_at_any_statement_leaves_all_or_nothing(
    tmp_path: Path,
) -> None:
    """SQLite: SIGKILL before each statement, before and after COMMIT (F13, F14, F22)."""
    done = subprocess.run(
        [sys.executable, "-m", "model_tests.killed", str(tmp_path)],
        cwd=Path(__file__).parent.parent,
        env={**os.environ, "PYTHONPATH": "."},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    points = int(done.stdout.split()[0])
    assert points > 3 * len(CALLS)


def all_or_nothing(world: World, call: Operation, before: object) -> bool:
    """Whether the state is what it was, or what the whole call makes of it."""
    state = state_of(world)
    return same_but_for_ids(state, before) or same_but_for_ids(
        state, once_on_the_model(call)
    )
