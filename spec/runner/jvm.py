"""
One JVM for many runs of TLC: a new one spends a second on what it reads and compiles.

TLC was not made for that: it keeps names from one run to the next. Runs of one root
module do not mind, liveness and other modules do (wrong errors, seen with TLC 2.15). So
a JVM takes the runs of one root module only, and what it answers is believed only if
it is what was expected, states and all: see `runner.check`.
"""

import importlib
import multiprocessing
import os
import sys
import tempfile
import time

from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Final, Self

from runner import tlc
from runner.toolchain import Toolchain

_LIBRARIES: Final = ("libjvm.so", "libjvm.dylib", "jvm.dll")


class Jvm:
    """
    A process with a JVM in it, started by the first run and again when it died.

    `start_s`: how long it may take to start, beside the run's own time.
    """

    def __init__(self, tools: Toolchain, *, start_s: float = 30.0) -> None:
        self._tools, self._start_s = tools, start_s
        self._process: multiprocessing.process.BaseProcess | None = None
        self._ours: Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def run(self, run: tlc.Run) -> tlc.Outcome | None:
        """Return what TLC found; None if the JVM could not say, or took too long."""
        if self._process is None or self._ours is None:
            self._ours = self._start()
        try:
            self._ours.send(run)
            if self._ours.poll(run.timeout_s + self._start_s):
                answer = self._ours.recv()
                return answer if isinstance(answer, tlc.Outcome) else None
        except (OSError, EOFError):
            pass  # it died
        self.close()
        return None

    def _start(self) -> Connection:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        arguments = (theirs, self._tools)
        self._process = context.Process(target=serve, args=arguments, daemon=True)
        self._process.start()
        theirs.close()  # else its death is not seen here
        return ours

    def close(self) -> None:
        """End the process, whatever it does."""
        if self._process is not None and self._ours is not None:
            self._ours.close()
            self._process.kill()
            self._process.join()
        self._process = self._ours = None


def serve(requests: Connection, tools: Toolchain) -> None:
    """Run TLC for each request, until nobody asks any more."""
    with tempfile.TemporaryDirectory(prefix="tlc-") as scratch:
        try:
            java = _started(tools, scratch)
            while True:
                requests.send(_checked(java, requests.recv(), scratch))
        except EOFError:
            pass  # nobody asks any more
        except Exception as error:  # noqa: BLE001  jpype's are of many kinds
            print(f"no JVM for several runs: {error!r}", file=sys.stderr, flush=True)
    os._exit(0)  # TLC's threads of all those runs would keep it alive


def _started(tools: Toolchain, scratch: str) -> ModuleType:
    java = importlib.import_module("jpype")
    java.startJVM(
        _library(tools.java, java),
        *tlc.SMALL,
        f"-Djava.io.tmpdir={scratch}",
        classpath=[str(tools.jar)],
    )
    return java


def _library(java: str, jpype: ModuleType) -> str:
    """Return the JVM that this `java` starts; for a wrapper, the one jpype finds."""
    home = Path(java).resolve().parent.parent
    found = (path for name in _LIBRARIES for path in home.rglob(name))
    return str(next(found, jpype.getDefaultJVMPath()))


def _checked(java: ModuleType, run: tlc.Run, scratch: str) -> tlc.Outcome:
    """Do what `tlc2.TLC.main` does, but for the end of the JVM."""
    tool_io, settings = java.JClass("util.ToolIO"), java.JClass("tlc2.TLCGlobals")
    output = java.JClass("java.io.ByteArrayOutputStream")()
    tool_io.out = tool_io.err = java.JClass("java.io.PrintStream")(output)
    settings.mainChecker = settings.metaDir = None
    settings.coverageInterval = -1
    folder = run.module.parent
    with tempfile.TemporaryDirectory(dir=scratch) as states:
        checker = java.JClass("tlc2.TLC")()
        started = time.monotonic()
        code = -1
        if checker.handleParameters(tlc.arguments(run, states)):
            files = java.JClass("util.SimpleFilenameToStream")(str(folder))
            checker.setResolver(files)
            status = java.JClass("tlc2.output.EC$ExitStatus")
            code = int(status.errorConstantToExitStatus(checker.process()))
        seconds = time.monotonic() - started
    tool_io.out.flush()
    return tlc.read(code, seconds, str(output.toString()), folder)
