"""Layer (d): every operation in every small state, on every store."""

import os

from collections.abc import Iterator, Mapping

import pytest

from jobfence.conformance import Model
from jobfence.conformance.base import new_namespace
from jobfence.conformance.faults import CATALOGUE, FaultySuite
from jobfence.conformance.stateful.comparing import Divergence
from jobfence.conformance.stateful.pair import Setting
from jobfence.conformance.steps import walk_every_edge
from jobfence.store import SqlJobStore
from jobfence.store.dialects.engines import make_engine
from jobfence.store.sql.schema import schema_for
from model_tests.sql_suite import SqlBackdoor

DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"
# So many steps in a run that has to end soon.
STEPS = {"memory": 3000, "sqlite": 1500, "postgresql": 400, "mariadb": 200}


@pytest.fixture(params=STEPS)
def place(
    request: pytest.FixtureRequest, database_urls: Mapping[str, str]
) -> Iterator[tuple[Setting, int | None]]:
    name, space = str(request.param), new_namespace()
    most = None if DEEP else STEPS[name]
    if name == "memory":
        model = Model()
        yield (
            Setting(model.open_store, space, backdoor=model.open_backdoor(space)),
            most,
        )
        return
    if name not in database_urls:
        pytest.skip(f"{name} does not answer")
    engine = make_engine(database_urls[name])
    tables = schema_for(f"{space}_", None)

    def open_store(namespace: str, **settings: object) -> SqlJobStore:
        given: dict[str, object] = {"table_prefix": f"{namespace}_", **settings}
        return SqlJobStore(engine, **given)  # type: ignore[arg-type]

    yield Setting(open_store, space, backdoor=SqlBackdoor(engine, tables)), most
    with engine.begin() as connection:
        tables.metadata.drop_all(connection)
    engine.dispose()


def test_every_operation_does_in_every_state_what_the_model_does(
    place: tuple[Setting, int | None],
) -> None:
    setting, most = place
    coverage = walk_every_edge(setting, most_steps=most)
    assert coverage.states > (most or STEPS["memory"]) / 20


@pytest.mark.parametrize(
    "name",
    [
        "CompleteUnfenced",
        "CancelledRetried",
        "SlotNotFreedByCompletion",
        "HandoffIdLeft",
    ],
)
def test_a_fault_is_found_by_single_steps(name: str) -> None:
    (fault,) = [each for each in CATALOGUE if each.name == name]
    suite = FaultySuite(fault.store)
    setting = Setting(suite.open_store, "n", backdoor=suite.open_backdoor("n"))
    with pytest.raises(Divergence):
        walk_every_edge(setting, most_steps=STEPS["memory"])
