"""
A job store in one append-only file: the worked example of "Write an adapter".

Every commit is one line of JSON with the rows it changed. A lock on the file is the
transaction, so any number of processes of one machine may share it.
"""

import copy
import dataclasses
import fcntl
import json
import os
import threading

from contextlib import contextmanager
from pathlib import Path

from jobfence.statemachine import checks, options, texts
from jobfence.statemachine.clock import SystemClock
from jobfence.statemachine.errors import (
    ConcurrencyConflict,
    HandoffIdInUse,
    InvalidOption,
    UnsupportedCapability,
)
from jobfence.statemachine.errortext import error_text
from jobfence.statemachine.ids import random_id, time_ordered_id
from jobfence.statemachine.policy import (
    NO_POLICY,
    QueuePolicy,
    check_queues,
    derived_key,
    is_derived,
    resolve_concurrency,
)
from jobfence.statemachine.retry import SteppedRetry, retry_delay_ms
from jobfence.statemachine.settling import settled
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.table import Fence, Guard, Trigger, Value, alternatives
from jobfence.statemachine.values import (
    STALE,
    Ack,
    AckResult,
    Cancellation,
    CancelOutcome,
    Handoff,
    Job,
    Reconciliation,
    Settlement,
)

COLUMNS = [field.name for field in dataclasses.fields(Job)]


def job_of(row):
    """Turn a row into what callers see."""
    columns = {name: row[name] for name in COLUMNS}
    columns |= {"args": tuple(row["args"]), "status": JobStatus(row["status"])}
    return Job(**copy.deepcopy(columns))  # what callers do to theirs is not stored (E2)


def handoff_of(row):
    job = job_of(row)
    return Handoff(job, job.handoff_id, job.handed_off_at_ms, job.lease_expires_at_ms)


class Work:
    """One transaction: the rows as they were, what it changed, and its one `now`."""

    def __init__(self, store):
        self.store, self.now, self.wake = store, store.clock.now_ms(), False
        self.jobs, self.caps, self.queues = (dict(each) for each in store.tables)
        self.changed = {}

    def put(self, row):
        self.jobs[row["id"]] = self.changed[row["id"]] = row
        return row

    def with_status(self, status):
        return [row for row in self.jobs.values() if row["status"] == status]

    def policy(self, queue):
        if self.store.queues is not None:
            return self.store.queues.get(queue, NO_POLICY)
        return QueuePolicy(*self.queues.get(queue, (None, 0)))

    def slot_free(self, row):
        """Count instead of keeping a counter: the lock makes that safe (C4, C5)."""
        key = row["concurrency_key"]
        if key is None or key not in self.caps:
            return True
        cap = self.caps[key]
        if is_derived(key):
            cap = self.policy(row["queue"]).max_concurrent or cap
        held = self.with_status(JobStatus.HANDED_OFF)
        return sum(each["concurrency_key"] == key for each in held) < cap

    def move(self, row, trigger, given=(), *, handoff_id=None, every_lease=False):
        """Fire the first row of the table that applies; None if none does (M20)."""
        end = row["lease_expires_at_ms"]
        left = row["attempts"] + 1 <= row["max_retries"]
        given = {**dict(given), "last_ack": trigger.value}
        holds = {
            Guard.DUE: row["scheduled_at_ms"] <= self.now,
            Guard.FUTURE: row["scheduled_at_ms"] > self.now,
            Guard.SLOT_FREE: self.slot_free(row),
            Guard.NOT_PAUSED: True,
            Guard.CANCEL_REQUESTED: row["cancel_requested"],
            Guard.RETRIES_LEFT: left,
            Guard.NO_RETRIES_LEFT: not left,
            Guard.HANDOFFS_SPENT: False,
            Guard.LEASE_OVER: every_lease or (end is not None and end <= self.now),
            Guard.UNREADABLE: False,
            Guard.POLICY_DIFFERS: any(
                row[name] != given.get(name, row[name])
                for name in ("concurrency_key", "max_concurrency", "priority")
            ),
        }
        for step in alternatives(trigger, JobStatus(row["status"])):
            if not all(holds[guard] for guard in step.guards):
                continue
            if Fence.HANDOFF in step.fence and row["handoff_id"] != handoff_id:
                return None
            if step.consumes_attempt:
                wait = retry_delay_ms(self.store.retry_policy, row["attempts"] + 1)
                given["scheduled_at_ms"] = checks.later_ms(self.now, wait)
            leaves = row["status"] == JobStatus.HANDED_OFF != step.dest
            back = step.dest is JobStatus.QUEUED or row["concurrency_key"] is not None
            self.wake = self.wake or (leaves and back)
            new = {
                name: self.value(value, row[name], given.get(name))
                for name, value in step.writes.items()
            }
            return self.put({**row, "status": step.dest.value, **new})
        return None

    def value(self, kind, old, given):
        """Return what a column gets: the table says where its value comes from."""
        if kind is Value.INCREMENT:
            return old + 1
        plain = {Value.NOW: self.now, Value.NULL: None, Value.TRUE: True}
        return plain.get(kind, given)

    def adopt(self, row, policy):
        """Give a queued row its queue's cap and priority where they are its say (C8)."""
        key, cap = row["concurrency_key"], row["max_concurrency"]
        if is_derived(key):
            key, cap = resolve_concurrency(row["queue"], policy)
        priority = row["priority"] if row["own_priority"] else policy.priority
        wanted = {"concurrency_key": key, "max_concurrency": cap, "priority": priority}
        row = self.move(row, Trigger.ADOPT_POLICY, wanted) or row
        if key is not None:
            self.caps.setdefault(key, cap)
        return row


