"""Rows as plain values: changes made again, through JSON, are the same tables."""

import json

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from jobfence.statemachine.clock import ManualClock
from jobfence.statemachine.errors import ConcurrencyConflict, UnsupportedCapability
from jobfence.statemachine.options import JobRequest
from jobfence.statemachine.policy import QueuePolicy
from jobfence.store.memory import (
    Change,
    JobData,
    MemoryJobStore,
    Tables,
    apply,
    changes,
)
from jobfence.store.memory.data import snapshot_of


class Lines(JobData):
    """Keeps the JSON of every commit, and reads all of it for each transaction."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    @contextmanager
    def transaction(self) -> Iterator[Tables]:
        before, tables = self.read(), self.read()
        yield tables
        if changed := list(changes(before, tables)):
            self.lines.append(json.dumps(changed))

    def read(self) -> Tables:
        tables = Tables()
        for line in self.lines:
            apply(tables, json.loads(line))
        return tables


class KeptJobStore(MemoryJobStore):
    """A store of another name."""


def used() -> tuple[Lines, KeptJobStore]:
    """Rows in every table, some changed and some deleted since."""
    data, clock = Lines(), ManualClock(1_000)
    policy = QueuePolicy(max_concurrent=2, priority=3)
    store = KeptJobStore(clock=clock, queues={"mail": policy}, data=data)
    store.enqueue("send", ["a"], {"b": None}, queue="mail", idempotency_key="k")
    store.reconcile_queue_policies()
    store.pause_queue("mail")
    store.replace_scheduled("nightly", "report", scheduled_at=9_000)
    store.acquire_ownership("w1", ttl_ms=5_000)
    held = store.claim_job(store.enqueue("other"))
    assert held is not None
    store.complete(held.job.id, held.handoff_id)
    return data, store


def test_changes_made_again_through_json_are_the_same_tables() -> None:
    data, _ = used()
    tables = data.read()
    for table in (
        tables.jobs,
        tables.counters,
        tables.schedule_keys,
        tables.idempotency,
        tables.queues,
    ):
        assert table
    assert tables.owner is not None

    whole = Tables()
    apply(whole, json.loads(json.dumps(list(changes(Tables(), tables)))))

    assert whole == tables
    assert snapshot_of(whole) == data.snapshot()


def test_a_deleted_row_is_a_change_without_a_row() -> None:
    data, store = used()
    before = data.read()
    ended = [name for name, row in before.jobs.items() if row.ended_at_ms]

    store.prune_terminal(completed_ttl_ms=0)
    store.release_ownership("w1")

    made = list(changes(before, data.read()))
    assert [Change("jobs", name, None) for name in ended] == [
        each for each in made if each.table == "jobs"
    ]
    assert Change("owner", "owner", None) in made
    apply(before, made)
    assert before == data.read()


def test_what_is_left_as_it_was_is_no_change() -> None:
    data, store = used()
    lines = list(data.lines)
    assert store.counts()
    assert store.complete("none", "none").job is None
    assert list(changes(data.read(), data.read())) == []
    assert data.lines == lines


def test_an_operation_that_fails_keeps_nothing() -> None:
    data, store = used()
    lines = list(data.lines)
    requests = [
        JobRequest("send", concurrency_key="k", max_concurrency=cap) for cap in (1, 2)
    ]
    with pytest.raises(ConcurrencyConflict):
        store.enqueue_many(requests)
    assert data.lines == lines


def test_clearing_deletes_every_row() -> None:
    data, store = used()
    store.clear()
    assert data.read() == Tables()


def test_rows_of_another_program_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="'users' is no table of jobs: jobs, counters"):
        apply(Tables(), [["users", "1", {}]])


def test_damage_past_the_store_is_kept_as_well() -> None:
    data, store = used()
    name = next(name for name, row in data.read().jobs.items() if row.queue == "mail")
    data.edit_job(name, priority=7)
    data.edit_counter("extra", max_concurrency=2, active=1)
    data.edit_schedule_key("nightly", job_id=None)
    job = store.get(name)
    assert job is not None
    assert job.priority == 7
    assert data.read().counters["extra"].active_count == 1
    assert data.read().schedule_keys["nightly"].job_id is None
    data.drop_counter("extra")
    assert "extra" not in data.read().counters


def test_a_store_on_kept_rows_is_named_by_its_class() -> None:
    _, store = used()
    with pytest.raises(UnsupportedCapability, match="KeptJobStore"):
        store.within(object())
