"""The state machine meets everything that it must."""

import os

import pytest

from hypothesis import settings

from jobfence.conformance import Model, run_stateful
from jobfence.conformance.sometimes import SEQUENCES, missing
from jobfence.conformance.stateful.machine import usual_settings


@pytest.mark.skipif(
    os.environ.get("CI") == "true" and os.environ.get("HYPOTHESIS_PROFILE") is None,
    reason="conftest.py asks the same of this run's sequences, which are as long",
)
def test_sequences_meet_all_that_they_must() -> None:
    # Hypothesis also draws the constants of the modules that happen to be loaded: the
    # examples are not the same beside other tests. More of them are, if need be.
    for examples in (150, 300, 600):
        run_stateful(
            Model().open_store,
            settings=settings(
                usual_settings(),
                max_examples=examples,
                stateful_step_count=50,
                derandomize=True,
                database=None,
            ),
        )
        if not missing(SEQUENCES):
            break
    assert missing(SEQUENCES) == []
