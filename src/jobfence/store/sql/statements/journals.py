"""The journal's rows."""

from functools import cache
from typing import Any

from sqlalchemy import Insert, Select, bindparam, func, insert, select

from jobfence.store.sql.schema import Schema


@cache
def append(schema: Schema) -> Insert:
    """Add rows."""
    return insert(schema.journal)


@cache
def last_rev(schema: Schema) -> Select[Any]:
    """Return the last revision noted of an entity."""
    rows = schema.journal.c
    return select(func.max(rows.rev)).where(
        rows.entity == bindparam("entity"), rows.entity_id == bindparam("entity_id")
    )


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
