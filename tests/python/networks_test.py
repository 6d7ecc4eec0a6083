import copy
import unittest

import torch
from torch.autograd import gradcheck, gradgradcheck

import adjoin
from adjoin import nn
from worlds import equal, nearly_square, numbers, on_each_world, on_threads


class Tensors(unittest.TestCase):
    def test_have_the_functions_of_torch(self):
        def work(world):
            grid = nearly_square(world)
            a, b = numbers(3, 5).requires_grad_(), numbers(3, 5, seed=1).requires_grad_()
            cut = adjoin.Layout(grid, [3, 5], {0: "y", 1: "x"})

            def f(a, b):
                x, y = adjoin.place(a, cut, grid), adjoin.place(b, cut, grid)
                behind = adjoin.cat([x * y - x, 2 * y, adjoin.move(-x, adjoin.Layout(grid, [3, 5], {1: "y"}))], 1)
                return behind.whole(), (x * y).sum(0).whole(), x.mean([0, 1]).whole(), y.sum(dim=-1, keepdim=True).whole()

            whole, rows, mean, columns = f(a, b)
            equal(whole, torch.cat([a * b - a, 2 * b, -a], 1))
            equal(rows, (a * b).sum(0))
            equal(mean, a.mean())
            equal(columns, b.sum(1, keepdim=True))
            self.assertTrue(gradcheck(f, (a, b)))
            self.assertTrue(gradgradcheck(f, (a, b)))

        on_each_world(work, sizes=(1, 4))


class Networks(unittest.TestCase):
    def model(self):
        torch.manual_seed(5)
        return torch.nn.Sequential(
            torch.nn.Conv2d(2, 4, 3, padding=1),
            torch.nn.BatchNorm2d(4),
            torch.nn.ReLU(inplace=True),
            torch.nn.Sequential(torch.nn.MaxPool2d(2), torch.nn.Upsample(scale_factor=2)),
            torch.nn.InstanceNorm2d(4, affine=True),
            torch.nn.AvgPool2d(2),
            torch.nn.Flatten(),
            torch.nn.Linear(36, 5, bias=False),
            torch.nn.LayerNorm(5),
            torch.nn.GELU(),
        ).double()

    @on_threads
    def test_are_cut_in_one_line(self):
        model = self.model()
        x, weights = numbers(3, 2, 6, 7), numbers(3, 5, seed=4)
        expected = copy.deepcopy(model)
        y = expected(x)
        (y * weights).sum().backward()

        def work(world, cut):
            grid = nearly_square(world)
            net = nn.distributed(model, grid=grid, **cut)
            self.assertEqual(list(net.state_dict()), list(model.state_dict()))
            out = net(adjoin.place(x, adjoin.Layout(grid, list(x.shape)), grid)).whole()
            equal(out, y)
            (out * weights).sum().backward()
            adjoin.sum_gradients(net)
            gradients = nn.gather_state([p.named(p.name, p.tensor.grad) for p in nn.parameters_of(net) if not p.is_buffer])
            if world.rank == 0:
                for name, parameter in expected.named_parameters():
                    equal(gradients[name], parameter.grad)
            statistics = nn.gather_state(net)
            if world.rank == 0:
                equal(statistics["1.running_var"], expected[1].running_var)

        for cut in ({"space": [["y"], ["x"]]}, {"batch": ["y"], "channels": ["x"]}):
            on_each_world(lambda world: work(world, cut))  # noqa: B023

    def test_have_norms_without_bias_paddings_and_softmax(self):
        def work(world):
            grid = adjoin.Grid(world, {"a": world.size})
            model = torch.nn.Sequential(
                torch.nn.ZeroPad2d((1, -1, 0, 2)), torch.nn.BatchNorm2d(4, bias=False), torch.nn.CircularPad2d(1), torch.nn.Softmax2d(),
                torch.nn.ReplicationPad2d(1), torch.nn.GroupNorm(2, 4, bias=False), torch.nn.Flatten(), torch.nn.LayerNorm(400, bias=False),
                torch.nn.LogSoftmax(dim=1),
            ).double().eval()  # fmt: skip
            x = numbers(2, 4, 4, 6)
            for cut in ({"batch": ["a"]}, {"channels": ["a"]}, {"space": [[], ["a"]]}):
                net = nn.distributed(model, grid=grid, **cut)
                self.assertEqual(list(net.state_dict()), list(model.state_dict()))
                equal(net(adjoin.place(x, adjoin.Layout(grid, list(x.shape)), grid)).whole(), model(x))

        on_each_world(work, sizes=(1, 3))

    def test_refuse_what_their_twins_would_not_do(self):
        def hooked(model):
            model[0].register_forward_hook(lambda *_: None)

        def hooked_before(model):
            model[1][0].register_forward_pre_hook(lambda *_: None)

        def hooked_behind(model):
            model.register_full_backward_hook(lambda *_: None)

        def with_own_forward(model):
            model[1][0].forward = torch.tanh

        def hooked_weight(model):
            model[0].weight.register_hook(lambda gradient: gradient)

        def hooked_sum(model):
            model[0].bias.register_post_accumulate_grad_hook(lambda parameter: None)

        def work(world):
            grid = adjoin.Grid(world, {"a": world.size})
            for change, said in (
                (hooked, "layer '0' has hooks of the module"),
                (hooked_before, "layer '1.0' has hooks of the module"),
                (hooked_behind, "the model has hooks of the module"),
                (with_own_forward, "layer '1.0' has a forward of its own"),
                (hooked_weight, "layer '0' has hooks of 'weight'"),
                (hooked_sum, "layer '0' has hooks of 'bias'"),
            ):
                model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Sequential(torch.nn.ReLU()))
                change(model)
                with self.assertRaisesRegex(adjoin.InvalidArgument, f"distributed: {said}, which would be lost"):
                    nn.distributed(model, grid=grid)
            model = torch.nn.Sequential(torch.nn.Linear(2, 2))
            if world.rank == world.size - 1 > 0:
                hooked(model)
                with self.assertRaisesRegex(adjoin.InvalidArgument, "expected the same arguments on all ranks"):
                    nn.distributed(model, grid=grid)
            elif world.size > 1:
                with self.assertRaisesRegex(adjoin.InvalidArgument, "expected the same arguments on all ranks"):
                    nn.distributed(model, grid=grid)

        on_each_world(work, sizes=(1, 2))

    @on_threads
    def test_refuse_what_has_no_twin_and_wrong_axes(self):
        def work(world):
            grid = adjoin.Grid(world, {"a": world.size})
            with self.assertRaisesRegex(adjoin.InvalidArgument, "layer '1.0' is a Bilinear, which has no distributed twin"):
                nn.distributed(torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Sequential(torch.nn.Bilinear(1, 1, 1))), grid=grid)
            with self.assertRaisesRegex(adjoin.InvalidArgument, "expected the same arguments on all ranks"):
                nn.distributed(torch.nn.Sequential(torch.nn.Linear(2, 2 + world.rank)), grid=grid)
            with self.assertRaisesRegex(adjoin.InvalidArgument, "distributed: axis 'a' is named twice"):
                nn.distributed(torch.nn.Sequential(torch.nn.ReLU()), grid=grid, batch=["a"], space=[["a"]])
            with self.assertRaisesRegex(adjoin.InvalidArgument, "expected one of the axes a, got 'b'"):
                nn.distributed(torch.nn.Sequential(torch.nn.ReLU()), grid=grid, channels=["b"])

        adjoin.launch(work, ranks=2)


if __name__ == "__main__":
    unittest.main()
