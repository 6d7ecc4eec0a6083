import unittest

import torch
from torch.autograd import forward_ad

import adjoin
from adjoin import nn
from worlds import equal, numbers, on_each_world


def inner(world, a, b, counts=True):
    """The inner product over all ranks; of a replicated tensor that of one."""
    total = (a * b).sum().reshape(1).detach() if counts else torch.zeros(1, dtype=torch.float64)
    return world.all_reduce(total).item()


class Movements(unittest.TestCase):
    def check(self, world, move, x, x_counts=True, y_counts=True):
        """Of <F x, y> and <x, F* y> that they are equal, F* being what backward does."""
        x = x.requires_grad_()
        out = move(x)
        y = numbers(*out.shape, seed=50 + (world.rank if y_counts else 0))
        (gradient,) = torch.autograd.grad((out * y).sum() if out.numel() else out.sum(), x)
        self.assertAlmostEqual(inner(world, out, y, y_counts or world.rank == 0), inner(world, x, gradient, x_counts or world.rank == 0), 9)

    def test_have_their_adjoints_in_backward(self):
        def work(world):
            rank, size = world.rank, world.size
            grid = adjoin.Grid(world, {"a": size})
            mine = adjoin.Split.balanced(5, size)
            otherwise = adjoin.Split.of_ranges([[]] * (size - 1) + [[(0, 5)]], 5)
            split, whole = adjoin.Layout(grid, [5, 3], {0: "a"}), adjoin.Layout(grid, [5, 3])
            copied = adjoin.Layout(grid, [5, 3], {}, {"a": "copied"})
            partial = copied.dual()
            piece = lambda: numbers(mine.size_of(rank), 3, seed=rank)  # noqa: E731
            full = lambda seed=rank: numbers(5, 3, seed=seed)  # noqa: E731
            self.check(world, adjoin.Move(split, copied, grid), piece())
            self.check(world, lambda x: adjoin.move(x, partial, split, grid), full())
            self.check(world, lambda x: adjoin.move(x, split, whole, grid), piece(), y_counts=False)
            self.check(world, lambda x: adjoin.all_to_all(x, world, mine, otherwise), piece())
            self.check(world, lambda x: adjoin.all_to_all_rows(x, [1] * size, [1] * size, world), numbers(size, 2, seed=rank))
            self.check(world, lambda x: adjoin.rotate(x, world, 1), numbers(4, seed=rank))
            self.check(world, lambda x: adjoin.copy_to(x, world), full(0), x_counts=False)
            self.check(world, lambda x: adjoin.reduce_from(x, world), full(), y_counts=False)
            self.check(world, lambda x: adjoin.all_sum_reduce(x, world), full())
            self.check(world, lambda x: adjoin.all_sum_reduce(x, grid, ["a"]), full())
            self.check(world, lambda x: adjoin.gather_from(x, world, mine), piece(), y_counts=False)
            self.check(world, lambda x: adjoin.scatter_to(x, world, mine), full(0), x_counts=False)
            self.check(world, lambda x: adjoin.all_gather(x, world, mine), piece())
            self.check(world, lambda x: adjoin.reduce_scatter(x, world, mine), full())
            window = adjoin.Window(kernel=3, before=1, after=1)
            for padding in ("zeros", "replicate", "reflect", "circular"):
                self.check(world, lambda x: adjoin.halo_exchange(x, split, [window, adjoin.Window()], grid, padding), piece())  # noqa: B023
            alone = adjoin.GridShape({"a": 1}, ranks=[size - 1])
            on_one = adjoin.Layout(alone, [2, 3])
            here = numbers(2, 3) if rank == size - 1 else numbers(0)
            self.check(world, lambda x: adjoin.broadcast(x, on_one, grid.shape, grid), here)
            self.check(world, lambda x: adjoin.sum_reduce(x, grid.shape, on_one, grid), numbers(2, 3, seed=rank))

        on_each_world(work)

    def test_messages_come_back_as_gradients(self):
        def work(world):
            if world.size == 1:
                return
            x = numbers(3).requires_grad_()
            if world.rank == 0:
                adjoin.send(2 * x, 1, world).sum().backward()
                equal(x.grad, torch.full([3], 10.0, dtype=torch.float64))
            elif world.rank == 1:
                y = adjoin.recv(torch.empty(0, dtype=torch.float64, requires_grad=True), [3], 0, world)
                equal(y, 2 * x)
                (5 * y).sum().backward()

        on_each_world(work)

    def test_whose_gradients_come_together_carry_derivatives_in_forward_mode(self):
        def work(world):
            x, y, t = (numbers(3, seed=seed).requires_grad_() for seed in range(3))
            a, b = adjoin.together(adjoin.all_sum_reduce(forward_ad.make_dual(x, t), world), y)
            of_a, of_b = forward_ad.unpack_dual(a), forward_ad.unpack_dual(b)
            equal(of_a.tangent, t * world.size)
            self.assertIsNone(of_b.tangent)
            (of_a.tangent.sum() + 2 * a.sum() + 3 * b.sum()).backward()
            for leaf, factor in ((x, 2 * world.size), (y, 3), (t, world.size)):
                equal(leaf.grad, torch.full([3], float(factor), dtype=torch.float64))

        with forward_ad.dual_level():  # of the process
            on_each_world(work)

    def test_move_complex_tensors(self):
        def work(world):
            x = torch.complex(numbers(3, seed=world.rank), numbers(3))
            expected = sum(torch.complex(numbers(3, seed=r), numbers(3)) for r in range(world.size))
            torch.testing.assert_close(adjoin.all_sum_reduce(x, world), expected)

        on_each_world(work)


