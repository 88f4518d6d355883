"""The state machine meets everything that it must, in examples that are always the same."""

from hypothesis import settings

from jobfence.conformance import Model, run_stateful
from jobfence.conformance.sometimes import SEQUENCES, missing
from jobfence.conformance.stateful.machine import usual_settings


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
