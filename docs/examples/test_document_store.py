"""The suite on the first example of "Write an adapter"."""

import tempfile

from pathlib import Path

from document_store import DocumentData, DocumentJobStore

from jobfence.conformance import ALL, Capability, DataBackdoor, JobStoreSuite


class TestDocumentJobStore(JobStoreSuite):
    capabilities = ALL.without(
        Capability.AMBIENT_TRANSACTIONS, because="a file has no transaction to join"
    )

    def open_store(self, namespace, **settings):
        return DocumentJobStore(path_of(namespace), **settings)

    def open_backdoor(self, namespace):
        return DataBackdoor(DocumentData(path_of(namespace)))

    def drop_namespace(self, namespace):
        for suffix in (".json", ".lock", ".new"):
            path_of(namespace).with_suffix(suffix).unlink(missing_ok=True)


def path_of(namespace):
    return Path(tempfile.gettempdir(), f"jobs-{namespace}.json")
