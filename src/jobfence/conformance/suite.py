"""The suite: all layers that need nothing but the contract."""

from jobfence.conformance.examples.acknowledging import Acknowledging
from jobfence.conformance.examples.awaiting import Awaiting
from jobfence.conformance.examples.caps import Caps
from jobfence.conformance.examples.claiming import Claiming
from jobfence.conformance.examples.edges import Edges
from jobfence.conformance.examples.enqueueing import Enqueueing
from jobfence.conformance.examples.identity import Identity
from jobfence.conformance.examples.joining import Joining
from jobfence.conformance.examples.lacking import Lacking
from jobfence.conformance.examples.mending import Mending
from jobfence.conformance.examples.operating import Operating
from jobfence.conformance.examples.ordering import Ordering
from jobfence.conformance.examples.owning import Owning
from jobfence.conformance.examples.policies import Policies
from jobfence.conformance.examples.racing import Racing
from jobfence.conformance.examples.reading import Reading
from jobfence.conformance.examples.recovering import Recovering
from jobfence.conformance.examples.refusing import Refusing
from jobfence.conformance.examples.retrying import Retrying
from jobfence.conformance.examples.schedules import Schedules
from jobfence.conformance.examples.settling import Settling
from jobfence.conformance.examples.sharing import Sharing
from jobfence.conformance.examples.waking import Waking
from jobfence.conformance.matrix import Matrix
from jobfence.conformance.processes import Processes
from jobfence.conformance.stateful.machine import Stateful


# pytest begins with the tests of the last.
class JobStoreSuite(
    Stateful,
    Processes,
    Racing,
    Awaiting,
    Sharing,
    Reading,
    Waking,
    Owning,
    Lacking,
    Joining,
    Settling,
    Operating,
    Ordering,
    Schedules,
    Mending,
    Policies,
    Caps,
    Retrying,
    Recovering,
    Edges,
    Refusing,
    Acknowledging,
    Claiming,
    Identity,
    Enqueueing,
    Matrix,
):
    """Subclass this, write `open_store`, and run pytest."""
