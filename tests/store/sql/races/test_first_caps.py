"""Two who name one key first, with different caps: one of them is refused (C3)."""

from collections.abc import Callable

import pytest

from jobfence.statemachine.errors import ConcurrencyConflict
from jobfence.statemachine.options import JobRequest
from jobfence.store.sql.store import SqlJobStore
from tests.store.sql.races.place import Place
from tests.store.sql.races.watch import interrupting

# SQLite has one writer at a time.
pytestmark = pytest.mark.on("postgresql", "mariadb")

Ask = Callable[[SqlJobStore], object]


def enqueue(store: SqlJobStore) -> object:
    return store.enqueue("mine", concurrency_key="k", max_concurrency=2)


def enqueue_many(store: SqlJobStore) -> object:
    keyed = JobRequest("mine", concurrency_key="k", max_concurrency=2)
    other = JobRequest("mine", concurrency_key="j", max_concurrency=2)
    return store.enqueue_many([JobRequest("mine"), other, keyed])


def replace_scheduled(store: SqlJobStore) -> object:
    return store.replace_scheduled("s", "mine", concurrency_key="k", max_concurrency=2)


def enqueue_a_twin(store: SqlJobStore) -> object:
    return store.enqueue(
        "theirs", concurrency_key="k", max_concurrency=2, deduplicate_while_queued=True
    )


def register(store: SqlJobStore) -> str:
    return store.enqueue("theirs", concurrency_key="k", max_concurrency=5)


# Before the first look at the counters, before the second, before one is made.
@pytest.mark.parametrize("nth", [1, 2, 3])
@pytest.mark.parametrize("ask", [enqueue, enqueue_many, replace_scheduled])
def test_whoever_names_a_key_second_with_another_cap_is_refused(
    place: Place, ask: Ask, nth: int
) -> None:
    store, other = place.store(), place.store()
    made: list[str] = []
    with (
        interrupting(
            store.engine,
            place.tables.concurrency,
            lambda: made.append(register(other)),
            nth=nth,
        ),
        pytest.raises(ConcurrencyConflict, match="registered with max_concurrency 5"),
    ):
        ask(store)
    assert [*place.jobs()] == made
    assert caps(place) == {"k": 5}
    assert place.rows(place.tables.schedule_keys) == []


def test_a_twin_that_names_the_key_first_does_not_hide_the_conflict(
    place: Place,
) -> None:
    """Rule E4: also one that was stored since the first look."""
    store, other = place.store(), place.store()
    made: list[str] = []
    with (
        interrupting(
            store.engine,
            place.tables.jobs,
            lambda: made.append(register(other)),
            nth=1,
        ),
        pytest.raises(ConcurrencyConflict, match="registered with max_concurrency 5"),
    ):
        enqueue_a_twin(store)
    assert [*place.jobs()] == made
    assert caps(place) == {"k": 5}


# A requeued job has the cap that its key is registered with, whenever that changes.
@pytest.mark.parametrize("nth", [1, 2])
def test_a_requeue_is_not_refused_for_a_cap_that_changes_meanwhile(
    place: Place, nth: int
) -> None:
    store, other = place.store(), place.store()
    ended = str(enqueue(store))
    store.cancel(ended)
    with interrupting(
        store.engine,
        place.tables.concurrency,
        lambda: other.set_concurrency("k", 5),
        nth=nth,
    ):
        again = store.requeue(ended)
    assert place.jobs()[again]["concurrency_key"] == "k"
    assert caps(place) == {"k": 5}


def caps(place: Place) -> dict[str, int]:
    return {
        row["concurrency_key"]: row["max_concurrency"]
        for row in place.rows(place.tables.concurrency)
    }
