"""Dedupe and idempotency when several ask at once (E4, E5)."""

from functools import partial

import pytest

from jobfence.statemachine.errors import IdempotencyConflict
from jobfence.statemachine.options import JobRequest
from jobfence.statemachine.states import JobStatus
from jobfence.store.sql.store import SqlJobStore
from tests.store.sql.races import tasks
from tests.store.sql.races.crew import Running, in_processes, together
from tests.store.sql.races.place import Place, PlaceFactory

THREADS = 20


def test_twenty_threads_with_one_dedupe_identity_make_one_job(place: Place) -> None:
    """Rule E4."""
    stores = [place.store() for _ in range(4)]
    found = together(
        *[
            partial(
                stores[number % 4].enqueue,
                "job",
                [1, {"b": 2, "a": 1}],
                deduplicate_while_queued=True,
            )
            for number in range(THREADS)
        ]
    )
    assert len(set(found)) == 1
    assert place.count(JobStatus.QUEUED) == 1
    assert place.troubles.deadlocks == place.troubles.busy == 0


def test_A22_twins_at_once_share_one_counter(place: Place) -> None:
    """Case A22, and a counter that both were about to make."""
    store, other = place.store(), place.store()
    for number in range(10):
        first, second = together(
            *[
                partial(
                    each.enqueue,
                    "job",
                    [number],
                    concurrency_key=f"k{number}",
                    max_concurrency=2,
                    deduplicate_while_queued=True,
                )
                for each in (store, other)
            ]
        )
        assert first == second
    assert place.counters() == {f"k{number}": 0 for number in range(10)}


def test_twenty_threads_with_one_idempotency_key_make_one_job(place: Place) -> None:
    """Rule E5: those who ask for something else are refused, and write nothing."""
    store = place.store()

    def same() -> str:
        return store.enqueue("job", [1], idempotency_key="i")

    assert len(set(together(*[same] * THREADS))) == 1

    def other() -> str:
        with pytest.raises(IdempotencyConflict) as caught:
            store.enqueue("job", [2], idempotency_key="i")
        return caught.value.job_id

    mixed = together(*[same, other] * (THREADS // 2))
    assert len(set(mixed)) == 1
    assert place.count(JobStatus.QUEUED) == 1
    assert len(place.rows(place.tables.idempotency)) == 1


@pytest.mark.unnoted
def test_A139_processes_with_one_idempotency_key_make_one_job(place: Place) -> None:
    """Case A139, with four processes and three keys each."""
    arguments = (place.url, place.prefix, ["i", "j", "k"])
    found = in_processes([(tasks.enqueue_once, arguments)] * 4)
    ids = {tuple(each) for each, _troubles in found}
    assert len(ids) == 1
    assert len(place.jobs()) == len(place.rows(place.tables.idempotency)) == 3
    assert all(troubles == {} for _, troubles in found)


@pytest.mark.on("postgresql", "mariadb")
def test_A25_unrelated_identities_do_not_wait_for_one_that_is_held(
    place: Place,
) -> None:
    """Case A25; also many of them, whatever lies between their digests."""
    store = place.store()
    twin = partial(store.enqueue, "job", ["a"], deduplicate_while_queued=True)
    with place.looking.connect() as connection:
        with connection.begin():
            inside = store.within(connection)
            first = inside.enqueue("job", ["a"], deduplicate_while_queued=True)
            again = inside.enqueue("job", ["a"], deduplicate_while_queued=True)
            assert again == first
            matching = [Running(twin), Running(twin)]
            place.until_waiting(*matching)
            for number in range(40):
                unrelated = Running(
                    partial(
                        store.enqueue, "job", [number], deduplicate_while_queued=True
                    )
                )
                unrelated.result(within_s=20)
            assert not any(each.done for each in matching)
        assert [each.result() for each in matching] == [first, first]
    assert place.count(JobStatus.QUEUED) == 41


@pytest.mark.on("postgresql", "mariadb")
def test_whoever_waited_for_a_twin_that_was_rolled_back_makes_it(place: Place) -> None:
    store = place.store()
    with place.looking.connect() as connection:
        inside = store.within(connection)
        first = inside.enqueue("job", deduplicate_while_queued=True)
        waiting = Running(partial(store.enqueue, "job", deduplicate_while_queued=True))
        place.until_waiting(waiting)
        connection.rollback()
    made = waiting.result()
    assert made != first
    assert set(place.jobs()) == {made}


def test_a_batch_against_single_enqueues_of_the_same_identities(place: Place) -> None:
    """Rule E6: as if one by one, whoever else asks at the same moment."""
    store = place.store()
    wanted = [JobRequest("job", [n], deduplicate_while_queued=True) for n in range(8)]

    def one_by_one() -> list[str]:
        return [
            store.enqueue("job", [n], deduplicate_while_queued=True)
            for n in reversed(range(8))
        ]

    batch, single, other = together(
        lambda: store.enqueue_many(wanted),
        one_by_one,
        lambda: store.enqueue_many(wanted[::-1]),
    )
    assert batch == single[::-1] == other[::-1]
    assert len(set(batch)) == place.count(JobStatus.QUEUED) == 8


@pytest.mark.on("postgresql")
@pytest.mark.unnoted
def test_stores_that_spell_one_schema_differently_hold_the_same_identities(
    place: Place,
) -> None:
    """The search path finds what the other one names."""
    store = place.store()
    spelled = SqlJobStore(place.looking, table_prefix=place.prefix, schema="public")
    twin = partial(spelled.enqueue, "job", deduplicate_while_queued=True)
    with store.engine.connect() as connection:
        inside = store.within(connection)
        first = inside.enqueue("job", deduplicate_while_queued=True)
        waiting = Running(twin)
        place.until_waiting(waiting)
        connection.commit()
    assert waiting.result() == first
    assert set(place.jobs()) == {first}


@pytest.mark.on("postgresql")
@pytest.mark.unnoted
def test_first_starts_that_spell_one_schema_differently_wait_for_each_other(
    new_place: PlaceFactory,
) -> None:
    place = new_place()
    store = place.store()
    spelled = SqlJobStore(place.looking, table_prefix=place.prefix, schema="public")
    with store.engine.connect() as connection:
        store.within(connection).ensure_ready()
        starting = Running(spelled.ensure_ready)
        place.until_waiting(starting)
        connection.commit()
    starting.result()
    spelled.ensure_ready(create=False)
