import mmap
import os
import tempfile
import threading
import unittest
import warnings

import torch

import adjoin
from worlds import on_each_world, on_threads


def piece(rank, size=3):
    return torch.arange(size, dtype=torch.float32) + 10 * rank


class Collectives(unittest.TestCase):
    def each_way(self, work):
        """With calls that block and calls that go on beside."""

        def both(world):
            work(world, lambda name, *a, **b: getattr(world, name)(*a, **b))
            stream = world.stream()
            work(world, lambda name, *a, **b: getattr(stream, name)(*a, **b).wait())

        on_each_world(both)

    def test_give_what_they_say(self):
        def work(world, call):
            rank, size = world.rank, world.size
            everything = torch.stack([piece(r) for r in range(size)])
            self.assertIsNone(call("barrier"))
            self.assertEqual(call("broadcast", piece(rank), root=size - 1).tolist(), piece(size - 1).tolist())
            x = piece(rank)
            self.assertIs(call("all_reduce", x), x)
            self.assertEqual(x.tolist(), everything.sum(0).tolist())
            self.assertEqual(call("all_reduce", piece(rank), "max").tolist(), piece(size - 1).tolist())
            reduced = call("reduce", piece(rank), root=0, reduction="min")
            self.assertEqual(reduced.tolist() if rank == 0 else reduced, piece(0).tolist() if rank == 0 else None)
            gathered = call("gather", piece(rank), root=0)
            self.assertEqual(gathered.tolist() if rank == 0 else gathered, everything.tolist() if rank == 0 else None)
            self.assertEqual(call("all_gather", piece(rank)).tolist(), everything.tolist())
            mine = call("scatter", everything if rank == 0 else None, torch.empty(3), root=0)
            self.assertEqual(mine.tolist(), piece(rank).tolist())
            mine = call("reduce_scatter", everything, torch.empty(3))
            self.assertEqual(mine.tolist(), (size * piece(rank)).tolist())
            sent = torch.tensor([[100.0 * rank + to] for to in range(size)])
            self.assertEqual(call("all_to_all", sent).flatten().tolist(), [100.0 * source + rank for source in range(size)])

        self.each_way(work)

    def test_take_counts_that_differ(self):
        def work(world, call):
            counts = [r + 1 for r in range(world.size)]
            got = call("all_gather", torch.full([world.rank + 1], float(world.rank)), counts=counts)
            self.assertEqual(got.tolist(), [float(r) for r in range(world.size) for _ in range(r + 1)])
            got = call("all_to_all", torch.full([sum(counts)], float(world.rank)), send_counts=counts,
                       receive_counts=[world.rank + 1] * world.size)  # fmt: skip
            self.assertEqual(got.tolist(), [float(r) for r in range(world.size) for _ in range(world.rank + 1)])

        self.each_way(work)

    def test_groups_have_their_own_ranks(self):
        def work(world):
            group = world.split(world.rank % 2, key=-world.rank)
            self.assertEqual(group.world_ranks, sorted((r for r in range(world.size) if r % 2 == world.rank % 2), reverse=True))
            self.assertIsNone(world.split(-1))
            alone = world.subset([world.rank])
            self.assertEqual((alone.rank, alone.size), (0, 1))
            self.assertEqual(world.with_algorithm("all_reduce", "ring").all_reduce(torch.ones(5)).tolist(), [world.size] * 5)
            self.assertEqual(world.deterministic().all_reduce(torch.ones(1)).item(), world.size)

        on_each_world(work)


