"""What `pytest --pyargs jobfence.conformance --job-adapter pkg.mod:name` collects."""

import pytest

from jobfence.conformance.adapter import suite_for
from jobfence.conformance.plugin import chosen_adapter

adapter = chosen_adapter()
if adapter is None:
    pytest.skip(
        "say which store: --job-adapter package.module:name", allow_module_level=True
    )

TestConformance = suite_for(adapter)
