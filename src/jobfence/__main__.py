"""`python -m jobfence` is `jobfence`."""

import sys

from jobfence.cli import main

if __name__ == "__main__":
    sys.exit(main())
