"""Values at their edges come back exactly, or are refused alike, on every database."""

from typing import Any

import pytest

from jobfence.statemachine.canonical import MAX_TEXT_BYTES
from jobfence.statemachine.checks import INT32_MAX, INT32_MIN, LAST_MS
from jobfence.statemachine.errortext import MAX_ERROR_BYTES
from jobfence.statemachine.options import JobRequest
from jobfence.statemachine.policy import QueuePolicy
from jobfence.statemachine.states import JobStatus
from jobfence.store import SqlJobStore
from tests.store.sql.bench import World

# 255 characters of four bytes each: the longest that a name or key can be.
WIDE = "😀" * 255
ALIKE = ("K", "k", "k ", "K ", "ﬀ", "ff", "ẞ", "ss", "é", "e\u0301")


VALUES: list[Any] = [
    10**400,
    -(2**64),
    2**53 + 1,
    0.1,
    -0.0,
    1e308,
    5e-324,
    True,
    None,
    "",
    " padded ",
    "😀 ünïcödé \u202e",
    "NUL \0 inside",
    "\x7f\x01\u2028",
    "'; DROP TABLE jobs; --",
    "100% :name %s {p} \\ \\n",
    [[], {}, [{"a": [None]}]],
    {"": 1, "b": {"a": 2}, "a": [1]},
]


def test_E2_arguments_come_back_exactly(world: World) -> None:
    store = world.store()
    ids = store.enqueue_many(
        [JobRequest("job", [value], {"key": value}) for value in VALUES]
    )
    handoffs = {each.job.id: each for each in store.claim(len(ids))}
    for job_id, value in zip(ids, VALUES, strict=True):
        job = store.get(job_id)
        assert job is not None
        assert job.args == (value,)
        assert job.kwargs == {"key": value}
        # repr: 1 is True and 0.0 is -0.0 by ==.
        assert repr(job.args[0]) == repr(handoffs[job_id].job.args[0])
        assert type(job.args[0]) is type(value)
    zero = handoffs[ids[VALUES.index(-0.0)]].job.args[0]
    assert str(zero) == "-0.0"


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), float("-inf")], ids=["nan", "inf", "-inf"]
)
def test_F59_what_json_cannot_carry_is_refused_and_no_row_is_written(
    world: World, value: float
) -> None:
    store = world.store()
    with pytest.raises(ValueError, match=r"args\[0\]\['x'\]"):
        store.enqueue("job", [{"x": value}])
    with pytest.raises(ValueError, match="x"):
        store.enqueue_many([JobRequest("job"), JobRequest("job", kwargs={"x": value})])
    assert world.statuses() == {}


def test_F58_a_lone_surrogate_is_refused_in_arguments_and_replaced_in_errors(
    world: World,
) -> None:
    store = world.store()
    with pytest.raises(ValueError, match="x"):
        store.enqueue("job", kwargs={"x": "\ud800"})
    assert world.statuses() == {}
    store.enqueue("job")
    (handoff,) = store.claim()
    ack = store.fail(handoff.job.id, handoff.handoff_id, "bad \ud800 and \0")
    assert ack.accepted
    assert ack.job is not None
    assert ack.job.last_error == "bad \ufffd and \ufffd"
    assert world.row(handoff.job.id)["last_error"] == "bad \ufffd and \ufffd"


