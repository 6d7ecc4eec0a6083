"""The Fortran example trains the same closure on any number of ranks, and goes on with it on another number.

usage: closure_test.py PROGRAM MPIEXEC
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM, MPIEXEC = sys.argv[1:3]


def losses(ranks, steps, *files):
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    command = [MPIEXEC, "-n", str(ranks), "--bind-to", "none", "--oversubscribe", PROGRAM, str(steps), *map(str, files)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)
    assert run.returncode == 0, run.stdout + run.stderr
    return [float(number) for number in re.findall(r"loss\s+(\S+)", run.stdout)]


def expect_close(found, expected):
    assert len(found) == len(expected) and all(abs(a - b) <= 1e-6 * abs(b) for a, b in zip(found, expected)), (found, expected)


with tempfile.TemporaryDirectory() as folder:
    saved, other = Path(folder) / "closure.safetensors", Path(folder) / "other.safetensors"
    first = losses(2, 20, saved)
    assert first[-1] < first[0] / 2, first
    expect_close(losses(4, 20, other), first)
    later = losses(4, 3, other, saved)
    assert later[0] < first[0] / 2, (first, later)
    expect_close(losses(1, 3, other, saved), later)
print(f"losses {first[0]:.4f} to {first[-1]:.4f}; later {later[0]:.4f}")
