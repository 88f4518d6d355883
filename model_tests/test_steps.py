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
from model_tests.sql_suite import SqlBackdoor, commit_without_waiting

DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"
# So many steps with three jobs, in a run that has to end soon and in one that has not.
STEPS = {"memory": 1500, "sqlite": 1500, "postgresql": 400, "mariadb": 200}
DEEP_STEPS = {
    "memory": 60_000,
    "sqlite": 40_000,
    "postgresql": 15_000,
    "mariadb": 10_000,
}
# One job alone: these are all there are.
STATES, EDGES = 151, 3612


@pytest.fixture(params=STEPS)
def place(
    request: pytest.FixtureRequest, database_urls: Mapping[str, str]
) -> Iterator[tuple[Setting, str]]:
    name, space = str(request.param), new_namespace()
    if name == "memory":
        model = Model()
        door = model.open_backdoor(space)
        yield Setting(model.open_store, space, backdoor=door), name
        return
    if name not in database_urls:
        pytest.skip(f"{name} does not answer")
    engine = make_engine(database_urls[name])
    commit_without_waiting(engine)
    tables = schema_for(f"{space}_", None)

    def open_store(namespace: str, **settings: object) -> SqlJobStore:
        given: dict[str, object] = {"table_prefix": f"{namespace}_", **settings}
        return SqlJobStore(engine, **given)  # type: ignore[arg-type]

    yield Setting(open_store, space, backdoor=SqlBackdoor(engine, tables)), name
    with engine.begin() as connection:
        tables.metadata.drop_all(connection)
    engine.dispose()


def test_every_operation_does_in_every_state_of_one_job_what_the_model_does(
    place: tuple[Setting, str],
) -> None:
    """All of it on SQLite; on the servers, and on the model itself, in the deep run."""
    setting, name = place
    whole = DEEP or name == "sqlite"
    coverage = walk_every_edge(
        setting, most_jobs=1, most_steps=None if whole else STEPS[name]
    )
    if whole:
        assert (coverage.states, coverage.edges) == (STATES, EDGES)
    assert coverage.states > STEPS[name] / 20


def test_operations_do_in_states_of_three_jobs_what_the_model_does(
    place: tuple[Setting, str],
) -> None:
    setting, name = place
    most = (DEEP_STEPS if DEEP else STEPS)[name]
    coverage = walk_every_edge(setting, most_steps=most)
    assert coverage.states > (STEPS["memory"] if DEEP else most) / 20


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
