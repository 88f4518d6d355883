"""`python -m jobfence.conformance package.module:name [report.html]`."""

import sys

from jobfence.conformance.run import run


def main(arguments: list[str]) -> int:
    """Run the suite on the adapter that is named."""
    if not arguments or arguments[0].startswith("-"):
        print(__doc__, file=sys.stderr)  # noqa: T201
        return 2
    sys.path.insert(0, "")
    adapter, *rest = arguments
    report = rest.pop(0) if rest and not rest[0].startswith("-") else None
    return run(adapter, report, arguments=rest)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
