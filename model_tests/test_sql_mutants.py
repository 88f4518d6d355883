"""No small change of the store's SQL goes unnoticed, but for those with a reason."""

import logging
import re
import time

from collections.abc import Iterator, Mapping

import pytest

from model_tests.mutants.gate import (
    accepted,
    entry_for,
    judged,
    key_of,
    plan_of,
    problems,
)
from model_tests.mutants.killers import Place
from model_tests.mutants.results import keep
from model_tests.mutants.sweep import Sweep

# What a job's life hangs on: claims, acknowledgements, recoveries and counters.
VITAL = re.compile(
    r"^UPDATE (jobs SET status=|concurrency\b)|^INSERT INTO concurrency"
    r"|^SELECT .* FROM (jobs|concurrency)\b.* FOR UPDATE"
    r"|^SELECT jobs\.id FROM jobs ORDER BY jobs\.(lease_expires|handed_off)_at_ms"
    r"|^SELECT .*\bheld FROM jobs|^SELECT concurrency\.concurrency_key, .* FROM concurr"
)
VITAL_PARTS = (
    "Claiming",
    "Acknowledging",
    "Recovering",
    "Caps",
    "Mending",
    "Ordering",
)


@pytest.fixture
def place(
    request: pytest.FixtureRequest, database_urls: Mapping[str, str]
) -> Iterator[Place]:
    name = request.param
    if name not in database_urls:
        pytest.skip(f"{name} does not answer")
    # A mutant makes the store complain, some thousand times.
    logging.disable(logging.CRITICAL)
    found = Place(name, database_urls[name])
    try:
        yield found
    finally:
        found.close()
        logging.disable(logging.NOTSET)


@pytest.mark.parametrize("place", ["postgresql"], indirect=True)
def test_the_last_sweeps_killers_still_find_every_vital_mutant(place: Place) -> None:
    sweep, plan, entries = Sweep(place), plan_of(place.database), accepted()
    sweep.record(*VITAL_PARTS)
    tried, survived = 0, []
    for mutant in sweep.mutants():
        if not VITAL.search(mutant.family) or entry_for(entries, mutant, "postgresql"):
            continue
        tried += 1
        if sweep.attempt_by(plan.get(key_of(mutant)), mutant).by is None:
            survived.append(str(mutant))
    assert not survived, "\n".join(survived)
    assert tried > 150


@pytest.mark.deep
@pytest.mark.parametrize("place", ["sqlite", "postgresql", "mariadb"], indirect=True)
def test_no_mutant_of_any_statement_survives_without_a_reason(place: Place) -> None:
    begin, sweep, entries = time.monotonic(), Sweep(place), accepted()
    sweep.record()
    found, pairs = judged(sweep, entries)
    keep(
        place,
        statements=sum(map(len, sweep.statements.values())),
        found=found,
        pairs=pairs,
        entries=entries,
        seconds=time.monotonic() - begin,
    )
    wrong = list(problems(found, entries, place.database))
    wrong += [
        f"survived, though left out twice: {each.mutant}"
        for _, each in pairs
        if each.by is None
    ]
    assert not wrong, "\n".join(wrong)
