"""Faults put into our own statements while they run are found by the interleavings."""

from collections.abc import Iterator, Mapping

import pytest

from sqlalchemy.exc import IntegrityError

from jobfence.conformance.base import new_namespace
from jobfence.conformance.sql.exploring import explore
from jobfence.conformance.sql.faults import SQL_FAULTS, SqlFault, edited
from jobfence.conformance.sql.scenarios import SCENARIOS
from jobfence.conformance.sql.scheduler import Scheduler
from jobfence.conformance.sql.worlds import ModelWorld
from jobfence.store.dialects.engines import make_engine
from model_tests.worlds import SqlWorld


@pytest.fixture(scope="module")
def world(database_urls: Mapping[str, str]) -> Iterator[SqlWorld]:
    if "postgresql" not in database_urls:
        pytest.skip("postgresql does not answer")
    engine = make_engine(database_urls["postgresql"])
    found = SqlWorld(engine, new_namespace())
    yield found
    found.close()
    engine.dispose()


@pytest.mark.parametrize("fault", SQL_FAULTS, ids=lambda fault: fault.name)
def test_the_interleavings_find_the_fault(world: SqlWorld, fault: SqlFault) -> None:
    (scenario,) = [each for each in SCENARIOS if each.name == fault.scenario]
    scheduler = Scheduler(world.engine)
    wrong: object = None
    with edited(world.engine, fault) as met, scheduler.attached() as monitor:
        try:
            _, wrong = explore(scenario, world, ModelWorld(), scheduler, monitor)
        except (AssertionError, IntegrityError) as problem:
            wrong = problem  # the store itself, or a CHECK, saw what cannot be
    assert wrong is not None
    assert met == {pattern for pattern, _ in fault.edits}, "an edit met no statement"
