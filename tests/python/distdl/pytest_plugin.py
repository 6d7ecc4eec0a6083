"""Seeds each test by its name and rank, as DistDL's tests do not: else every third run would fail somewhere.

They compare float32 more closely than it rounds where numbers cancel: the gradients of BCEWithLogits near 0 to 1e-8, of which
LibTorch's own kernel rounds the last bit in one way for a whole tensor and in another for some elements of its parts; and
inner products of random tensors to 1e-5 of themselves, although they may be nearly orthogonal.
"""

import atexit
import os
import sys
import zlib

import pytest
import torch
from mpi4py import MPI

from distdl.backends.mpi.partition import WORLD


@pytest.fixture(autouse=True)
def seeded(request):
    torch.manual_seed(zlib.crc32(request.node.nodeid.encode()) + 1000 + WORLD.rank)


def pytest_sessionfinish(session, exitstatus):
    session.config.exit_status = int(exitstatus)


def pytest_unconfigure(config):
    """Leaves MPI and ends at once, as to take LibTorch apart in 20 processes takes as long as a third of the tests."""
    atexit._run_exitfuncs()
    MPI.Finalize()
    sys.stdout.flush()
    os._exit(getattr(config, "exit_status", 1))