class FileJobStore:
    """Core and caps; what it lacks is said to the suite, with the reason."""

    def __init__(
        self, path, *, queues=None, clock=None, lease_ms=60_000, retry_policy=None
    ):
        self.path, self.clock = Path(path), clock or SystemClock()
        self.queues, self.lease_ms = check_queues(queues), checks.lease_ms(lease_ms)
        self.retry_policy = retry_policy or SteppedRetry()
        self.tables, self._read_to = ({}, {}, {}), 0
        self._thread, self._listeners = threading.Lock(), []

    @contextmanager
    def _transaction(self):
        """Lock, catch up with the others, work on copies, append one line."""
        with self._thread, self.path.open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # closing the file lets it go
            self._catch_up(file)
            work = Work(self)
            yield work
            line = [list(work.changed.values()), work.caps, work.queues]
            if work.changed or line[1:] != [*self.tables[1:]]:
                self._append(file, line)
                self._catch_up(file)
        if work.wake:
            for listener in self._listeners:
                try:
                    listener()
                except Exception as problem:  # it must not undo what is committed (T3)
                    print(f"a wake-up listener raised: {problem!r}")

    def _append(self, file, line):
        file.seek(self._read_to)
        file.truncate()  # half a line that a crash left behind
        file.write(json.dumps(line).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())  # only now is it a commit

    def _catch_up(self, file):
        file.seek(self._read_to)
        for text in file:
            if not text.endswith(b"\n"):
                break  # never committed
            rows, caps, queues = json.loads(text)
            jobs = {} if rows is None else self.tables[0]
            jobs.update((row["id"], row) for row in rows or ())
            self.tables = (jobs, caps, queues)
            self._read_to += len(text)

    # Life

    def ensure_ready(self, *, create=True):
        with self._transaction():
            pass

    def close(self):
        """There is nothing to let go of between two transactions."""

    def clear(self):
        with self._transaction(), self.path.open("a+b") as file:
            self._append(file, [None, {}, {}])

    def on_commit_wake(self, listener):
        self._listeners.append(listener)

    # Enqueue

    def enqueue(self, name, args=(), kwargs=None, **given):
        wanted = options.prepare(name, args, kwargs, **given)
        with self._transaction() as work:
            return self._enqueue(work, wanted)

    def enqueue_many(self, requests):
        wanted = [of_kind(options.JobRequest, "requests", each) for each in requests]
        with self._transaction() as work:
            return [self._enqueue(work, each.prepared) for each in wanted]

    def _enqueue(self, work, wanted):
        if wanted.idempotency_key is not None:
            raise UnsupportedCapability(
                "FileJobStore", "idempotency_key", "it remembers none; leave it out"
            )
        work.wake = True
        key, cap = wanted.concurrency
        if key is not None and work.caps.get(key, cap) != cap:
            raise ConcurrencyConflict(key, work.caps[key], cap)
        when = work.now if wanted.scheduled_at_ms is None else wanted.scheduled_at_ms
        args, kwargs = json.loads(wanted.args_text), json.loads(wanted.kwargs_text)
        if wanted.deduplicate_while_queued:
            twins = [
                row
                for row in work.with_status(JobStatus.QUEUED)
                if (row["name"], row["queue"]) == (wanted.name, wanted.queue)
                and row["digest"] == wanted.args_digest
                and row["scheduled_at_ms"] <= when
            ]
            if twins:
                return min(twins, key=soonest)["id"]
        policy = work.policy(wanted.queue)
        key, cap = resolve_concurrency(wanted.queue, policy, wanted.concurrency)
        if key is not None:
            work.caps.setdefault(key, cap)
        own = wanted.priority is not None
        row = dict.fromkeys(COLUMNS) | {
            "id": time_ordered_id(),
            "name": wanted.name,
            "args": args,
            "kwargs": kwargs,
            "digest": wanted.args_digest,
            "queue": wanted.queue,
            "priority": wanted.priority if own else policy.priority,
            "own_priority": own,
            "status": JobStatus.QUEUED.value,
            "attempts": 0,
            "handoffs": 0,
            "max_retries": wanted.max_retries,
            "created_at_ms": work.now,
            "scheduled_at_ms": when,
            "concurrency_key": key,
            "max_concurrency": cap,
            "timeout_ms": wanted.timeout_ms,
            "execution_mode": wanted.execution_mode,
            "cancel_requested": False,
            "lease_ms": None,
            "last_ack": None,
        }
        return work.put(row)["id"]

    # Claim

    def claim(
        self,
        limit=1,
        *,
        queues=None,
        execution_modes=None,
        worker_id="local",
        lease_ms=...,
    ):
        return self.settle(
            [],
            claim=checks.integer("limit", limit, least=0, most=10_000),
            queues=queues,
            execution_modes=execution_modes,
            worker_id=worker_id,
            lease_ms=lease_ms,
        )[1]

    def claim_job(self, job_id, *, worker_id="local", handoff_id=None, lease_ms=...):
        worker = checks.text("worker_id", worker_id)
        if handoff_id is not None:
            checks.text("handoff_id", handoff_id)
        lease = self._lease(lease_ms)
        with self._transaction() as work:
            row = work.jobs.get(job_id)
            if row is not None and handoff_id and row["handoff_id"] == handoff_id:
                return handoff_of(row)
            used = [each["last_handoff_id"] for each in work.jobs.values()]
            if handoff_id is not None and handoff_id in used:
                raise HandoffIdInUse(handoff_id)
            if row is None or row["status"] != JobStatus.QUEUED:
                return None
            return self._hand_off(work, row, worker, lease, handoff_id)

    def _hand_off(self, work, row, worker, lease, handoff_id=None):
        if row["scheduled_at_ms"] > work.now or not work.slot_free(row):
            return None
        row = work.adopt(row, work.policy(row["queue"]))
        key = row["concurrency_key"]
        if key is not None and is_derived(key):
            work.caps[key] = row["max_concurrency"]
        own = handoff_id or random_id()
        end = None if lease is None else checks.later_ms(work.now, lease)
        moved = work.move(
            row,
            Trigger.CLAIM,
            {
                "handoff_id": own,
                "last_handoff_id": own,
                "worker_id": worker,
                "last_worker_id": worker,
                "lease_ms": lease,
                "lease_expires_at_ms": end,
            },
        )
        return None if moved is None else handoff_of(moved)

    def _lease(self, lease_ms):
        return self.lease_ms if lease_ms is ... else checks.lease_ms(lease_ms)

    # Acknowledge

    def complete(self, job_id, handoff_id):
        return self._one(Settlement(Trigger.COMPLETE, job_id, handoff_id))

    def fail(self, job_id, handoff_id, error):
        text = error_text(error)
        return self._one(Settlement(Trigger.FAIL, job_id, handoff_id, error=text))

    def reschedule(self, job_id, handoff_id, *, delay_ms):
        given = Settlement(Trigger.RESCHEDULE, job_id, handoff_id, delay_ms=delay_ms)
        return self._one(given)

    def return_to_queue(self, job_id, handoff_id):
        return self._one(Settlement(Trigger.RETURN_TO_QUEUE, job_id, handoff_id))

    def _one(self, settlement):
        return self.settle([settlement])[0][0]

    def settle(
        self,
        acks,
        *,
        claim=0,
        queues=None,
        execution_modes=None,
        worker_id="local",
        lease_ms=...,
    ):
        """Acknowledge in the order given, then claim, in one transaction (T5)."""
        acks = [settled(each) for each in acks]  # before anything is written
        limit = checks.integer("claim", claim, least=0, most=10_000)
        worker, lease = checks.text("worker_id", worker_id), self._lease(lease_ms)
        wanted = options.queue_names(queues), options.execution_modes(execution_modes)
        with self._transaction() as work:
            answers = [self._acknowledge(work, each) for each in acks]
            taken = []
            for row in candidates(work, *wanted):
                if len(taken) == limit:
                    break
                handoff = self._hand_off(work, row, worker, lease)
                taken += [handoff] if handoff else []
            return answers, taken

    def _acknowledge(self, work, ack, given=()):
        given = dict(given)
        row = work.jobs.get(ack.job_id)
        if row is None:
            return STALE
        if ack.trigger is Trigger.FAIL:
            given["last_error"] = ack.error
        if ack.trigger is Trigger.RESCHEDULE:
            given["scheduled_at_ms"] = checks.later_ms(work.now, ack.delay_ms)
        moved = work.move(row, ack.trigger, given, handoff_id=ack.handoff_id)
        if moved is not None:
            return Ack(AckResult.ACCEPTED, job_of(moved))
        same = row["last_handoff_id"] == ack.handoff_id
        if same and row["last_ack"] == ack.trigger:
            return Ack(AckResult.REPEATED, job_of(row))
        return STALE

    def extend_lease(self, job_id, handoff_id, *, lease_ms=None):
        return self._extend([(job_id, handoff_id)], lease_ms)[0]

    def extend_leases(self, handoffs, *, lease_ms=None):
        held = [(each.job.id, each.handoff_id) for each in handoffs]
        return self._extend(held, lease_ms)

    def _extend(self, held, lease_ms):
        given, answers = checks.lease_ms(lease_ms), []
        with self._transaction() as work:
            for job_id, handoff_id in held:
                kept = work.jobs.get(job_id, {}).get("lease_ms")
                length = kept if given is None else given
                end = None if length is None else checks.later_ms(work.now, length)
                ack = Settlement(Trigger.EXTEND_LEASE, job_id, handoff_id)
                lease = {"lease_ms": length, "lease_expires_at_ms": end}
                answers.append(self._acknowledge(work, ack, lease))
        return answers

    # Recover and cancel

    def recover_expired(self, *, limit=100):
        most = checks.integer("limit", limit, least=1, most=10_000)
        with self._transaction() as work:
            over = [
                row
                for row in work.with_status(JobStatus.HANDED_OFF)
                if row["lease_expires_at_ms"] is not None
                and row["lease_expires_at_ms"] <= work.now
            ]
            over.sort(key=lambda row: (row["lease_expires_at_ms"], row["id"]))
            return self._recover(work, over[:most], every_lease=False)

    def recover_handed_off(self):
        with self._transaction() as work:
            held = work.with_status(JobStatus.HANDED_OFF)
            held.sort(key=lambda row: (row["handed_off_at_ms"], row["id"]))
            return self._recover(work, held, every_lease=True)

    def _recover(self, work, rows, *, every_lease):
        found = []
        for row in rows:
            work.wake = True
            moved = work.move(
                row,
                Trigger.RECOVER,
                {"last_error": texts.interrupted(row["worker_id"])},
                handoff_id=row["handoff_id"],
                every_lease=every_lease,
            )
            if moved["status"] == JobStatus.QUEUED:
                moved = work.adopt(moved, work.policy(moved["queue"]))
            found.append(job_of(moved))
        return found

    def cancel(self, job_id):
        with self._transaction() as work:
            row = work.jobs.get(job_id)
            if row is None:
                return Cancellation(None, CancelOutcome.NOT_FOUND)
            if work.move(row, Trigger.CANCEL):
                work.wake = True
                return Cancellation(job_id, CancelOutcome.CANCELLED)
            if work.move(row, Trigger.REQUEST_CANCEL):
                return Cancellation(job_id, CancelOutcome.REQUESTED)
            return Cancellation(job_id, CancelOutcome.TERMINAL)

    # Look

    def get(self, job_id):
        with self._transaction() as work:
            row = work.jobs.get(job_id)
            return row and job_of(row)

    def list_jobs(self, *, status=None, queue=None, name=None, limit=100, after=None):
        most = checks.integer("limit", limit, least=1, most=10_000)
        if status is not None:
            of_kind(JobStatus, "status", status)
        queue = None if queue is None else checks.queue_name(queue)
        name = None if name is None else checks.text("name", name)
        with self._transaction() as work:
            start = place(work, after)
            rows = sorted(work.jobs.values(), key=oldest)
            found = [
                row
                for row in rows
                if status in (None, row["status"])
                and queue in (None, row["queue"])
                and name in (None, row["name"])
                and (start is None or oldest(row) > start)
            ]
            return [job_of(row) for row in found[:most]]

    def next_available(self, *, queues=None, execution_modes=None):
        wanted = options.queue_names(queues), options.execution_modes(execution_modes)
        with self._transaction() as work:
            free = filter(work.slot_free, candidates(work, *wanted))
            return next(map(job_of, free), None)

    def next_scheduled(self, *, queues=None):
        wanted = options.queue_names(queues)
        with self._transaction() as work:
            later = [
                row
                for row in work.with_status(JobStatus.QUEUED)
                if row["scheduled_at_ms"] > work.now
                and (wanted is None or row["queue"] in wanted)
            ]
            return next(map(job_of, sorted(later, key=soonest)), None)

    def handoffs_for_worker(self, worker_id):
        worker = checks.text("worker_id", worker_id)
        with self._transaction() as work:
            held = work.with_status(JobStatus.HANDED_OFF)
            held.sort(key=lambda row: (row["handed_off_at_ms"], row["id"]))
            return [handoff_of(row) for row in held if row["worker_id"] == worker]

    def counts(self):
        with self._transaction() as work:
            return {status: len(work.with_status(status)) for status in JobStatus}

    # Caps

    def set_concurrency(self, concurrency_key, max_concurrency):
        key = options.explicit_key(concurrency_key)
        cap = options.positive_cap(max_concurrency)
        with self._transaction() as work:
            work.wake, work.caps[key] = True, cap

    def reconcile_queue_policies(self, queues=None, *, release_others=True):
        given = check_queues(queues)
        with self._transaction() as work:
            work.wake = True
            policies = self.queues if given is None else given
            if policies is None:
                policies = {name: work.policy(name) for name in work.queues}
            work.queues = {} if release_others else work.queues
            for name, policy in policies.items():
                work.queues[name] = [policy.max_concurrent, policy.priority]
                if policy.max_concurrent is not None:
                    work.caps[derived_key(name)] = policy.max_concurrent
            for row in work.with_status(JobStatus.QUEUED):
                if release_others or row["queue"] in policies:
                    work.adopt(row, policies.get(row["queue"], NO_POLICY))
            self.queues = self.queues if given is None else given

    def reconcile_active_concurrency(self):
        return Reconciliation(0, 0, 0, (), 0)  # slots are counted, never kept


def of_kind(kind, option, value):
    if not isinstance(value, kind):
        raise InvalidOption(option, value, f"must be of {kind.__name__}")
    return value


def candidates(work, queues, modes):
    """Return what is due, best first (O1)."""
    due = [
        row
        for row in work.with_status(JobStatus.QUEUED)
        if row["scheduled_at_ms"] <= work.now
        and (queues is None or row["queue"] in queues)
        and (modes is None or row["execution_mode"] in modes)
    ]
    return sorted(due, key=lambda row: (-row["priority"], *soonest(row)))


def soonest(row):
    return row["scheduled_at_ms"], row["created_at_ms"], row["id"]


def oldest(row):
    return row["created_at_ms"], row["id"]


def place(work, after):
    """Return where a listing goes on (O2)."""
    if after is None:
        return None
    if isinstance(after, Job):
        return after.created_at_ms, after.id
    if after not in work.jobs:
        raise InvalidOption("after", after, "must be a job or the id of a stored one")
    return oldest(work.jobs[after])
