"""
Check the formal model: every model must hold, every planted fault must be found.

`make spec` installs what is needed; from then on `.venv/bin/python spec/run.py` takes:

    (none)              the quick tier (under a minute)
    --alone             the same, each run in a JVM of its own
    --deep [NAME ...]   large bounds; each result goes to spec/results/
    --only NAME         one model or negative, with TLC's own output
    --trace NAME        the counterexample of a negative, condensed
    --counterexamples   all of them, into spec/counterexamples.md
    --checks            who checks and breaks what, into spec/checks.toml
    --guards            leave out each guard of the table: who notices?
    --fences            leave out each fence of the table: who notices?
    --conjuncts         leave out each part of each property: who notices?
    --equality          the store in memory has the graph that TLC finds
    --induction         the rows keep the invariants, without bounds (z3)

Exit code 0: all as expected; 1: something differs; 2: wrong usage, or a Python that
lacks what is needed. Without Java nothing is checked: that fails where CI=true, else it
is said and passes.
"""

import sys

from runner.needs import lacking


def main() -> int:
    """Run what the command line asks for, if this Python can, and return the code."""
    complaint = lacking(sys.argv[1:])
    if complaint:
        print(complaint, file=sys.stderr)
        return 2
    from runner.commands import main as run  # noqa: PLC0415  it needs what was asked

    return run()


if __name__ == "__main__":
    sys.exit(main())
