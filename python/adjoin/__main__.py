"""python -m adjoin ARGS is the program adjoin."""

import sys

from adjoin import _adjoin

sys.exit(_adjoin.run_program(["adjoin", *sys.argv[1:]]))
