"""The journal's rows, and the rows it speaks of as they stand."""

from functools import cache
from typing import Any

from sqlalchemy import Select, Table, bindparam, func, select, update
from sqlalchemy.sql.dml import Update

from jobfence.store.notes import Entity
from jobfence.store.sql.schema import Schema

# Long texts are left out: identity is in the digest, and an error is only text.
_LEFT_OUT = ("args", "kwargs", "last_error")


@cache
def rows_now(table: Table) -> Select[Any]:
    """Return rows as the journal notes them, by id."""
    (key,) = table.primary_key.columns
    return _rows(table).where(key.in_(bindparam("in_ids", expanding=True)))


@cache
def rows_page(table: Table, *, after: bool) -> Select[Any]:
    """Return a page of the rows as the journal notes them, in the order of their ids."""
    (key,) = table.primary_key.columns
    found = _rows(table)
    if after:
        found = found.where(key > bindparam("after_id"))
    return found.order_by(key).limit(bindparam("row_limit"))


def _rows(table: Table) -> Select[Any]:
    (key,) = table.primary_key.columns
    columns = [column for column in table.columns if column.name not in _LEFT_OUT]
    return select(key.label("entity_id"), *columns)


@cache
def last_rev(schema: Schema) -> Select[Any]:
    """Return the last revision noted of an entity."""
    rows = schema.journal.c
    return select(func.max(rows.rev)).where(
        rows.entity == bindparam("entity"), rows.entity_id == bindparam("entity_id")
    )


@cache
def last_owner_revs(schema: Schema) -> Select[Any]:
    """Return the last revision noted of every schedule key."""
    rows = schema.journal.c
    return (
        select(rows.entity_id, func.max(rows.rev).label("last"))
        .where(rows.entity == Entity.SCHEDULE_KEY.value)
        .group_by(rows.entity_id)
    )


@cache
def set_counter_rev(schema: Schema) -> Update:
    """Let a counter that is made again go on from the revisions it had."""
    counters = schema.concurrency
    return (
        update(counters)
        .where(counters.c.concurrency_key == bindparam("at_key"))
        .values(rev=bindparam("set_rev"))
    )


@cache
def beginning(schema: Schema) -> Select[Any]:
    """Return the row that says how the journal began."""
    rows = schema.journal.c
    return select(rows.post).where(rows.entity == Entity.JOURNAL.value)


@cache
def anything(table: Table) -> Select[Any]:
    """Return one row if the table has any."""
    return select(next(iter(table.primary_key.columns))).limit(1)


@cache
def page(schema: Schema, *, after: bool) -> Select[Any]:
    """Return a page of the journal by entity and revision."""
    rows = schema.journal.c
    found = select(schema.journal).order_by(rows.entity, rows.entity_id, rows.rev)
    if after:
        found = found.where(
            (rows.entity > bindparam("after_entity"))
            | (
                (rows.entity == bindparam("after_entity"))
                & (
                    (rows.entity_id > bindparam("after_id"))
                    | (
                        (rows.entity_id == bindparam("after_id"))
                        & (rows.rev > bindparam("after_rev"))
                    )
                )
            )
        )
    return found.limit(bindparam("row_limit"))
