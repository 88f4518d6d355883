"""
Kills a child process at every point of every call on one SQLite file, and looks.

A program of its own, with one thread, so that it may fork. Prints the number of points.
"""

import os
import signal
import sys

from collections.abc import Callable
from pathlib import Path

from sqlalchemy import Engine, event

from jobfence.conformance.sql.judging import state_of
from jobfence.conformance.sql.worlds import Scenario, set_up
from jobfence.store.dialects.engines import make_engine
from model_tests.test_losses import (
    CALLS,
    all_or_nothing,
    ask_until_answered,
    once_on_the_model,
    same_but_for_ids,
    scene,
)
from model_tests.worlds import SqlWorld

MOST_POINTS = 60


def kill_at(engine: Engine, point: int) -> None:
    """End this process at the given point: a statement, a COMMIT, or right after it."""
    seen = 0
    commit: Callable[[object], None] = engine.dialect.do_commit  # type: ignore[assignment]

    def pass_point(*_: object) -> None:
        nonlocal seen
        seen += 1
        if seen == point:
            os.kill(os.getpid(), signal.SIGKILL)

    def committed(raw: object) -> None:
        pass_point()
        commit(raw)
        pass_point()

    event.listen(engine, "before_cursor_execute", pass_point)
    engine.dialect.do_commit = committed  # type: ignore[method-assign, assignment]


def child(file: Path, name: str, point: int) -> int:
    """Run the call in a process that is killed at this point; return how it ended."""
    pid = os.fork()
    if pid:
        return os.waitpid(pid, 0)[1]
    engine = make_engine(f"sqlite:///{file}")
    world = SqlWorld(engine, "k")
    store = world.open(0)  # it looks at its tables: not what is tested here
    kill_at(engine, point)
    CALLS[name](store)
    os._exit(0)


def points_of(folder: Path, name: str) -> int:
    """Kill the call at each of its points; return how many there are."""
    call = CALLS[name]
    for point in range(1, MOST_POINTS):
        file = folder / f"{name}-{point}.db"
        world = opened(file)
        set_up(Scenario("", "", scene, ()), world)
        before = state_of(world)
        world.engine.dispose()
        ended = child(file, name, point)
        world = opened(file)
        whole = all_or_nothing(world, call, before) or between(world, name)
        assert whole, f"{name} killed at point {point}"
        # As another client: the ids of the dead one may be taken.
        ask_until_answered(lambda at=world: call(at.open(1)))  # type: ignore[misc]
        assert world.open(-1).reconcile_active_concurrency().repaired_count == 0
        world.engine.dispose()
        if not os.WIFSIGNALED(ended):
            assert os.waitstatus_to_exitcode(ended) == 0, f"{name} failed by itself"
            return point - 1
    raise AssertionError(f"{name} has more than {MOST_POINTS} points")


def between(world: SqlWorld, name: str) -> bool:
    """Whether a call of two transactions, enqueue and claim, made the first alone."""
    if name != "claim_job":
        return False
    enqueued = once_on_the_model(
        lambda store: store.enqueue("scan", idempotency_key="c")
    )
    return same_but_for_ids(state_of(world), enqueued)


def opened(file: Path) -> SqlWorld:
    return SqlWorld(make_engine(f"sqlite:///{file}"), "k")


if __name__ == "__main__":
    total = sum(points_of(Path(sys.argv[1]), name) for name in CALLS)
    sys.stdout.write(f"{total} points\n")
