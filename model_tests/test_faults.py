"""Every fault of the catalogue is found, by the layer that is named."""

from pathlib import Path

import pytest

from hypothesis import settings

from jobfence.conformance.faults import CATALOGUE, Fault, FaultySuite
from jobfence.conformance.faults.base import Faulty
from jobfence.conformance.faults.page import page
from jobfence.conformance.faults.processes import OnFile
from jobfence.conformance.layers import EXAMPLES, MATRIX, PROCESSES, first_failure
from jobfence.conformance.stateful.comparing import Divergence
from jobfence.conformance.stateful.machine import run_stateful, usual_settings

# Always the same examples: a fault that is found today is found tomorrow.
AT_LENGTH = settings(
    usual_settings(),
    max_examples=500,
    stateful_step_count=50,
    derandomize=True,
    database=None,
)
PARTS = {"matrix": MATRIX, "examples": EXAMPLES, "processes": PROCESSES}


# Found by other layers too: they prove that the state machine bites.
FOUND_BY_SEQUENCES = (
    "CompleteUnfenced",
    "HandoffIdLeft",
    "RetryAtOnce",
    "CapPlusOne",
    "KeyLostAtRetry",
    "SuccessorDisowned",
    "PriorityIgnored",
    "LeaseFromItsEnd",
)


@pytest.mark.parametrize("fault", CATALOGUE, ids=lambda fault: fault.name)
def test_the_named_layer_finds_the_fault(fault: Fault) -> None:
    suite = FaultySuite(fault.store)
    if fault.layer == "stateful":
        with pytest.raises(Divergence):
            run_stateful(
                suite.open_store,
                backdoor=suite.open_backdoor("n"),
                namespace="n",
                settings=AT_LENGTH,
                shortening_s=0,
            )
    else:
        assert first_failure(suite, PARTS[fault.layer]) is not None


@pytest.mark.parametrize("name", FOUND_BY_SEQUENCES)
def test_the_state_machine_finds_the_fault_too(name: str) -> None:
    (fault,) = [each for each in CATALOGUE if each.name == name]
    suite = FaultySuite(fault.store)
    with pytest.raises(Divergence):
        run_stateful(
            suite.open_store,
            backdoor=suite.open_backdoor("n"),
            namespace="n",
            settings=AT_LENGTH,
            shortening_s=0,
        )


def test_the_layers_find_nothing_in_a_store_without_fault() -> None:
    assert first_failure(FaultySuite(Faulty), MATRIX + EXAMPLES) is None
    assert first_failure(FaultySuite(OnFile), PROCESSES) is None


def test_there_are_enough_faults_and_no_two_alike() -> None:
    assert len(CATALOGUE) >= 60
    assert len({fault.name for fault in CATALOGUE}) == len(CATALOGUE)


def test_the_page_of_faults_is_as_the_catalogue() -> None:
    written = Path(__file__).parent.parent / "docs" / "conformance-faults.md"
    assert written.read_text() == page(CATALOGUE), (
        "run: python -m jobfence.conformance.faults > docs/conformance-faults.md"
    )
