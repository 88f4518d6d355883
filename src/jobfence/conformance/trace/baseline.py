"""What was there before a journal began: read off the first entries, and the tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jobfence.conformance.trace.entries import BadEntry, Entry, Values
from jobfence.conformance.trace.facts import Facts, key_of
from jobfence.conformance.trace.jobs import likely_source
from jobfence.conformance.trace.replay import PARTIAL
from jobfence.conformance.trace.tables import Tables, rows_of
from jobfence.statemachine.states import JobStatus
from jobfence.store.notes import Action, Entity


@dataclass(frozen=True, slots=True)
class Beginning:
    """
    How a journal began.

    `empty` says whether the tables were. Without a note of it (`at_ms` None) they are
    taken to have been.
    """

    empty: bool = True
    at_ms: int | None = None


def beginning(entries: Sequence[Entry]) -> Beginning:
    """Find the entry that says how the journal began."""
    for entry in entries:
        if entry.entity == Entity.JOURNAL and entry.action == Action.BEGIN:
            try:
                empty = entry.values().get("empty") is True
            except BadEntry:
                empty = False
            return Beginning(empty, entry.at_ms)
    return Beginning()


def earlier_rows(
    entries: Sequence[Entry], tables: Tables | None, begun: Beginning
) -> tuple[Facts, int]:
    """
    Return what is known of the rows that were there, and how many they were.

    A row that no entry speaks of is as it was. Of one that some speak of, the first
    says what status it left; what else it was is not known.
    """
    facts = Facts()
    firsts = _first_entries(entries)
    for first in firsts.values():
        if first.entity == Entity.JOB and first.rev >= first.writes:
            partial = _before(first)
            if partial is not None:
                facts.put_job(first.entity_id, None, partial)
    if tables is not None:
        _add_untouched(facts, firsts, tables, begun)
    older = sum(first.rev >= first.writes for first in firsts.values())
    untouched = sum(
        (entity.value, row_id) not in firsts
        for entity, rows in (
            (Entity.JOB, facts.jobs),
            (Entity.COUNTER, facts.counters),
            (Entity.SCHEDULE_KEY, facts.schedule_keys),
        )
        for row_id in rows
    )
    return facts, older + untouched


def _first_entries(entries: Sequence[Entry]) -> Mapping[tuple[str, str], Entry]:
    firsts: dict[tuple[str, str], Entry] = {}
    for entry in entries:
        first = firsts.get(entry.key)
        if entry.entity != Entity.JOURNAL and (first is None or entry.rev < first.rev):
            firsts[entry.key] = entry
    return firsts


def _before(first: Entry) -> Values | None:
    """Return what a job must have been for its first entry to be possible."""
    source = likely_source(first)
    if source is None:
        return None
    try:
        after = first.values()
    except BadEntry:
        return None
    # Only queued jobs change their key: one that is handed off has it still.
    key = key_of(after) if source is JobStatus.HANDED_OFF else None
    return {PARTIAL: True, "status": source.value, "concurrency_key": key}


def _add_untouched(
    facts: Facts,
    firsts: Mapping[tuple[str, str], Entry],
    tables: Tables,
    begun: Beginning,
) -> None:
    for job_id, job in rows_of(tables, Entity.JOB):
        created = job["created_at_ms"]
        younger = (
            begun.at_ms is not None
            and isinstance(created, int)
            and created > begun.at_ms
        )
        if (Entity.JOB.value, job_id) not in firsts and not younger:
            facts.put_job(job_id, None, job)
            facts.handoff_ids.add(job["last_handoff_id"])
    for entity, known in (
        (Entity.COUNTER, facts.counters),
        (Entity.SCHEDULE_KEY, facts.schedule_keys),
    ):
        for row_id, row in rows_of(tables, entity):
            if (entity.value, row_id) not in firsts:
                known[row_id] = row
