"""S2: a name that jobfence needs, and that something else has."""

import pytest

from jobfence.statemachine.errors import IncompatibleSchema
from tests.store.sql.bench import World

# What is made, and how it is dropped; what is made on the table `theirs` goes with it.
TAKEN = {
    "a view": ("VIEW {p}jobs AS SELECT 1 AS id", "VIEW {p}jobs"),
    "a view like the ledger": (
        "VIEW {p}migrations AS SELECT 1 AS n",
        "VIEW {p}migrations",
    ),
    "a table like the ledger": (
        "TABLE {p}migrations (n INTEGER)",
        "TABLE {p}migrations",
    ),
    "an index": ("INDEX {p}jobs_due ON {p}theirs (n)", None),
}


@pytest.mark.parametrize("what", TAKEN)
def test_S2_a_name_that_something_else_has_is_said_and_nothing_is_made(
    bare: World, what: str
) -> None:
    if what == "an index" and bare.name == "mariadb":
        pytest.skip("an index has its name in its table only")
    made, dropped = TAKEN[what]
    bare.sql("CREATE TABLE {p}theirs (n INTEGER)")
    bare.sql(f"CREATE {made}")
    before = names_there(bare)
    try:
        with pytest.raises(IncompatibleSchema) as refusal:
            bare.store().ensure_ready()
        assert bare.prefix in str(refusal.value)
        assert "another table_prefix" in str(refusal.value)
        # A ledger is made last; without DDL in transactions the others stay.
        if bare.name != "mariadb" or "jobs" in made:
            assert names_there(bare) == before
    finally:
        if dropped is not None:
            bare.sql(f"DROP {dropped}")
        bare.sql("DROP TABLE {p}theirs")


def names_there(world: World) -> set[str]:
    look = world.database.inspect()
    names = {*look.get_table_names(), *look.get_view_names()}
    return {name for name in names if name.startswith(world.prefix)}
