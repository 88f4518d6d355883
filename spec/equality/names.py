"""
The names of answers that change nothing: of which handoff, and to which kind repeated.

TLC labels an edge with the name of a definition, never with its arguments, and nothing
in the state that such an edge leads to says whose answer it was. So each answer has a
definition of its own in `AnswerNames.tla`, which this writes:

    cd spec && python -m equality.names
"""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

from runner.catalogue import SPEC

from jobfence.statemachine.table import Trigger
from jobfence.statemachine.values import AckResult

MODULE: Final = SPEC / "AnswerNames.tla"
# No slice with the feature `answers` has more jobs, or a bound above these numbers.
JOBS: Final = (1, 2, 3)
NUMBERS: Final = (0, 1, 2, 3)
KINDS: Final = (
    Trigger.COMPLETE,
    Trigger.FAIL,
    Trigger.RESCHEDULE,
    Trigger.RETURN_TO_QUEUE,
)
_HEAD: Final = """\
----------------------------- MODULE AnswerNames ------------------------------
(***************************************************************************)
(* Written by equality/names.py, for TLC names an edge after a definition, *)
(* without its arguments. Each answer that changes nothing has a name:     *)
(* job, handoff, and the kind to which it is repeated. A configuration has *)
(* them by `Refused <- NamedAnswers`.                                      *)
(***************************************************************************)
EXTENDS JobQueue

Asked(j, n) == j \\in Ids /\\ n \\in Numbers
"""


def name_of(
    job: int, number: int, heard: Mapping[Trigger, Collection[AckResult]]
) -> str | None:
    """
    Return the name of all that this handoff heard, None if all was accepted.

    What the spec knows no name for gets one as well, with everything that is odd in it.
    """
    results = {result for each in heard.values() for result in each}
    if results <= {AckResult.ACCEPTED}:
        return None
    word = "AckRepeated" if AckResult.REPEATED in results else "AckStale"
    parts = [word, str(job), str(number)]
    for kind, each in sorted(heard.items()):
        found = sorted({*each} - {AckResult.STALE})
        if found:
            parts.append(kind.value)
        if found and {*each} != {AckResult.REPEATED}:
            parts += sorted({*each})
    return "_".join(parts)


def module() -> str:
    """Return `AnswerNames.tla`."""
    named = dict(_definitions())
    lines = [f"{name} == {body}" for name, body in named.items()]
    choices = [f"  \\/ {name}" for name in named]
    return "\n".join([_HEAD, *lines, "", "NamedAnswers ==", *choices, "=" * 79, ""])


def _definitions() -> Iterator[tuple[str, str]]:
    for job in JOBS:
        for number in NUMBERS:
            asked = f"Asked({job}, {number}) /\\"
            yield f"AckStale_{job}_{number}", f"{asked} AckStale({job}, {number})"
            for kind in KINDS:
                yield (
                    f"AckRepeated_{job}_{number}_{kind.value}",
                    f'{asked} AckRepeated({job}, {number}, "{kind.value}")',
                )


def write(path: Path = MODULE) -> None:
    """Write the module anew."""
    path.write_text(module())


if __name__ == "__main__":
    write()
