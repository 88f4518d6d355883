"""Faults that only show where several processes share the data, or one dies (T1)."""

import fcntl
import os
import pickle
import shutil
import tempfile
import threading
import time
import weakref

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from jobfence.conformance.capabilities import ALL
from jobfence.conformance.faults.base import CATALOGUE, Fault, Faulty
from jobfence.statemachine.errors import StoreUnavailable
from jobfence.store.memory import JobData, MemoryData, MemoryJobStore, Tables

_PATIENCE_S = 2.0


class FileData(JobData):
    """One file, replaced in each commit under a lock that processes share: as it should be."""

    def __init__(self, folder: Path) -> None:
        self.file, self.lock = folder / "rows", folder / "lock"

    @contextmanager
    def transaction(self) -> Iterator[Tables]:
        """Read, and write what was changed."""
        with self.locked():
            before = self.read()
            tables = before.copy()
            yield tables
            if tables != before:
                self.write(tables)

    def locked(self) -> AbstractContextManager[object]:
        """Keep all others out."""
        lock = self.lock.open("a")
        fcntl.flock(lock, fcntl.LOCK_EX)
        return lock  # closed at the end, it lets go

    def read(self) -> Tables:
        """Return the rows as last written."""
        if not self.file.exists():
            return Tables()
        tables: Tables = pickle.loads(self.file.read_bytes())  # noqa: S301  our own
        return tables

    def write(self, tables: Tables) -> None:
        """Put these rows in the place of the others."""
        replace(self.file, pickle.dumps(tables))


def replace(file: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    new = file.with_suffix(".new")
    new.write_bytes(data)
    new.replace(file)


class OnFile(Faulty):
    """A store on a file of its own for each data set that it is given; no fault yet."""

    capabilities = ALL
    data_class: ClassVar[type[FileData]] = FileData

    def __init__(self, *, data: MemoryData, **settings: Any) -> None:
        super().__init__(data=self.data_class(_folder_of(data)), **settings)

    _transaction = MemoryJobStore._transaction


_folders: WeakKeyDictionary[MemoryData, Path] = WeakKeyDictionary()


def _folder_of(data: MemoryData) -> Path:
    """Return the folder that stands for a data set, and goes with it."""
    if data not in _folders:
        _folders[data] = Path(tempfile.mkdtemp())
        weakref.finalize(data, shutil.rmtree, _folders[data])
    return _folders[data]


def on_file(says: str) -> Callable[[type[FileData]], type[FileData]]:
    """Put a store with its rows in such a file into the catalogue."""

    def register(data: type[FileData]) -> type[FileData]:
        store = type(data.__name__, (OnFile,), {"data_class": data})
        CATALOGUE.append(Fault(data.__name__, "T1", "processes", says, store))
        return data

    return register


@on_file("its lock holds threads apart, and no processes")
class LockedForThreads(FileData):
    _locks: ClassVar[dict[Path, threading.Lock]] = {}

    def locked(self) -> AbstractContextManager[object]:
        return self._locks.setdefault(self.file, threading.Lock())


@on_file("rows are read before the lock is taken")
class FileReadBeforeTheLock(FileData):
    @contextmanager
    def transaction(self) -> Iterator[Tables]:
        tables = self.read()
        with self.locked():
            yield tables
            self.write(tables)


@on_file("what was read once is not read again after others wrote")
class KeptInMemory(FileData):
    kept: Tables | None = None

    def read(self) -> Tables:
        if self.kept is None:
            self.kept = super().read()
        return self.kept

    def write(self, tables: Tables) -> None:
        super().write(tables)
        self.kept = tables.copy()


@on_file("the file is emptied and then written, in its place")
class WrittenInPlace(FileData):
    def write(self, tables: Tables) -> None:
        data = pickle.dumps(tables)
        with self.file.open("wb") as file:
            file.write(data)


@on_file("a commit is two files, replaced one after the other")
class InTwoFiles(FileData):
    def read(self) -> Tables:
        tables = super().read()
        counters = self.file.with_suffix(".counters")
        if counters.exists():
            tables.counters = pickle.loads(counters.read_bytes())  # noqa: S301
        return tables

    def write(self, tables: Tables) -> None:
        super().write(tables)
        counters = pickle.dumps(tables.counters)
        replace(self.file.with_suffix(".counters"), counters)


@on_file("the lock of a process that died is never let go")
class LockLeft(FileData):
    @contextmanager
    def locked(self) -> Iterator[None]:
        end = time.monotonic() + _PATIENCE_S
        while True:
            try:
                os.close(os.open(self.lock, os.O_CREAT | os.O_EXCL))
                break
            except FileExistsError:
                if time.monotonic() > end:
                    raise StoreUnavailable("the lock is taken") from None
                time.sleep(0.001)
        try:
            yield
        finally:
            self.lock.unlink()
