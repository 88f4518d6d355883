"""
Faulty stores, each with the layer of the suite that must find it.

The proof that the suite bites: a layer that is weakened no longer finds its faults, and
the test that runs this catalogue says so. Most were seen in other people's queues.
"""

from jobfence.conformance.faults import (
    acks,
    awaiting,
    caps,
    fences,
    identity,
    lacking,
    leases,
    operations,
    order,
    owning,
    processes,
    races,
    reading,
    schedules,
    sharing,
    values,
    waking,
)
from jobfence.conformance.faults.base import CATALOGUE, Fault, Faulty, FaultySuite

__all__ = ["CATALOGUE", "Fault", "Faulty", "FaultySuite"]

_MODULES = (
    acks,
    awaiting,
    caps,
    fences,
    identity,
    lacking,
    leases,
    operations,
    order,
    owning,
    processes,
    races,
    reading,
    schedules,
    sharing,
    values,
    waking,
)
