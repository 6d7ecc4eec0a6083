import random
import unittest
import warnings

import torch
import torch.distributed as dist
from ranks import SCALE, alone, error_of, on_both, on_ranks

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTEGERS = (torch.uint8, torch.int8, torch.int32, torch.int64)
MOVED = (torch.bool, torch.int16, torch.uint16, torch.complex64, torch.complex128, torch.float8_e4m3fn)


def numbers(shape, dtype, seed):
    """Small whole numbers, whose sums and products are exact in each type."""
    whole = torch.randint(-3 if dtype.is_signed else 0, 4, shape, generator=torch.Generator().manual_seed(seed))
    return torch.complex(whole.double(), whole.flip(-1).double()).to(dtype) if dtype.is_complex else whole.to(dtype)


def reductions(rank):
    given = {}
    for dtype in FLOATS + INTEGERS:
        names = ("SUM", "PRODUCT", "MIN", "MAX") + (() if dtype.is_floating_point else ("BAND", "BOR", "BXOR"))
        for name in names:
            for shape in ((5,), (0,), (3, 700)):
                x = numbers(shape, dtype, rank)
                dist.all_reduce(x, getattr(dist.ReduceOp, name))
                y = numbers(shape, dtype, rank)
                dist.reduce(y, 1, getattr(dist.ReduceOp, name))
                given[dtype, name, shape] = (x.double(), y.double() if rank == 1 else None)
    return given


def moves(rank):
    size, given = dist.get_world_size(), []
    for dtype in FLOATS + INTEGERS + MOVED:
        for shape in ((6,), (2, 900), (0, 3)):
            x = numbers(shape, torch.float32 if dtype == torch.float8_e4m3fn else dtype, rank).to(dtype)
            if dtype in MOVED and dist.get_backend() == "gloo":
                x = x.view(torch.uint8)  # gloo does not know all types
            y = x.clone()
            dist.broadcast(y, 1)
            listed = [torch.empty_like(x) for _ in range(size)]
            dist.all_gather(listed, x)
            gathered = [torch.empty_like(x) for _ in range(size)] if rank == size - 1 else None
            dist.gather(x, gathered, size - 1)
            scattered = torch.empty_like(x)
            dist.scatter(scattered, [x] * size if rank == 1 else None, 1)
            whole = x.new_empty((size * x.shape[0], *x.shape[1:]))
            dist.all_gather_single(whole, x)
            turned = torch.empty_like(whole)
            dist.all_to_all_single(turned, whole)
            given.append([t.contiguous().view(torch.uint8) for t in [y, *listed, *(gathered or []), scattered, whole, turned]])
    return given


def uneven(rank):
    size = dist.get_world_size()
    x = torch.arange(rank + 2.0) + 10 * rank
    listed = [torch.zeros(r + 2) for r in range(size)]
    dist.all_gather(listed, x)
    sends, receives = [rank + 2 * to for to in range(size)], [of + 2 * rank for of in range(size)]
    rows = torch.arange(3.0 * sum(sends)).view(-1, 3) + 100 * rank
    got = torch.zeros(sum(receives), 3)
    dist.all_to_all_single(got, rows, receives, sends)
    lists = [torch.zeros(of + 1, 2) for of in range(size)]
    dist.all_to_all(lists, [torch.full((rank + 1, 2), 10.0 * rank + to) for to in range(size)])
    part = torch.zeros(rank + 1)
    dist.reduce_scatter(part, [torch.arange(r + 1.0) * (rank + 1) for r in range(size)])
    return [t.tolist() for t in [*listed, got, *lists, part]]


