"""Hand-made journals: a story of what happened, written as a store would note it."""

import dataclasses
import json

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from jobfence.conformance.trace import Entry, Verdict, check
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.table import (
    HANDOFF_COLUMNS,
    TABLE,
    Transition,
    Value,
)

Row = dict[str, Any]
START_MS = 1000

NEW_JOB: Row = {
    **dict.fromkeys(HANDOFF_COLUMNS),
    "id": "j",
    "queue": "default",
    "status": "queued",
    "priority": 0,
    "priority_explicit": False,
    "attempts": 0,
    "max_retries": 10,
    "handoffs": 0,
    "created_at_ms": START_MS,
    "scheduled_at_ms": START_MS,
    "last_handoff_id": None,
    "last_worker_id": None,
    "last_handed_off_at_ms": None,
    "last_ack": None,
    "completed_at_ms": None,
    "failed_at_ms": None,
    "cancelled_at_ms": None,
    "concurrency_key": None,
    "max_concurrency": None,
    "cancel_requested": False,
    "schedule_key": None,
    "schedule_order": None,
}


def row_of(trigger: str, name: str, source: str | None = None) -> Transition:
    """Find a row of the table."""
    (found,) = [
        row
        for row in TABLE
        if (row.trigger, row.name) == (trigger, name) and source in (None, row.source)
    ]
    return found


def after(row: Transition, before: Row, at_ms: int, **given: Any) -> Row:
    """Write what a row of the table writes."""
    values: Row = {
        "last_ack": row.trigger.value,
        "worker_id": "w",
        "last_worker_id": "w",
    }
    values |= {"lease_ms": 100, "lease_expires_at_ms": at_ms + 100}
    values |= {"scheduled_at_ms": at_ms, "last_handoff_id": given.get("handoff_id")}
    values |= given
    plain = {Value.NOW: at_ms, Value.NULL: None, Value.TRUE: True}
    result = {**before, "status": row.dest.value}
    for name, value in row.writes.items():
        if name in before:  # the journal has no long texts
            if value is Value.GIVEN:
                result[name] = values.get(name, before[name])
            elif value is Value.INCREMENT:
                result[name] = before[name] + 1
            else:
                result[name] = plain[value]
    return result