class Messages(unittest.TestCase):
    def test_arrive(self):
        def work(world):
            after, before = (world.rank + 1) % world.size, (world.rank - 1) % world.size
            if world.size == 1:
                return
            got = world.sendrecv(piece(world.rank), after, torch.empty(3), before, tag=5)
            self.assertEqual(got.tolist(), piece(before).tolist())
            sending = world.isend(piece(world.rank), after)
            self.assertEqual(world.recv(torch.empty(3), before).tolist(), piece(before).tolist())
            sending.wait()
            self.assertTrue(sending.done())
            column = torch.zeros(3, 2)
            world.exchange([("send", torch.full([2, 3], float(world.rank))[:, 1:2].expand(2, 1), after, 1),
                            ("recv", column[:2, 1:], before, 1)])  # fmt: skip
            self.assertEqual(column.tolist(), [[0, before], [0, before], [0, 0]])

        on_each_world(work)

    def test_of_views_that_negate_carry_the_sign(self):
        def work(world):
            if world.size == 1:
                return
            after, before = (world.rank + 1) % world.size, (world.rank - 1) % world.size
            sent, got = torch.tensor([1 + 2j, 3 + 4j]).conj().imag, torch.empty(2)
            world.exchange([("send", sent, after, 0), ("recv", got, before, 0)])
            self.assertEqual(got.tolist(), [-2.0, -4.0])
            for name, arguments in (("all_reduce", ()), ("broadcast", (0,))):
                with self.assertRaisesRegex(adjoin.InvalidArgument, name + ": .*a view that negates or conjugates"):
                    getattr(world, name)(sent, *arguments)
            with self.assertRaisesRegex(adjoin.InvalidArgument, "exchange: .*requires no gradient"):
                world.exchange([("send", torch.ones(2), after, 0), ("recv", torch.ones(2, requires_grad=True), before, 0)])

        on_each_world(work)

    def test_broadcast_only_reads_what_the_root_has(self):
        def work(world):
            with tempfile.TemporaryDirectory() as folder:
                for count in (3, 100_000):
                    whole = torch.arange(float(count))
                    path = os.path.join(folder, "numbers")
                    whole.numpy().tofile(path)
                    with open(path, "rb") as file, warnings.catch_warnings():
                        warnings.simplefilter("ignore")  # that the memory is read-only
                        mapped = torch.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), dtype=torch.float32)
                    for algorithm in (None, "tree", "ring"):
                        group = world.with_algorithm("broadcast", algorithm) if algorithm else world
                        x = mapped if world.rank == 0 else torch.zeros(count)
                        self.assertTrue(torch.equal(group.broadcast(x, 0), whole))
                    layer = torch.nn.Linear(count, 1, bias=False)
                    layer.weight = torch.nn.Parameter(mapped.view(1, -1) if world.rank == 0 else torch.zeros(1, count), False)
                    adjoin.DataParallel(layer, world)
                    self.assertTrue(torch.equal(layer.weight[0], whole))
                    del mapped, x, layer  # before the file goes

        on_each_world(work)

    def test_refuse_tensors_that_do_not_travel(self):
        def work(world):
            refused = {
                "one on meta": torch.ones(2, device="meta"),
                "layout sparse": torch.ones(2).to_sparse(),
                "contiguous": torch.ones(4, 4)[:, 1],
                "complex": torch.ones(2, dtype=torch.complex64),
                "requires no gradient": torch.ones(2, requires_grad=True),
            }
            for text, x in refused.items():
                with self.assertRaisesRegex(adjoin.InvalidArgument, "(?i)" + text) as caught:
                    world.all_reduce(x)
                self.assertEqual(len(str(caught.exception).splitlines()), 1)
            with self.assertRaisesRegex(ValueError, "there is no reduction 'mean'"):
                world.all_reduce(torch.ones(1), "mean")

        on_each_world(work, sizes=(2,))

    @on_threads
    def test_refuse_another_thread(self):
        def work(world):
            world.barrier()
            caught = []

            def other():
                try:
                    world.barrier()
                except adjoin.InvalidArgument as error:
                    caught.append(str(error))

            thread = threading.Thread(target=other)
            thread.start()
            thread.join()
            self.assertIn("belongs to another thread", caught[0])
            self.assertRegex(caught[0], r"communicator_test\.py:\d+")

        adjoin.launch(work, ranks=2)


class Partitions(unittest.TestCase):
    def test_say_who_has_what(self):
        grid = adjoin.GridShape({"y": 2, "x": 2})
        layout = adjoin.Layout(grid, [5, 4], {0: "y"}, {"x": "copied"})
        self.assertEqual(layout.split(0).sizes, [3, 2])
        self.assertEqual((layout.shape_on(3), layout.shape_on(9)), ([2, 4], [0]))
        self.assertEqual(layout.dual().kind("x"), "partial")
        self.assertEqual(layout, adjoin.Layout(grid, [5, 4], [(adjoin.Split.balanced(5, 2), ["y"])], {"x": "copied"}))
        self.assertEqual(layout.ranges_of(3), [[(3, 5)], [(0, 4)]])
        plan = adjoin.plan_move(adjoin.Layout(grid, [4], {0: ["y", "x"]}), adjoin.Layout(grid, [4]), 1)
        self.assertEqual(sorted(box.peer for box in plan.receives), [0, 1, 2, 3])
        self.assertEqual(adjoin.Split.covering([[(0, 3)], [(1, 4)]], 4).is_exact, False)
        self.assertEqual(adjoin.outputs_of(adjoin.Window(kernel=3, before=1, after=1), 5), 5)
        with self.assertRaisesRegex(adjoin.InvalidArgument, "expected one of the axes y, x"):
            adjoin.Layout(grid, [5], {0: "z"})
        with self.assertRaisesRegex(ValueError, "expected a part from 0 to 1"):
            layout.split(0).size_of(2)


if __name__ == "__main__":
    unittest.main()