def odd_memory(rank):
    """Views without contiguous elements, tensors that the peers do not reach, and neighbours of the results, which stay."""
    import mmap

    import numpy

    apart, used, given = mmap.mmap(-1, (rank + 1) << 27), 0, []  # it begins where the other process has nothing, or its own

    def foreign(n):
        nonlocal used
        used += 8 * n
        return torch.frombuffer(apart, dtype=torch.float32, offset=used - 8 * n, count=2 * n).view(n, 2).zero_()

    for n in (4, 3000, 100_000):
        makers = {"transposed": lambda: torch.zeros(2, n).t(), "stepped": lambda: torch.zeros(2 * n, 2)[::2], "own": lambda: torch.zeros(n, 2),
                  "of numpy": lambda: torch.from_numpy(numpy.zeros((n, 2))).float(), "foreign": lambda: foreign(n)}
        for make in makers.values():
            if dist.get_backend() == "gloo":  # which reads and writes beside the elements of a view
                make = makers["own"]

            def filled():
                t = make()
                return t.copy_(torch.arange(2.0 * n).view(n, 2) * (rank + 1))

            a, b, c = filled(), filled(), filled()
            dist.all_reduce(a)
            dist.broadcast(b, 1)
            dist.reduce(c, 0)
            outs = [make() for _ in range(dist.get_world_size())]
            dist.all_gather(outs, filled())
            part = make()
            dist.reduce_scatter(part, [filled() for _ in outs])
            turned = [make() for _ in outs]
            if dist.get_backend() != "gloo":  # which has no lists
                dist.all_to_all(turned, [filled() for _ in outs])
            given.append([t.clone() for t in [a, b, *([c] if rank == 0 else []), *outs, part]])
            around = torch.full((n, 6), 7.0)
            around[:, 2:4] = filled()
            if dist.get_backend() == "gloo":
                around[:, 2:4] = 3 * filled() / (rank + 1)
            else:
                dist.all_reduce(around[:, 2:4])
            given.append([around])
    given.append([torch.frombuffer(apart, dtype=torch.uint8)[1 << 26 : 1 << 27].count_nonzero()])
    return given


def long_blocks(rank):
    """Blocks of several pieces and of less than one, of tensors that the peers reach and, but on rank 1, of others."""
    import numpy

    size, given = dist.get_world_size(), []
    counts = [200_000, 3, 90_000][:size]
    sends = [counts[(rank + to) % size] for to in range(size)]
    for is_shared in (True, rank == 1):

        def zeros(n):
            return torch.zeros(n) if is_shared else torch.from_numpy(numpy.zeros(n, numpy.float32))

        def filled(n):
            return zeros(n).copy_(torch.arange(float(n)) % 251 + 300 * rank)

        listed, turned, part, scattered = [zeros(n) for n in counts], zeros(sum(sends)), zeros(counts[rank]), zeros(150_000)
        gathered = [zeros(150_000) for _ in counts] if rank == 2 else None
        dist.all_gather(listed, filled(counts[rank]))
        dist.all_to_all_single(turned, filled(sum(sends)), sends, sends)
        dist.reduce_scatter(part, [filled(n) for n in counts])
        dist.gather(filled(150_000), gathered, 2)
        dist.scatter(scattered, [filled(150_000) + to for to in range(size)] if rank == 0 else None, 0)
        given.append([*listed, turned, part, *(gathered or []), scattered])
    return [torch.equal(shared, other) and shared.sum() > 0 for shared, other in zip(*given)]


def only_here(rank):
    size = dist.get_world_size()
    x = torch.tensor([rank == 0, True, False, rank == 1])
    dist.all_reduce(x)
    y = torch.tensor([rank + 1.0, 2.0])
    dist.all_reduce(y, dist.ReduceOp.AVG)
    z = torch.tensor([complex(rank, 1), complex(2, -rank)])
    dist.all_reduce(z, dist.ReduceOp.AVG)
    means = torch.zeros(3), torch.arange(3.0) * (rank + 1)
    dist.reduce_scatter_single(means[0], torch.arange(3.0 * size) + rank, dist.ReduceOp.AVG)
    dist.reduce(means[1], 1, dist.ReduceOp.AVG)
    least = torch.tensor([-5 + 3 * rank, 100, -128], dtype=torch.int8)
    dist.all_reduce(least, dist.ReduceOp.MIN)
    parts = torch.zeros(2, dtype=torch.int8)
    dist.reduce_scatter_single(parts, torch.arange(2 * size, dtype=torch.int8) - 3 + rank, dist.ReduceOp.MAX)
    listed = torch.zeros(2, dtype=torch.int8)
    dist.reduce_scatter(listed, list((torch.arange(2 * size, dtype=torch.int8) - 3 + rank).view(size, 2)), dist.ReduceOp.MIN)
    s = torch.sparse_coo_tensor([[rank, 2]], [rank + 1.0, 10.0 * (rank + 1)], (4,), check_invariants=True)
    dist.all_reduce(s)
    turned = torch.arange(2.0 * size) + 10 * rank
    dist.all_to_all_single(turned, turned)
    return [t.tolist() for t in (x.view(torch.uint8), y, z, means[0], means[1], least, parts, listed, s.to_dense(), turned)]