@dataclass
class Story:
    """
    Rows, and the entries that led to them. It is its own tables, for the end.

    Each method is a transaction of its own, unless within `together`.
    """

    at_ms: int = START_MS
    entries: list[Entry] = field(default_factory=list)
    rows: dict[tuple[str, str], Row] = field(default_factory=dict)
    _transactions: int = 0
    _joint: bool = False

    # --- what happens

    def enqueue(self, job_id: str, **columns: Any) -> None:
        row = {**NEW_JOB, "id": job_id, "created_at_ms": self.at_ms, **columns}
        self.note("job", job_id, "enqueue:enqueue", row)

    def claim(self, job_id: str, handoff_id: str, **given: Any) -> None:
        self.move(job_id, "claim", "claim", handoff_id=handoff_id, **given)

    def move(
        self,
        job_id: str,
        trigger: str,
        name: str,
        *,
        by: str | None = None,
        whole: bool = False,
        **given: Any,
    ) -> None:
        """Move a job by a row of the table; `by` is the handoff that is shown."""
        before = self.rows["job", job_id]
        action = f"{trigger}:{name}" + (":whole" if whole else "")
        rows = [row for row in TABLE if (row.trigger, row.name) == (trigger, name)]
        rows.sort(key=lambda row: row.source != before["status"])
        row = after(rows[0], before, self.at_ms, **given)
        self.note("job", job_id, action, row, by=by)

    def counter(self, key: str, action: str, active: int, cap: int = 2) -> None:
        row = {"concurrency_key": key, "max_concurrency": cap, "active_count": active}
        self.note("counter", key, action, row)

    def owner(self, key: str, action: str, job_id: str | None, order: int) -> None:
        row = {"schedule_key": key, "job_id": job_id, "last_order": order}
        self.note("schedule_key", key, action, row)

    def schedule(self, job_id: str, key: str, order: int, action: str = "own") -> None:
        """Make a job the owner of a schedule key."""
        with self.together():
            self.enqueue(job_id, schedule_key=key, schedule_order=order)
            self.owner(key, action, job_id, order)

    def delete(self, entity: str, entity_id: str) -> None:
        self.note(entity, entity_id, "delete", None)

    # --- how it is noted

    @contextmanager
    def together(self) -> Iterator[None]:
        """Let everything within be one transaction."""
        self._transactions += 1
        self._joint = True
        yield
        self._joint = False

    def note(
        self,
        entity: str,
        entity_id: str,
        action: str,
        row: Row | None,
        *,
        by: str | None = None,
    ) -> None:
        """Note a write of a row."""
        if not self._joint:
            self._transactions += 1
        rev, writes = self._rev(entity, entity_id), action.count("+") + 1
        self.entries.append(
            Entry(
                entity=entity,
                entity_id=entity_id,
                rev=rev + writes - 1,
                tx=f"t{self._transactions}",
                action=action,
                at_ms=self.at_ms,
                writes=writes,
                handoff_id=by,
                post=None if row is None else json.dumps(row),
            )
        )
        if row is None:
            del self.rows[entity, entity_id]
        else:
            self.rows[entity, entity_id] = row

    def _rev(self, entity: str, entity_id: str) -> int:
        """Return the next revision of a row."""
        revs = [each.rev for each in self.entries if each.key == (entity, entity_id)]
        first = 1 if entity == "schedule_key" else 0
        return max(revs, default=first - 1) + 1

    def begun(self, *, empty: bool) -> None:
        self.note("journal", "", "begin", {"empty": empty})

    # --- what is made of it afterwards

    def edit(self, index: int, **columns: Any) -> None:
        """Change values of an entry, and of the row if nothing came after it."""
        entry = self.entries[index]
        values = {**json.loads(entry.post or "{}"), **columns}
        self.change(index, post=json.dumps(values))

    def change(self, index: int, **fields: Any) -> None:
        """Change an entry itself."""
        self.entries[index] = dataclasses.replace(self.entries[index], **fields)

    def drop(self, index: int) -> None:
        """Leave an entry out, as if its write had not been noted."""
        del self.entries[index]

    # --- the tables

    def _table(self, entity: str) -> list[Row]:
        return [
            {**row, "rev": self._rev(entity, key) - 1}
            for (kind, key), row in sorted(self.rows.items())
            if kind == entity
        ]

    def jobs(self) -> list[Row]:
        return self._table("job")

    def counters(self) -> list[Row]:
        return self._table("counter")

    def schedule_keys(self) -> list[Row]:
        return self._table("schedule_key")

    def verdict(self, **options: Any) -> Verdict:
        return check(self.entries, self, **options)


def held(story: Story, job_id: str, key: str | None = None) -> None:
    """Enqueue a job and hand it off under `h-` and its id."""
    columns = {} if key is None else {"concurrency_key": key, "max_concurrency": 2}
    with story.together():
        story.enqueue(job_id, **columns)
        if key is not None and ("counter", key) not in story.rows:
            story.counter(key, "create", 0)
    with story.together():
        story.claim(job_id, f"h-{job_id}")
        if key is not None:
            active = story.rows["counter", key]["active_count"]
            story.counter(key, "reserve", active + 1)


def example_before(row: Transition) -> Row:
    """Return a job that a row of the table may move at START_MS + 500."""
    before: Row = {**NEW_JOB, "max_retries": 1}
    if row.source is JobStatus.HANDED_OFF:
        claim = row_of("claim", "claim")
        before = after(claim, before, START_MS + 10, handoff_id="h")
    if "cancel_requested" in row.guards:
        before["cancel_requested"] = True
    if "no_retries_left" in row.guards:
        before["max_retries"] = 0
    if "future" in row.guards:
        before["scheduled_at_ms"] = START_MS + 10_000
    return before


def long_story() -> Story:
    """Jobs on one counter and jobs alone, over and over."""
    story = Story()
    for n in range(6):
        held(story, f"k{n}", "key" if n % 2 else None)
        if n % 2:
            with story.together():
                story.move(f"k{n}", "complete", "complete", by=f"h-k{n}")
                story.counter("key", "release", 0)
        story.at_ms += 1
    story.schedule("s1", "nightly", 1)
    with story.together():
        story.move("s1", "cancel", "cancel")
        story.enqueue("s2", schedule_key="nightly", schedule_order=2)
        story.owner("nightly", "disown+own", "s2", 2)
    return story
