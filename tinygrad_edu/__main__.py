"""`python -m tinygrad_edu` is the command `tinygrad-edu`."""

import sys

from tinygrad_edu.cli import main

if __name__ == "__main__":
    sys.exit(main())
