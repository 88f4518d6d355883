"""Print the catalogue as the page `docs/conformance-faults.md`."""

import sys

from jobfence.conformance.faults import CATALOGUE
from jobfence.conformance.faults.page import page

sys.stdout.write(page(CATALOGUE))
