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
from typing import Final, NamedTuple, Self

from runner import tlc
from runner.toolchain import Toolchain

# Where a Java home has its JVM: Java 9 and newer, then 8; the last is Windows's.
_LIBRARIES: Final = (
    "lib/server/libjvm.*",
    "jre/lib/*/server/libjvm.*",
    "bin/*/jvm.dll",
)


class Jvm:
    """
    A process with a JVM in it, started by the first run and again when it was lost.

    One that cannot even start is not tried again. `start_s`: how long that may take,
    beside the run's own time.
    """

    def __init__(self, tools: Toolchain, *, start_s: float = 30.0) -> None:
        self._tools, self._start_s = tools, start_s
        self._running: _Running | None = None
        self._useless = False

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
        if self._useless:
            return None
        if self._running is None:
            self._running = _start(self._tools)
        try:
            self._running.requests.send(run)
            if self._running.requests.poll(run.timeout_s + self._start_s):
                answer = self._running.requests.recv()
                return answer if isinstance(answer, tlc.Outcome) else None
        except (OSError, EOFError):
            self._useless = True  # it died, having said why
        self.close()
        return None

    def close(self) -> None:
        """End the process, whatever it does, and remove what TLC wrote."""
        if self._running is not None:
            process, requests, scratch = self._running
            requests.close()
            process.kill()
            process.join()
            scratch.cleanup()
        self._running = None


class _Running(NamedTuple):
    process: multiprocessing.process.BaseProcess
    requests: Connection
    scratch: "tempfile.TemporaryDirectory[str]"


def _start(tools: Toolchain) -> _Running:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    scratch = tempfile.TemporaryDirectory(prefix="tlc-")
    arguments = (theirs, tools, scratch.name)
    process = context.Process(target=serve, args=arguments, daemon=True)
    process.start()
    theirs.close()  # else its death is not seen here
    return _Running(process, ours, scratch)


def serve(requests: Connection, tools: Toolchain, scratch: str) -> None:
    """Run TLC for each request, until nobody asks any more."""
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
    found = [path for name in _LIBRARIES for path in sorted(home.glob(name))]
    return str(found[0] if found else jpype.getDefaultJVMPath())


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