class Prepared(unittest.TestCase):
    def test_are_made_and_freed_by_all_threads_at_once(self):
        """Each is registered under the interpreter's lock; without it, some of the threads lose the objects of others."""

        def work(world):
            grid = adjoin.Grid(world, {"a": world.size})
            layout = adjoin.Layout(grid, [8, 4], {0: "a"})
            for _ in range(200):
                made = [adjoin.HaloExchange(layout, [adjoin.Window(1), adjoin.Window(1)], grid) for _ in range(3)]
                del made

        on_each_world(work)


class Random(unittest.TestCase):
    def test_dropout_is_the_same_in_every_layout(self):
        expected = []

        def work(world):
            grid = adjoin.Grid(world, {"a": world.size})
            layer = nn.Dropout(0.5, name="here")
            for cut in ({0: "a"}, {1: "a"}):
                x = adjoin.place(torch.ones(8, 6), adjoin.Layout(grid, [8, 6], cut), grid)
                with self.assertRaisesRegex(adjoin.InvalidArgument, "step"):
                    layer(x)
                x.step = adjoin.Step(seed=1, number=3, training=True)
                dropped = layer(x).whole()
                if not expected:
                    expected.append(dropped)
                self.assertTrue(torch.equal(dropped, expected[0]))
                self.assertEqual(set(dropped.flatten().tolist()), {0.0, 2.0})

        on_each_world(work)

    def test_experts_are_the_same_on_any_number_of_ranks(self):
        results = []

        def work(world):
            grid = adjoin.Grid(world, {"dp": 1, "tp": world.size})
            layer = nn.MixtureOfExperts(4, 8, experts=3, top_k=2, grid=grid, axis="tp", dtype=torch.float64)
            nn.initialize(layer, seed=1)
            self.assertEqual(list(layer.pieces), ["experts.router.weight", "experts.column.weight", "experts.row.weight"])
            y = layer(adjoin.place(numbers(6, 4), adjoin.Layout(grid, [6, 4]), grid)).whole()
            results.append(y)
            equal(y, results[0])

        on_each_world(work)


if __name__ == "__main__":
    unittest.main()
