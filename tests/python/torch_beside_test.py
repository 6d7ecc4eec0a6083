import os
import tempfile
import unittest

import adjoin
import torch
import torch.distributed as dist
from adjoin import _c10d
from ranks import alone, on_ranks


def beside_threads(rank):
    def work(world):
        x = torch.ones(20_000) * (world.rank + 1)
        world.all_reduce(x)
        return x

    before = torch.ones(20_000)
    dist.all_reduce(before)
    of_threads = adjoin.launch(work, ranks=2)
    for x in of_threads:
        dist.all_reduce(x)
    after = torch.ones(20_000)
    dist.all_reduce(after)
    return [t[-1].item() for t in (before, *of_threads, after)], [_c10d.is_shared(t) for t in (before, *of_threads, after)]


class Beside(unittest.TestCase):
    """The library and the backend use one shared memory."""

    @alone
    def test_threads(self):
        for ((values, are_shared),) in on_ranks(beside_threads):
            self.assertEqual(values, [2, 6, 6, 2])
            self.assertEqual(are_shared, [True] * 4)

    @unittest.skipUnless(adjoin.started_by_mpi(), "needs an MPI job")
    def test_mpi(self):
        rank, size = adjoin.mpi_job_rank(), adjoin.mpi_job_size()
        store = os.path.join(tempfile.gettempdir(), f"adjoin-beside-{os.getppid()}")

        def work(world):
            x = torch.ones(20_000)
            world.all_reduce(x)
            dist.init_process_group("adjoin", init_method=f"file://{store}", rank=rank, world_size=size)
            dist.all_reduce(x)
            world.all_reduce(x)
            self.assertEqual(x[-1].item(), size**3)
            self.assertTrue(_c10d.is_shared(x))
            dist.destroy_process_group()

        adjoin.launch(work)
        if rank == 0 and os.path.exists(store):
            os.remove(store)


if __name__ == "__main__":
    unittest.main()
