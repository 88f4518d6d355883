"""A Java that prints what it is given, as if TLC had said it."""

from pathlib import Path

from runner.toolchain import Toolchain


def tools_that_say(folder: Path, output: str, code: int) -> Toolchain:
    """Return tools in this folder that print `output` and end with `code`."""
    (folder / "output").write_text(output)
    java = folder / "java"
    java.write_text(f'#!/bin/sh\ncat "{folder}/output"\nexit {code}\n')
    java.chmod(0o755)
    return Toolchain(str(java), folder / "tla2tools.jar")
