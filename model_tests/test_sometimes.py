"""The state machine meets everything that it must, in examples that are always the same."""

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
    run_stateful(
        Model().open_store,
        settings=settings(
            usual_settings(),
            max_examples=150,
            stateful_step_count=50,
            derandomize=True,
            database=None,
        ),
    )
    assert missing(SEQUENCES) == []
