"""The catalogue as a page of the documentation."""

from collections.abc import Iterator

from jobfence.conformance.faults.base import Fault

_HEAD = """# Faulty stores

<!-- Written by `python -m jobfence.conformance.faults`; a test says when it is stale. -->

A suite is worth the faults that it finds. Each store below has one fault, most of them
seen in other people's queues; a test asserts that the layer named here finds it. The
stores are in `jobfence.conformance.faults`, for you to run the suite on.

| store | rule | found by | what is wrong |
|---|---|---|---|
"""


def page(catalogue: list[Fault]) -> str:
    """Return the page as Markdown."""
    return _HEAD + "".join(_lines(catalogue))


def _lines(catalogue: list[Fault]) -> Iterator[str]:
    for each in sorted(catalogue, key=lambda fault: (fault.rule, fault.name)):
        yield f"| `{each.name}` | {each.rule} | {each.layer} | {each.says} |\n"
