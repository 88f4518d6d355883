"""Layer (e): every order of statements of two clients, within a bound, on the servers."""

import os

from collections.abc import Iterator, Mapping

import pytest

from jobfence.conformance.base import new_namespace
from jobfence.conformance.sql.exploring import explore
from jobfence.conformance.sql.scenarios import SCENARIOS
from jobfence.conformance.sql.scheduler import Scheduler
from jobfence.conformance.sql.worlds import ModelWorld, Scenario
from jobfence.store.dialects.engines import make_engine
from model_tests.sql_suite import commit_without_waiting
from model_tests.worlds import SqlWorld

DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"
# So many schedules of a scenario at most in a run that has to end soon: on PostgreSQL
# all of them while nobody dies. A lock wait costs a tenth of a second on MariaDB.
MOST = {("postgresql", False): None, ("postgresql", True): 24, ("mariadb", False): 8}


@pytest.fixture(scope="module", params=["postgresql", "mariadb"])
def world(
    request: pytest.FixtureRequest, database_urls: Mapping[str, str]
) -> Iterator[SqlWorld]:
    if request.param not in database_urls:
        pytest.skip(f"{request.param} does not answer")
    engine = make_engine(database_urls[request.param])
    commit_without_waiting(engine)
    found = SqlWorld(engine, new_namespace())
    yield found
    found.close()
    engine.dispose()


@pytest.mark.parametrize("deaths", [False, True], ids=["all live", "one dies"])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_every_interleaving_is_some_order_of_whole_calls(
    world: SqlWorld,
    scenario: Scenario,
    deaths: bool,  # noqa: FBT001  a value of the test
) -> None:
    if deaths and not scenario.whole:
        pytest.skip("several transactions: what a death leaves is finished later")
    place = world.engine.dialect.name, deaths
    if not DEEP and place not in MOST:
        pytest.skip("in the deep run")
    scheduler = Scheduler(world.engine)
    with scheduler.attached() as monitor:
        runs, wrong = explore(
            scenario,
            world,
            ModelWorld(),
            scheduler,
            monitor,
            deaths=deaths,
            most=None if DEEP else MOST[place],
        )
    assert wrong is None, str(wrong)
    assert runs > 1
