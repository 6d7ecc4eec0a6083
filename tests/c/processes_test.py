"""Networks on random blocks of processes, which share memory or send messages, equal one rank's.

usage: mpirun -n 2 processes_test.py
"""

import ctypes as c
import os
import random
import sys
import unittest

import numpy as np
from interface_test import OneNetwork, blocks_of_all, random_network, train
from library import COLUMNS_FIRST, LIBRARY, ROWS_FIRST, Failure, Options, check, run_threads

SEEDS = range(4)


def world_of_mpi(**options):
    """The handle of MPI_COMM_WORLD in Fortran is that of each implementation."""
    world, given = c.c_uint64(), Options(32, **options)
    check(LIBRARY.adjoin_world_of_mpi_f(0 if hasattr(LIBRARY, "ompi_mpi_comm_world") else 0x44000000, c.byref(given), c.byref(world)))
    return world


class Case:
    """What a seed draws, alike on all ranks."""

    def __init__(self, seed):
        draw = self.draw = random.Random(1000 + seed)
        self.shape = tuple(draw.randrange(5, 9) for _ in range(draw.randrange(1, 4)))
        self.order, self.description = draw.choice([ROWS_FIRST, COLUMNS_FIRST]), random_network(draw, self.shape)
        self.optimizer = draw.choice([{"rule": "sgd", "rate": 0.05, "clip": 0.5}, {"rate": 0.01, "warmup": 2}])
        numbers = np.random.default_rng(seed)
        self.fields = {"x": numbers.normal(size=(2, *self.shape)), "target": numbers.normal(size=(2, *self.shape))}
        self.fields["weights"] = np.abs(self.fields["target"][0]) + 0.1

    def train(self, world, blocks):
        return train(world, blocks, self.description, self.fields, self.optimizer, order=self.order)


class Processes(OneNetwork):
    def test_equal_one_rank(self):
        cases = [Case(seed) for seed in SEEDS]
        expected = [run_threads(1, lambda world, _: case.train(world, ([0] * len(case.shape), case.shape)))[0] for case in cases]
        is_second, alone = os.environ["OMPI_COMM_WORLD_RANK"] == "1", c.c_uint64()
        LIBRARY.MPI_Init(None, None)
        if is_second:
            check(LIBRARY.adjoin_world_alone(None, c.byref(alone)))
        with self.assertRaisesRegex(Failure, "^rank 1: this thread has a world already") as caught:
            world_of_mpi()
        self.assertEqual(caught.exception.rank, 1)
        check(LIBRARY.adjoin_world_destroy(c.byref(alone)))
        if "ADJOIN_TEST_RANKS_OF_A_HOST" not in os.environ:  # then MPI is finalised though a world was half made
            with self.assertRaisesRegex(Failure, "share no memory: one of them gives 2"):
                world_of_mpi(host_memory=2 if is_second else 1)
        # What is compared on one rank is sent by all.
        world, rank, size = world_of_mpi(checked=is_second), c.c_int32(), c.c_int32()
        check(LIBRARY.adjoin_world_rank(world, c.byref(rank), c.byref(size)))
        for case, one in zip(cases, expected):
            parts = [1] * len(case.shape)
            parts[case.draw.randrange(len(parts))] = case.draw.choice([size.value, max(1, size.value - 1)])  # the last has no cells then
            blocks = blocks_of_all(case.shape, parts, size.value, case.draw)[rank.value]
            found, text = case.train(world, blocks), f"{case.description} on {parts}"
            for what in ("output", "input gradient"):
                own, part = found[what]
                self.expect_close(part, one[what][1][(slice(None), *own)], 1e-12, f"{what}: {text}")
            self.expect_close(np.array(found["loss"]), np.array(one["loss"]), 1e-12, text)
            for what, bound in (("gradients", 1e-12), ("weights", 1e-12 if "rule" in case.optimizer else 1e-9)):
                for name, numbers in one[what].items():
                    self.expect_close(found[what][name], numbers, bound, f"{what} {name}: {text}")
        LIBRARY.MPI_Finalize()


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "Processes.test_equal_one_rank"])
