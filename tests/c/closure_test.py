"""The Fortran example trains a closure that takes two thirds off a coarse run's error, alike on any number of ranks, and uses it on others.

usage: closure_test.py PROGRAM MPIEXEC
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM, MPIEXEC = sys.argv[1:3]


def run(ranks, steps, *files):
    """The losses, and the error of the coarse run as a part of that without the network."""
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    command = [MPIEXEC, "-n", str(ranks), "--bind-to", "none", "--oversubscribe", PROGRAM, str(steps), *map(str, files)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    part, = re.findall(r"without the network:\s*(\S+)", done.stdout)
    return [float(number) for number in re.findall(r"loss\s+(\S+)", done.stdout)], float(part)


def expect_close(found, expected):
    assert len(found) == len(expected) and all(abs(a - b) <= 1e-6 * abs(b) for a, b in zip(found, expected)), (found, expected)


with tempfile.TemporaryDirectory() as folder:
    saved, other = Path(folder) / "closure.safetensors", Path(folder) / "other.safetensors"
    losses, part = run(2, 400, saved)
    assert part <= 1 / 3, part
    assert abs(run(4, 0, other, saved)[1] - part) < 1e-3 and not other.exists(), part
    later, _ = run(4, 3, other, saved)
    expect_close(run(1, 3, other, saved)[0], later)
    assert len(run(2, 3, other, "alone")[0]) == 3
print(f"losses {losses[0]:.4f} to {losses[-1]:.4f}; error {part} of that without the network")