def coalesced(rank):
    size, own = dist.get_world_size(), [torch.full((2,), rank + 1.0), torch.arange(3.0) + rank]
    sums, lists = [t.clone() for t in own], [[torch.zeros_like(t) for t in own] for _ in range(size)]
    dist.group.WORLD.allreduce_coalesced(sums).wait()
    with warnings.catch_warnings(action="ignore"):
        dist.all_gather_coalesced(lists, own)
    wholes, parts = [t.new_zeros(size * len(t)) for t in own], [torch.zeros_like(t) for t in own]
    dist.group.WORLD.allgather_into_tensor_coalesced(wholes, own).wait()
    dist.group.WORLD.reduce_scatter_tensor_coalesced(parts, wholes).wait()
    return [[t.tolist() for t in given] for given in (sums, *lists, wholes, parts)]


def refused(rank):
    return [error_of(call) for call in (
        lambda: dist.all_reduce(torch.sparse_coo_tensor([[0]], [1.0], (4,), check_invariants=True), dist.ReduceOp.MAX),
        lambda: dist.all_reduce(torch.ones(2), dist.ReduceOp.BAND),
        lambda: dist.all_reduce(torch.ones(2, dtype=torch.int16)),
        lambda: dist.all_reduce(torch.ones(2, dtype=torch.complex64), dist.ReduceOp.PRODUCT),
        lambda: dist.all_gather_single(torch.ones(5), torch.ones(2)),
        lambda: dist.all_gather([torch.ones(2), torch.ones(3)], torch.ones(7)),
        lambda: dist.group.WORLD.allgather_coalesced([[torch.ones(3)]] * 2, [torch.ones(5)]),
        lambda: dist.group.WORLD.allgather_coalesced([[torch.ones(3)]] * 2, [torch.ones(3).double()]),
        lambda: dist.reduce_scatter(torch.ones(3), [torch.ones(2)] * 2),
        lambda: dist.all_to_all_single(torch.ones(2), torch.ones(2), [1, 2], [1, 1]),
        lambda: dist.all_to_all_single(torch.ones(4), torch.ones(4), [5, -1], [5, -1]),
        lambda: dist.group.WORLD.broadcast(torch.ones(2), 5),
        lambda: dist.group.WORLD.send([torch.ones(2)], 5, 0),
        lambda: dist.group.WORLD.send([torch.ones(2)], rank, 0),
        lambda: dist.group.WORLD.send([torch.ones(2)], 1 - rank, -2),
    )]


def random_program(rank, seed):
    """A program of collectives, messages and asynchronous calls on subgroups, the same on all ranks but for the values."""
    size, given = dist.get_world_size(), []
    draw, own = random.Random(seed), random.Random(rank)
    groups = [(None, list(range(size)))]
    for _ in range(2):
        members = sorted(draw.sample(range(size), draw.randint(2, size)))
        groups.append((dist.new_group(members), members))
    begun = []
    for step in range(12):
        group, members = draw.choice(groups)
        kind = draw.choice(("all_reduce", "broadcast", "all_gather", "reduce", "all_to_all", "reduce_scatter", "message", "barrier", "wait"))
        n, is_async, root = draw.choice((1, 17, 5000, 70000)), draw.random() < 0.5, draw.choice(members)
        peer = draw.choice([m for m in members if m != root])
        is_view = draw.random() < 0.3
        if kind == "wait" or kind == "barrier":
            while begun:
                begun.pop(own.randrange(len(begun)) if kind == "wait" else 0).wait()
            if kind == "barrier" and rank in members:
                dist.barrier(group)
            continue
        if rank not in members:
            continue
        count = len(members)
        x = numbers((n, 2), torch.float64, 1000 * step + rank)
        x = x[:, 0] if is_view else x.flatten()
        if dist.get_backend() == "gloo":
            x = x.contiguous()
        out, work = x, None
        if kind == "all_reduce":
            work = dist.all_reduce(x, group=group, async_op=is_async)
        elif kind == "broadcast":
            work = dist.broadcast(x, root, group=group, async_op=is_async)
        elif kind == "all_gather":
            out = [torch.zeros_like(x) for _ in members]
            work = dist.all_gather(out, x, group=group, async_op=is_async)
        elif kind == "reduce":
            work = dist.reduce(x, root, group=group, async_op=is_async)
            out = x if rank == root else None
        elif kind == "all_to_all":
            out = torch.zeros(count * n, dtype=torch.float64)
            work = dist.all_to_all_single(out, numbers((count * n,), torch.float64, step + rank), group=group, async_op=is_async)
        elif kind == "reduce_scatter":
            out = torch.zeros(n, dtype=torch.float64)
            work = dist.reduce_scatter(out, list(numbers((count, n), torch.float64, step + rank)), group=group, async_op=is_async)
        elif rank == root:
            work = dist.isend(x.contiguous(), peer, group, step)
            out = None
        elif rank == peer:
            out = torch.zeros(x.numel(), dtype=torch.float64)
            work = dist.irecv(out, root, group, step)
        if work:
            begun.append(work)
        given.append(out)
    for work in begun:
        work.wait()
    dist.barrier()
    return [None if out is None else torch.cat(list(out)) if isinstance(out, list) else out.clone() for out in given]


