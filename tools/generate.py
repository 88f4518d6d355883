"""
Write what is made from the table of transitions into the files that show it (M20).

`make generate` after a change to `statemachine/table.py`; `--check` writes nothing,
names each stale file and exits 1. In a Markdown file the text goes between
`<!-- generated: transitions:table -->` and `<!-- /generated -->`; everything else in it
is left alone.
"""

import argparse
import re
import sys

from collections.abc import Callable, Sequence
from pathlib import Path

from tools import awaited

from jobfence.statemachine.diagram import markdown_table, mermaid, tla_module

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "docs/state-machine.md", "spec/README.md")
TLA_MODULE = "spec/TransitionTable.tla"

BLOCKS: dict[str, Callable[[], str]] = {
    "transitions:diagram": lambda: f"```mermaid\n{mermaid()}```\n",
    "transitions:table": markdown_table,
}
_BLOCK = re.compile(
    r"(?P<begin><!-- generated: (?P<name>\S+) -->\n).*?(?P<end><!-- /generated -->)",
    re.DOTALL,
)


def filled(text: str, page: str) -> str:
    """Return a page with the text of each of its blocks made anew; it may have none."""

    def made(block: re.Match[str]) -> str:
        make = BLOCKS.get(block["name"])
        if make is None:
            sys.exit(
                f"{page}: no block is called {block['name']!r}; use one of "
                f"{', '.join(BLOCKS)}"
            )
        # The empty lines are Markdown's: a comment would else swallow the table.
        return f"{block['begin']}\n{make()}\n{block['end']}"

    found, count = _BLOCK.subn(made, text)
    if not count == text.count("<!-- generated: ") == text.count("<!-- /generated -->"):
        sys.exit(f"{page}: each '<!-- generated: NAME -->' needs '<!-- /generated -->'")
    return found


def generated(root: Path) -> dict[Path, str]:
    """Return each file that holds generated text, as it should be."""
    pages = [root / page for page in PAGES if (root / page).exists()]
    files = {
        path: filled(path.read_text(encoding="utf-8"), str(path.relative_to(root)))
        for path in pages
    }
    return {**files, root / TLA_MODULE: tla_module(), **awaited.generated(root)}


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Write or check; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args(arguments).check
    stale = [
        (path, text)
        for path, text in generated(root).items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    for path, text in stale:
        if not check:
            path.write_text(text, encoding="utf-8")
        print(f"{'stale' if check else 'written'}: {path.relative_to(root)}")
    if check and stale:
        print("Run `make generate`.")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
