"""Which small changes of a statement there are, and how each is known again."""

import pytest

from sqlalchemy import create_engine, text

from jobfence.conformance.sql.mutants import (
    changed,
    family_of,
    mutants_of,
    shape_of,
)
from jobfence.conformance.sql.swapping import RanAway, Swapper

MOVE = (
    "UPDATE c12ab341_jobs SET status=%(status)s::VARCHAR, rev=(c12ab341_jobs.rev + "
    "%(rev_1)s::INTEGER) \nWHERE c12ab341_jobs.id = %(at_id)s::VARCHAR AND "
    "c12ab341_jobs.lease <= %(at_now)s::BIGINT"
)


def changes(statement: str) -> dict[str, str]:
    return {each.change: each.mutated for each in mutants_of(statement)}


def test_a_shape_is_the_same_on_every_namespace_and_driver() -> None:
    shape = (
        "UPDATE jobs SET status=?, rev=(jobs.rev + ?) WHERE jobs.id = ? AND "
        "jobs.lease <= ?"
    )
    assert shape_of(MOVE) == shape
    assert shape_of(MOVE.replace("c12ab341_", "cffffff27_")) == shape
    named = "SELECT a FROM jobs WHERE jobs.id IN (:in_1, :in_2) LIMIT :n"
    assert shape_of(named) == "SELECT a FROM jobs WHERE jobs.id IN (?) LIMIT ?"


def test_a_select_with_filters_is_one_family_also_where_it_looks_before_it_locks() -> (
    None
):
    def looking(conditions: str) -> str:
        return (
            f"SELECT jobs.id FROM (SELECT jobs.id AS id FROM jobs WHERE {conditions} "  # noqa: S608
            "ORDER BY jobs.id LIMIT :n) AS best INNER JOIN jobs ON jobs.id = best.id "
            "WHERE jobs.status = 'queued' LIMIT :m FOR UPDATE SKIP LOCKED"
        )

    family = (
        "SELECT jobs.id FROM (SELECT jobs.id AS id FROM jobs ORDER BY jobs.id LIMIT ?) "
        "AS best INNER JOIN jobs ON jobs.id = best.id LIMIT ? FOR UPDATE SKIP LOCKED"
    )
    nested = "a = :a AND NOT (EXISTS (SELECT * FROM k WHERE k.x = jobs.x))"
    assert family_of(looking("a = :a")) == family_of(looking(nested)) == family
    held = "SELECT (SELECT count(*) FROM jobs WHERE a = :a) AS held FROM k WHERE b = :b"
    assert family_of(held) == (
        "SELECT (SELECT count(*) FROM jobs WHERE a = ?) AS held FROM k"
    )


def test_an_update_loses_each_value_condition_and_border() -> None:
    found = changes(MOVE)
    assert list(found) == [
        "no SET status=?",
        "no SET rev=(jobs.rev + ?)",
        "no AND jobs.id = ?",
        "no AND jobs.lease <= ?",
        "<= as jobs.lease <",
        "does nothing",
    ]
    assert "SET rev=(" in found["no SET status=?"]
    assert "WHERE 1 = 1 AND c12ab341_jobs.lease" in found["no AND jobs.id = ?"]
    assert found["does nothing"].endswith("WHERE 1 = 0")


def test_alternatives_and_nested_conditions_are_left_out_one_by_one() -> None:
    found = changes(
        "SELECT a FROM jobs WHERE a > :a OR a = :b AND NOT (EXISTS (SELECT * FROM k "
        "WHERE k.x = jobs.x AND k.y IS NOT DISTINCT FROM :c))"
    )
    assert "no OR a > ?" in found
    assert "no OR a = ? AND NOT" in " ".join(found)
    assert found["no AND a = ?"].startswith("SELECT a FROM jobs WHERE a > :a OR 1 = 1")
    assert found["no AND k.x = jobs.x"].endswith(
        "WHERE 1 = 1 AND k.y IS NOT DISTINCT FROM :c))"
    )
    assert "no AND k.y IS NOT DISTINCT FROM ?" in found


def test_an_order_a_limit_and_a_lock_are_changed() -> None:
    found = changes(
        "SELECT a FROM jobs ORDER BY jobs.p DESC, jobs.t LIMIT :n "
        "FOR UPDATE SKIP LOCKED"
    )
    assert found["no ORDER BY jobs.p DESC"].startswith(
        "SELECT a FROM jobs ORDER BY jobs.t LIMIT"
    )
    assert "ORDER BY jobs.p, jobs.t" in found["turned ORDER BY jobs.p DESC"]
    assert "LIMIT 1000000 FOR UPDATE" in found["no LIMIT"]
    assert found["no FOR UPDATE SKIP LOCKED"].endswith("LIMIT :n")
    assert found["waits where it should skip"].endswith("LIMIT :n FOR UPDATE")


def test_a_term_is_left_out_where_it_is_compared() -> None:
    found = changes("UPDATE k SET a=(k.a + :n) WHERE k.a + :n <= k.cap")
    assert found["no + ? after k.a"].endswith("WHERE k.a <= k.cap")


def test_an_insert_and_a_named_lock_do_nothing() -> None:
    found = changes("INSERT INTO jobs (id, b) VALUES (:id, :b) ON CONFLICT DO NOTHING")
    assert found["no ON CONFLICT"] == "INSERT INTO jobs (id, b) VALUES (:id, :b)"
    assert found["does nothing"] == "UPDATE jobs SET id=id WHERE 1 = 0"
    (lock,) = mutants_of("SELECT pg_advisory_xact_lock(%(key)s)")
    assert lock.mutated == "SELECT 1"


def test_two_changes_of_one_statement_are_made_together() -> None:
    shape = shape_of(MOVE)
    both = ((shape, "no AND jobs.id = ?"), (shape, "no AND jobs.lease <= ?"))
    assert changed(MOVE, both).endswith("WHERE 1 = 1 AND 1 = 1")
    assert changed("SELECT 1", both) == "SELECT 1"


def test_an_engine_runs_the_mutant_and_then_the_statement_again() -> None:
    engine = create_engine("sqlite://")
    swapper, statement = Swapper(engine), text("SELECT 7 WHERE 1 > 2")
    (whole, *_) = mutants_of("SELECT 7 WHERE 1 > 2")
    with engine.connect() as connection:
        with swapper.noting() as seen:
            assert connection.execute(statement).all() == []
            assert list(seen) == ["SELECT 7 WHERE 1 > 2"]
        with swapper.mutated([(whole.family, whole.change)]):
            assert connection.execute(statement).all() == [(7,)]
        assert connection.execute(statement).all() == []
        swapper.allow(-1)
        with pytest.raises(RanAway):
            connection.execute(statement)
    engine.dispose()


def test_both_of_what_is_there_twice_can_be_left_out() -> None:
    twice = "SELECT a FROM (SELECT a FROM jobs WHERE a = :a) AS b WHERE a = :a"
    family = family_of(twice)
    edits = ((family, "no AND a = ?"), (family, "no AND a = ? #2"))
    assert changed(twice, edits) == (
        "SELECT a FROM (SELECT a FROM jobs WHERE 1 = 1) AS b WHERE 1 = 1"
    )