@alone
class Collectives(unittest.TestCase):
    def compare(self, work, ranks=2, arguments=()):
        expected, given = on_both(work, ranks, arguments)
        for rank in range(ranks):
            torch.testing.assert_close(given[rank], expected[rank], rtol=0, atol=0, msg=lambda text: f"rank {rank}: {text}")

    def test_reductions_are_gloos(self):
        for ranks in (2, 3):
            self.compare(reductions, ranks)

    def test_moves_are_gloos(self):
        self.compare(moves, 3)

    def test_uneven_lists(self):
        size = 3
        for rank, (given,) in enumerate(on_ranks(uneven, size)):
            listed, (got, *rest) = given[:size], given[size:]
            self.assertEqual(listed, [(torch.arange(r + 2.0) + 10 * r).tolist() for r in range(size)])
            blocks = []
            for of in range(size):
                sends = [of + 2 * to for to in range(size)]
                rows = torch.arange(3.0 * sum(sends)).view(-1, 3) + 100 * of
                blocks.append(rows[sum(sends[:rank]):sum(sends[: rank + 1])])
            self.assertEqual(got, torch.cat(blocks).tolist())
            self.assertEqual(rest[:size], [torch.full((of + 1, 2), 10.0 * of + rank).tolist() for of in range(size)])
            self.assertEqual(rest[size], (torch.arange(rank + 1.0) * 6).tolist())

    def test_odd_memory(self):
        self.compare(odd_memory)

    def test_long_blocks_that_the_peers_do_not_reach(self):
        for (given,) in on_ranks(long_blocks, 3):
            self.assertTrue(all(given), given)

    def test_what_gloo_lacks(self):
        for rank, (given,) in enumerate(on_ranks(only_here)):
            x, y, z, mean, at_root, least, parts, listed, sparse, turned = given
            self.assertEqual(x, [1, 1, 0, 1])
            self.assertEqual(y, [1.5, 2.0])
            self.assertEqual(z, [complex(0.5, 1), complex(2, -0.5)])
            self.assertEqual(least, [-5, 100, -128])
            self.assertEqual(sparse, [1, 2, 30, 0])
            self.assertEqual(turned, [2 * rank, 2 * rank + 1, 10 + 2 * rank, 11 + 2 * rank])
            self.assertEqual(mean, [3 * rank + i + 0.5 for i in range(3)])
            self.assertEqual(at_root, [[0, 1, 2], [0, 1.5, 3]][rank])
            self.assertEqual(parts, [2 * rank - 2, 2 * rank - 1])
            self.assertEqual(listed, [2 * rank - 3, 2 * rank - 2])

    def test_several_tensors_at_once(self):
        for rank, (given,) in enumerate(on_ranks(coalesced)):
            wholes = [[1, 1, 2, 2], [0, 1, 2, 1, 2, 3]]
            self.assertEqual(given, [[[3, 3], [1, 3, 5]], [[1, 1], [0, 1, 2]], [[2, 2], [1, 2, 3]], wholes,
                                     [[2 * x for x in whole][rank * len(whole) // 2 :][: len(whole) // 2] for whole in wholes]])

    def test_bad_input_raises_here(self):
        for rank, (given,) in enumerate(on_ranks(refused, 2)):
            for error, says in zip(given, ("only be summed", "BAND with float32", "SUM with int16", "PRODUCT on complex", "got 5", "gives 7 elements", "gives 5 elements", "Double and Float", "has 3 elements, and its input 2", "Split sizes",
                                           "at least 0, got -1",
                                           "2 ranks, got 5", "2 ranks, got 5", "to itself", "at least 0, got -2")):
                self.assertNotIn("no exception", error)
                self.assertIn(says, error)

    def test_random_programs_are_gloos(self):
        for seed in range(6 * SCALE):
            with self.subTest(seed=seed):
                self.compare(random_program, 2 + seed % 3, (seed,))


if __name__ == "__main__":
    unittest.main()
