"""Calls with wrong arguments, and the few ways through a call that no rule is about."""

from collections.abc import Callable

import pytest

from jobfence.statemachine.errors import InvalidOption
from jobfence.statemachine.table import Trigger
from jobfence.statemachine.values import Settlement
from jobfence.store import MemoryJobStore, SqlJobStore
from tests.store.sql.bench import World, only

WRONG: dict[str, tuple[str, Callable[[SqlJobStore], object]]] = {
    "a request of another kind": (
        "requests",
        lambda store: store.enqueue_many(["job"]),  # type: ignore[list-item]
    ),
    "a status that is none": (
        "status",
        lambda store: store.list_jobs(status="running"),  # type: ignore[arg-type]
    ),
    "a settlement of another kind": (
        "acks",
        lambda store: store.settle([Settlement(Trigger.CANCEL, "j", "h")]),
    ),
    "a lease of no length": ("lease_ms", lambda store: store.claim(lease_ms=0)),
    "a limit in words": (
        "limit",
        lambda store: store.claim("all"),  # type: ignore[arg-type]
    ),
    "a queue in bytes": ("queue", lambda store: store.pause_queue(b"q")),  # type: ignore[arg-type]
    "no worker": ("worker_id", lambda store: store.handoffs_for_worker("")),
    "a time to live of no length": (
        "ttl_ms",
        lambda store: store.acquire_ownership("w", ttl_ms=0),
    ),
    "a batch of none": ("batch_size", lambda store: store.prune_terminal(batch_size=0)),
    "a derived key": (
        "concurrency_key",
        lambda store: store.set_concurrency("queue:q", 1),
    ),
}


@only("sqlite")
@pytest.mark.parametrize("what", WRONG)
def test_E1_a_wrong_argument_is_named_before_the_database_is_asked(
    world: World, what: str
) -> None:
    option, call = WRONG[what]
    before = world.everything()
    with pytest.raises(InvalidOption) as refusal:
        call(world.store())
    assert refusal.value.option == option
    assert world.everything() == before


SEVERAL: list[tuple[str, tuple[object, ...], dict[str, object], str]] = [
    ("claim", (-1,), {"queues": "q", "worker_id": ""}, "limit"),
    ("claim", (1,), {"queues": "q", "worker_id": ""}, "queues"),
    ("claim_job", ("j",), {"worker_id": "", "handoff_id": ""}, "worker_id"),
    ("claim_job", ("j",), {"handoff_id": "", "lease_ms": 0}, "handoff_id"),
    ("settle", (["x"],), {"claim": -1}, "acks"),
    ("settle", ([],), {"claim": -1, "lease_ms": 0}, "claim"),
    ("list_jobs", (), {"status": "x", "queue": "", "limit": 0}, "status"),
    ("set_concurrency", ("queue:q", 0), {}, "concurrency_key"),
    ("prune_terminal", (), {"failed_ttl_ms": -1, "batch_size": 0}, "failed_ttl_ms"),
    ("acquire_ownership", ("",), {"ttl_ms": 0}, "worker_id"),
]


@pytest.mark.parametrize("kind", [SqlJobStore, MemoryJobStore])
@pytest.mark.parametrize(("method", "args", "options", "named"), SEVERAL)
def test_E1_of_several_bad_options_the_first_of_the_signature_is_named(
    kind: type[SqlJobStore] | type[MemoryJobStore],
    method: str,
    args: tuple[object, ...],
    options: dict[str, object],
    named: str,
) -> None:
    store = SqlJobStore("sqlite://") if kind is SqlJobStore else MemoryJobStore()
    with pytest.raises(InvalidOption) as refusal:
        getattr(store, method)(*args, **options)
    assert refusal.value.option == named
    store.close()


def test_what_is_not_there_is_stale_or_not_found_and_nothing_changes(
    world: World,
) -> None:
    store = world.store()
    store.enqueue("job")
    before = world.everything()
    assert store.extend_lease("nobody", "h").stale
    assert store.complete("nobody", "h").stale
    assert store.claim_job("nobody") is None
    assert store.get("nobody") is None
    assert store.cancel("nobody").job_id is None
    assert store.recover_expired() == []
    assert store.enqueue_many([]) == []
    assert store.settle([]) == ([], [])
    assert store.extend_leases([]) == []
    assert store.claim(0) == []
    assert store.next_scheduled(queues=["elsewhere"]) is None
    assert world.everything() == before


class Back:
    """A clock that is set back a little, once, between two looks."""

    def __init__(self, *times: int) -> None:
        self.times = list(times)

    def now_ms(self) -> int:
        return self.times.pop(0) if len(self.times) > 1 else self.times[0]


def test_L3_a_clock_that_is_set_back_within_a_claim_takes_nothing_early(
    world: World,
) -> None:
    due = world.store()
    job_id = due.enqueue(
        "job", scheduled_at=2000, concurrency_key="k", max_concurrency=1
    )
    # The store of the clock has its tables ready, and asks for the time in its calls.
    back = Back(2000, 1999)
    store = world.store(clock=back)
    store.ensure_ready()
    back.times = [2000, 1999]
    assert store.claim(3) == []
    back.times = [2000, 1999]
    assert store.claim_job(job_id) is None
    assert world.statuses() == {job_id: "queued"}
    assert world.counters() == {"k": (1, 0)}
    back.times = [2000]
    assert [each.job.id for each in store.claim(3)] == [job_id]
    assert world.counters() == {"k": (1, 1)}


def indexes(world: World) -> dict[str, list[str | None]]:
    found = world.database.inspect().get_indexes(f"{world.prefix}jobs")
    return {str(index["name"]): index["column_names"] for index in found}


def test_S4_tables_made_from_the_metadata_lack_only_the_ledger(bare: World) -> None:
    bare.tables.metadata.create_all(bare.database.engine)
    before = indexes(bare)
    assert set(before) >= bare.index_names()
    store = bare.store()
    job_id = store.enqueue("job", deduplicate_while_queued=True)
    assert store.enqueue("job", deduplicate_while_queued=True) == job_id
    assert [row["version"] for row in bare.rows(bare.tables.migrations)] == [1, 2, 3]
    assert indexes(bare) == before
