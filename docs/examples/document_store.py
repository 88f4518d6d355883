"""
A job store in one JSON document: jobfence's rules, and rows of its own keeping.

A commit is a new document in the place of the old one. A lock on a file beside it is the
transaction, so any number of processes of one machine may share the document.
"""

import fcntl
import json
import os

from contextlib import contextmanager
from pathlib import Path

from jobfence.store.memory import JobData, MemoryJobStore, Tables, apply, changes


class DocumentData(JobData):
    def __init__(self, path):
        self.path = Path(path)

    @contextmanager
    def transaction(self):
        with self.path.with_suffix(".lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # closing the file lets it go
            before = self._read()
            tables = before.copy()
            yield tables
            if tables != before:
                self._write(tables)

    def _read(self):
        tables = Tables()
        if self.path.exists():
            apply(tables, json.loads(self.path.read_bytes()))
        return tables

    def _write(self, tables):
        new = self.path.with_suffix(".new")
        with new.open("w") as file:
            json.dump(list(changes(Tables(), tables)), file)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self.path)  # only now is it a commit


class DocumentJobStore(MemoryJobStore):
    def __init__(self, path, **settings):
        super().__init__(data=DocumentData(path), **settings)