@pytest.mark.parametrize(
    "error",
    ["😀" * 70_000, "x" * 20_000_000, "😀" * (MAX_ERROR_BYTES // 4)],
    ids=["70,000 emoji", "20 MB", "just 64 KiB of emoji"],
)
def test_F61_a_long_error_is_cut_and_the_job_moves(world: World, error: str) -> None:
    store = world.store()
    job_id = store.enqueue("job", max_retries=0)
    (handoff,) = store.claim()
    ack = store.fail(job_id, handoff.handoff_id, error)
    assert ack.accepted
    stored = world.row(job_id)["last_error"]
    assert len(stored.encode()) <= MAX_ERROR_BYTES
    assert ack.job is not None
    assert ack.job.last_error == stored
    assert world.statuses() == {job_id: "failed"}


def test_E6_a_mebibyte_of_arguments_is_stored_and_one_byte_more_is_not(
    world: World,
) -> None:
    store = world.store()
    # Brackets and quotes: ["…"] and {} are 4 and 2 bytes.
    fits = "x" * (MAX_TEXT_BYTES - 6)
    job_id = store.enqueue("job", [fits], deduplicate_while_queued=True)
    assert store.enqueue("job", [fits], deduplicate_while_queued=True) == job_id
    with pytest.raises(ValueError, match="1048576 bytes"):
        store.enqueue("job", [fits + "x"])
    (handoff,) = store.claim()
    assert handoff.job.args == (fits,)
    assert list(world.statuses()) == [job_id]


def test_F62_names_and_keys_are_compared_byte_by_byte(world: World) -> None:
    store = world.store()
    by_key = {key: store.enqueue("job", idempotency_key=key) for key in ALIKE}
    assert len(set(by_key.values())) == len(ALIKE)
    assert {key: store.enqueue("job", idempotency_key=key) for key in ALIKE} == by_key
    by_name = {
        key: store.enqueue(key, [1], deduplicate_while_queued=True) for key in ALIKE
    }
    assert {
        key: store.enqueue(key, [1], deduplicate_while_queued=True) for key in ALIKE
    } == by_name
    by_args = {
        key: store.enqueue("a", [key], deduplicate_while_queued=True) for key in ALIKE
    }
    assert len({*by_name.values(), *by_args.values()}) == 2 * len(ALIKE)
    for number, key in enumerate(ALIKE, 1):
        store.set_concurrency(key, number)
        store.replace_scheduled(key, "report")
    assert world.counters() == {key: (n, 0) for n, key in enumerate(ALIKE, 1)}
    owners = {row["schedule_key"] for row in world.rows(world.tables.schedule_keys)}
    assert owners == set(ALIKE)
    for key in ALIKE:
        (job,) = store.list_jobs(name=key)
        assert job.id == by_name[key]
        assert store.claim_job(job.id, worker_id=key, handoff_id=key) is not None
    for key in ALIKE:
        (handoff,) = store.handoffs_for_worker(key)
        assert handoff.handoff_id == key
    assert {job.id for job in store.list_jobs(status=JobStatus.HANDED_OFF)} == set(
        by_name.values()
    )


def test_F62_queues_are_compared_byte_by_byte(world: World) -> None:
    names = [name for name in ALIKE if name == name.strip()]
    policies = {name: QueuePolicy(max_concurrent=1) for name in names}
    store = world.store(queues=policies)
    ids = {name: store.enqueue("job", queue=name) for name in names}
    store.reconcile_queue_policies()
    store.pause_queue("K")
    assert {each.job.id for each in store.claim(50)} == set(ids.values()) - {ids["K"]}
    assert [stats.queue for stats in store.queue_stats()] == sorted(names)
    assert [stats.queue for stats in store.queue_stats() if stats.paused] == ["K"]


def test_the_widest_names_and_keys_fit_every_column_and_index(world: World) -> None:
    store = world.store(queues={WIDE: QueuePolicy(max_concurrent=2, priority=1)})
    job_id = store.enqueue(WIDE, [WIDE], queue=WIDE, idempotency_key=WIDE)
    assert store.enqueue(WIDE, [WIDE], queue=WIDE, idempotency_key=WIDE) == job_id
    twin = store.enqueue(WIDE, queue=WIDE, deduplicate_while_queued=True)
    assert store.enqueue(WIDE, queue=WIDE, deduplicate_while_queued=True) == twin
    keyed = store.enqueue(WIDE, concurrency_key=WIDE, max_concurrency=1)
    owner = store.replace_scheduled(WIDE, WIDE, queue=WIDE).job_id
    store.reconcile_queue_policies()
    handoff = store.claim_job(job_id, worker_id=WIDE, handoff_id=WIDE)
    assert handoff is not None
    assert (handoff.job.worker_id, handoff.handoff_id) == (WIDE, WIDE)
    assert handoff.job.concurrency_key == f"queue:{WIDE}"
    assert [each.job.id for each in store.handoffs_for_worker(WIDE)] == [job_id]
    assert store.complete(job_id, WIDE).accepted
    assert store.complete(job_id, WIDE).repeated
    assert {each.job.id for each in store.claim(9)} == {twin, keyed, owner}
    assert store.acquire_ownership(WIDE, ttl_ms=5)
    assert world.counters() == {f"queue:{WIDE}": (2, 2), WIDE: (1, 1)}


def test_the_widest_names_and_keys_fit_the_journal(world: World) -> None:
    store = world.store(journal=True, queues={WIDE: QueuePolicy(max_concurrent=2)})
    store.enqueue(WIDE, [WIDE], queue=WIDE)
    store.replace_scheduled(WIDE, WIDE)
    (handoff,) = store.claim(1, queues=[WIDE])
    assert store.complete(handoff.job.id, handoff.handoff_id).accepted
    entities = {row["entity_id"] for row in world.rows(world.tables.journal)}
    assert {f"queue:{WIDE}", WIDE, handoff.job.id} <= entities


def test_numbers_at_their_limits_come_back(world: World) -> None:
    store = world.store(lease_ms=INT32_MAX)
    lowest = store.enqueue(
        "low",
        priority=INT32_MIN,
        max_retries=INT32_MAX,
        scheduled_at=0,
        timeout_ms=INT32_MAX,
        concurrency_key="k",
        max_concurrency=INT32_MAX,
    )
    highest = store.enqueue("high", priority=INT32_MAX, scheduled_at=0)
    never = store.enqueue("never", scheduled_at=LAST_MS)
    world.clock.set(LAST_MS - 5)
    first, second = store.claim(5)
    assert (first.job.id, second.job.id) == (highest, lowest)
    assert second.job.priority == INT32_MIN
    assert second.job.max_retries == second.job.timeout_ms == INT32_MAX
    assert second.job.max_concurrency == INT32_MAX
    # No time passes the year 9999.
    assert second.lease_expires_at_ms == LAST_MS
    ack = store.reschedule(second.job.id, second.handoff_id, delay_ms=LAST_MS)
    assert ack.job is not None
    assert ack.job.scheduled_at_ms == LAST_MS
    scheduled = store.next_scheduled()
    assert scheduled is not None
    assert scheduled.scheduled_at_ms == LAST_MS
    world.clock.set(LAST_MS)
    assert {each.job.id for each in store.claim(5)} == {lowest, never}


def test_an_attempt_more_than_the_column_holds_is_never_reached(world: World) -> None:
    store = world.store(max_handoffs=None)
    job_id = store.enqueue("job", max_retries=0)
    world.execute(
        world.tables.jobs.update().values(
            attempts=INT32_MAX - 1, handoffs=INT32_MAX - 1
        )
    )
    (handoff,) = store.claim()
    assert handoff.fence == INT32_MAX
    ack = store.fail(job_id, handoff.handoff_id, "no")
    assert ack.job is not None
    assert (ack.job.attempts, ack.job.status) == (INT32_MAX, JobStatus.FAILED)


def listed(store: SqlJobStore) -> list[str]:
    return [job.name for job in store.list_jobs()]


def test_O2_ids_are_sorted_byte_by_byte(world: World) -> None:
    order = ["A", "B", "a", "b", "é"]
    ids = iter(["b", "A", "é", "a", "B"])
    store = world.store(ids=lambda: next(ids))
    for name in ("b", "A", "é", "a", "B"):
        store.enqueue(name)
    assert listed(store) == order
    assert [each.job.name for each in store.claim(5)] == order
