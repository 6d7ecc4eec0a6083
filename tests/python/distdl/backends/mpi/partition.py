"""Partitions: which ranks of a root communicator hold a tensor, and how they are arranged."""

import functools

import numpy as np
from mpi4py import MPI

import adjoin

WORLD = adjoin.mpi_world()  # made by all ranks of the job, as they all import this


class Root:
    """The communicator that partitions were made from, as adjoin's: `world`, and a grid of all its ranks.

    Kept for the whole process by its ranks, so that tests that begin alike make no group twice.
    """

    def __init__(self, ranks):
        self.world = WORLD if list(ranks) == list(range(WORLD.size)) else WORLD.subset(list(ranks))
        self.grid = adjoin.Grid(self.world, adjoin.GridShape([("ranks", self.world.size)]))
        self._grids = {}

    @staticmethod
    def of(comm):
        group, all_ranks = comm.Get_group(), MPI.COMM_WORLD.Get_group()
        ranks = MPI.Group.Translate_ranks(group, list(range(comm.size)), all_ranks)
        group.Free()
        all_ranks.Free()
        return _root(tuple(ranks))

    def grid_of(self, partition):
        """adjoin's grid of a partition, with its communicators. Called by all ranks of the root."""
        key = (tuple(partition.shape), tuple(partition.ranks))
        if key not in self._grids:
            self._grids[key] = adjoin.Grid(self.world, partition.grid_shape)
        return self._grids[key]


_root = functools.cache(Root)


class MPIPartition:
    """Ranks of a root communicator, known to all of them, and an mpi4py communicator on those that are active in it."""

    def __init__(self, comm=MPI.COMM_NULL, root=None, ranks=None, shape=None):
        self._comm = comm
        self.root = root if root is not None else Root.of(comm)
        self.ranks = list(range(comm.size)) if ranks is None else [int(rank) for rank in ranks]
        self.active = comm != MPI.COMM_NULL
        self.rank = comm.rank if self.active else MPI.PROC_NULL
        self.size = len(self.ranks)
        self.shape = np.array([self.size] if shape is None else shape, dtype=int)
        self.dim = len(self.shape)
        self.index = self._index()

    def _index(self):
        return self.rank if self.active else None

    def create_partition_inclusive(self, ranks):
        """The given ranks of this partition. Called by all ranks of the root."""
        comm = MPI.COMM_NULL
        if self.active:
            group = self._comm.Get_group()
            members = group.Incl([int(rank) for rank in ranks])
            comm = self._comm.Create_group(members) if members.rank != MPI.UNDEFINED else MPI.COMM_NULL
            members.Free()
            group.Free()
        return MPIPartition(comm, self.root, [self.ranks[int(rank)] for rank in ranks])

    def create_cartesian_topology_partition(self, shape):
        """The same ranks in row-major order of a shape."""
        shape = [int(size) for size in shape]
        comm = self._comm.Create_cart(shape) if self.active else MPI.COMM_NULL
        return MPICartesianPartition(comm, self.root, self.ranks, shape)

    def deactivate(self):
        """Frees the communicator, unless it is that of the whole job."""
        if self.active and self._comm != MPI.COMM_WORLD:
            self._comm.Free()
        self._comm, self.active, self.rank, self.index = MPI.COMM_NULL, False, MPI.PROC_NULL, None


class MPICartesianPartition(MPIPartition):
    """Ranks in row-major order of a shape; adjoin knows axis d of it as "d"."""

    @functools.cached_property
    def grid_shape(self):
        return adjoin.GridShape.positional(self.shape.tolist(), self.ranks)

    def _index(self):
        return np.array(self.grid_shape.coordinates(self.rank)) if self.active else None
