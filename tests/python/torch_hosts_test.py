"""Groups over several hosts, which are processes of this one that do not reach each other's memory."""

import os
import time
import unittest
from datetime import timedelta

import torch
import torch.distributed as dist
from ranks import SCALE, alone, error_of, on_ranks
from torch_collectives_test import moves, numbers, only_here, random_program, reductions, uneven
from torch_faults_test import timed_error


def on_hosts(work, ranks, of_a_host, lost=(), arguments=()):
    """What work gives on each rank, where this many ranks are on each host."""
    given = on_ranks(work, ranks, arguments=arguments, lost=lost, environment={"ADJOIN_TEST_RANKS_OF_A_HOST": str(of_a_host)})
    return [of_rank and of_rank[0] for of_rank in given]


def collectives(rank):
    return [work(rank) for work in (reductions, moves, uneven, only_here)]


def bytes_over_loopback():
    with open("/proc/net/dev") as file:
        return next(int(line.split()[1]) for line in file if line.split()[0] == "lo:")


def crossing(rank):
    """Bytes that cross the network in a collective, in units of the tensor's bytes."""
    x = torch.ones(1 << 20)
    part = torch.ones(1 << 18)
    calls = {
        "all_reduce": lambda: dist.all_reduce(x),
        "broadcast": lambda: dist.broadcast(x, 1),
        "reduce": lambda: dist.reduce(x, 3),
        "all_gather": lambda: dist.all_gather_single(x, part),
        "reduce_scatter": lambda: dist.reduce_scatter_single(part, x),
        "all_to_all": lambda: dist.all_to_all_single(torch.empty_like(x), x),
    }
    given = {}
    for name, call in calls.items():
        call()
        dist.barrier()
        before = bytes_over_loopback()
        call()
        dist.barrier()
        given[name] = (bytes_over_loopback() - before) / x.nbytes
    return given


def layers(rank):
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64).double(), bucket_cap_mb=0.01)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        model(numbers((8, 64), torch.float64, 10 * step + rank)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return [p.detach().clone() for p in model.parameters()]


def messages(rank):
    x, y = torch.zeros(5), torch.zeros(1)
    if rank == 0:
        later = dist.irecv(y, 3, tag=2)
        given = sorted((dist.recv(x), x[4].item()) for _ in range(3))
        later.wait()
        return given, y.item(), error_of(lambda: dist.recv(torch.zeros(5, 2)[:, 0], 3))
    dist.send(torch.arange(10.0).view(5, 2)[:, 0] + rank, 0)
    if rank == 3:
        dist.send(torch.full((1,), 7.0), 0, tag=2)
    return None


def patient(rank):
    """A group that is given more time than it was made with."""
    group = dist.new_group([0, 1], timeout=timedelta(seconds=1.5))
    group.set_timeout(timedelta(seconds=60))
    time.sleep(2 * rank)
    x = torch.ones(1)
    return error_of(lambda: dist.all_reduce(x, group=group)), x.item()


def differ(rank, where):
    pair = dist.new_group([0, 3])
    dist.barrier()
    begin = time.monotonic()
    first = error_of(lambda: dist.all_reduce(torch.ones(5 if rank in where else 4)))
    seconds = time.monotonic() - begin
    later = [error_of(call) for call in (dist.barrier, lambda: dist.isend(torch.ones(1), 3 - rank))]
    x = torch.ones(2)
    if rank in (0, 3):
        dist.all_reduce(x, group=pair)
    stay(rank)
    return first, later, seconds, x[0].item()


def stay(rank):
    """Until all ranks are here: what one that leaves closes would end the others' waiting."""
    store = dist.distributed_c10d._get_default_store()
    store.set(f"over {rank}", "")
    store.wait([f"over {r}" for r in range(dist.get_world_size())])


def other_counts(rank):
    """Rank 0 sends more than rank 3 expects, which only that one can see."""
    sends = [1, 1, 1, 2 if rank == 0 else 1]
    given = timed_error(lambda: dist.all_to_all_single(torch.zeros(4), torch.ones(sum(sends)), [1] * 4, sends))
    stay(rank)
    return given


def killed(rank, who):
    dist.barrier()
    if rank == who:
        os.kill(os.getpid(), 9)
    begin = time.monotonic()
    error = error_of(lambda: dist.all_reduce(torch.ones(100_000)))
    return error, error_of(lambda: dist.new_group([0, 1, 2, 3])), time.monotonic() - begin


@alone
class Hosts(unittest.TestCase):
    def test_collectives_on_hosts_are_those_of_one(self):
        expected, given = on_ranks(collectives, 4), on_hosts(collectives, 4, 2)
        for rank in range(4):
            torch.testing.assert_close(given[rank], expected[rank][0], rtol=0, atol=0)

    def test_random_programs(self):
        for seed in range(3 * SCALE):
            ranks, of_a_host = ((4, 2), (3, 2), (3, 1))[seed % 3]
            expected, given = on_ranks(random_program, ranks, arguments=(seed,)), on_hosts(random_program, ranks, of_a_host, arguments=(seed,))
            for rank in range(ranks):
                torch.testing.assert_close(given[rank], expected[rank][0], rtol=0, atol=0, msg=lambda text: f"seed {seed}, rank {rank}: {text}")

    def test_each_host_takes_its_data_once(self):
        given = on_hosts(crossing, 4, 2)[0]
        # all_reduce: either host sends half of the sum of its ranks, and half of the result
        for name, times in {"all_reduce": 2, "broadcast": 1, "reduce": 1, "all_gather": 1, "reduce_scatter": 1, "all_to_all": 2}.items():
            self.assertGreater(given[name], 0.9 * times, name)
            self.assertLess(given[name], 1.3 * times + 0.1, name)

    def test_training_and_messages(self):
        expected, given = on_ranks(layers, 4), on_hosts(layers, 4, 2)
        for rank in range(4):
            torch.testing.assert_close(given[rank], expected[rank][0], rtol=1e-12, atol=1e-12)
        received, later, of_view = on_hosts(messages, 4, 2)[0]
        self.assertEqual((received, later), ([(r, r + 8.0) for r in (1, 2, 3)], 7))
        self.assertIn("must be contiguous", of_view)

    def test_more_time(self):
        self.assertEqual(on_hosts(patient, 2, 1), [("no exception", 2)] * 2)

    def test_calls_that_differ(self):
        for where in ((1,), (2,), (2, 3)):  # within either host, and from the other host's
            for rank, (first, later, seconds, x) in enumerate(on_hosts(differ, 4, 2, arguments=(where,))):
                self.assertIn("mismatched collectives", first)
                self.assertIn("float32 x 5", first)
                self.assertIn("float32 x 4", first)
                self.assertEqual(later, [first] * 2)
                self.assertLess(seconds, 5)
                self.assertEqual(x, 2 if rank in (0, 3) else 1)
        for error, seconds in on_hosts(other_counts, 4, 2):
            self.assertIn("rank 0: sends 2 elements to rank 3", error)
            self.assertLess(seconds, 5)

    def test_killed_peers(self):
        for who in (0, 1):
            given = on_hosts(killed, 4, 2, lost=(who,), arguments=(who,))
            for rank in set(range(4)) - {who}:
                in_call, making, seconds = given[rank]
                self.assertIn("DistBackendError: adjoin: ", in_call)
                self.assertRegex(making, rf"rank {who} \(process \d+\) has died while a group was made")
                self.assertLess(seconds, 5)


if __name__ == "__main__":
    unittest.main()
