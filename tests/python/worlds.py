"""The worlds that the tests run on: 1 to 4 threads, or the MPI job that they were started in."""

import unittest

import torch

import adjoin


def on_each_world(work, sizes=(1, 2, 3, 4)):
    """Runs work(world) on worlds of threads, or once on the MPI job."""
    for ranks in (None,) if adjoin.started_by_mpi() else sizes:
        adjoin.launch(work, ranks=ranks)


on_threads = unittest.skipIf(adjoin.started_by_mpi(), "makes worlds of threads")


def numbers(*shape, seed=0):
    """The same normal numbers on all ranks, from a generator that they do not share."""
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def nearly_square(world):
    height = 2 if world.size % 2 == 0 else 1
    return adjoin.Grid(world, {"y": height, "x": world.size // height})


def replicated(grid, shape):
    return adjoin.Layout(grid, shape)


def equal(a, b):
    torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-11)
