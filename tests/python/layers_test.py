import copy
import io
import pickle
import unittest

import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.func import functional_call

import adjoin
from adjoin import nn
from worlds import equal, numbers, on_each_world, on_threads, replicated

FLOAT = torch.float64


def nearly_square(world):
    height = 2 if world.size % 2 == 0 else 1
    return adjoin.Grid(world, {"y": height, "x": world.size // height})


def whole_of(layer, grid):
    """A layer as a function of its whole input and whole parameters, each the same on all ranks."""
    names = list(layer.pieces)

    def function(layout, x, *parameters):
        moved = [adjoin.move(p, replicated(grid, p.shape), layer.pieces[name], grid) for name, p in zip(names, parameters)]
        x = adjoin.place(x, layout, grid)
        local, *moved = adjoin.together(x.local, *moved)
        return functional_call(layer, dict(zip(names, moved)), (adjoin.DistributedTensor(local, layout, grid),)).whole()

    return function


def layers(grid):
    """Layers with an input and its layout; and the twin's module."""
    over_space = {2: "y", 3: "x"}
    cut = dict(grid=grid, dtype=FLOAT)
    linear = dict(cut, weight=adjoin.Layout(grid, [3, 4], {0: "y", 1: "x"}))
    yield nn.Linear(4, 3, **linear), torch.nn.Linear(4, 3), [3, 4], {0: ["y", "x"]}
    yield nn.Conv2d(1, 2, 3, padding=1, **cut), torch.nn.Conv2d(1, 2, 3, padding=1), [1, 1, 3, 3], over_space
    yield nn.Conv1d(2, 1, 3, padding="same", **cut), torch.nn.Conv1d(2, 1, 3, padding="same"), [1, 2, 4], {2: "y"}
    yield nn.ConvTranspose2d(1, 2, 2, stride=2, **cut), torch.nn.ConvTranspose2d(1, 2, 2, stride=2), [1, 1, 2, 2], over_space
    yield nn.MaxPool2d(2, grid=grid), torch.nn.MaxPool2d(2), [1, 1, 5, 4], over_space
    yield nn.AvgPool2d(3, stride=2, padding=1, grid=grid), torch.nn.AvgPool2d(3, stride=2, padding=1), [1, 1, 5, 4], over_space
    yield nn.AdaptiveAvgPool2d((None, 2), grid=grid), torch.nn.AdaptiveAvgPool2d((None, 2)), [1, 1, 3, 4], over_space
    yield nn.Upsample(scale_factor=2, mode="bilinear", grid=grid), torch.nn.Upsample(scale_factor=2, mode="bilinear"), [1, 1, 3, 2], over_space
    yield nn.BatchNorm2d(2, **cut), torch.nn.BatchNorm2d(2), [2, 2, 3, 2], over_space
    yield nn.LayerNorm(6, **cut), torch.nn.LayerNorm(6), [2, 6], {1: ["y", "x"]}
    yield nn.RMSNorm(4, **cut), torch.nn.RMSNorm(4), [3, 4], {0: "y", 1: "x"}
    yield nn.GroupNorm(2, 4, **cut), torch.nn.GroupNorm(2, 4), [1, 4, 2], {1: "y", 2: "x"}
    yield nn.Flatten(grid=grid), torch.nn.Flatten(), [1, 2, 3], {2: "x"}


def parameters_for(layer, seed=3):
    return {name: numbers(*layout.shape, seed=seed + i) for i, (name, layout) in enumerate(layer.pieces.items())}


class Layers(unittest.TestCase):
    def test_equal_their_twins(self):
        def work(world):
            grid = nearly_square(world)
            for layer, twin, shape, cuts in layers(grid):
                twin = twin.double()
                state = {name: tensor for name, tensor in parameters_for(layer).items() if name in dict(twin.named_parameters())}
                nn.initialize(layer, seed=1)
                trained = [p for p in nn.parameters_of(layer) if not p.is_buffer]
                nn.scatter_state(state, trained)
                twin.load_state_dict(state, strict=False)
                x = numbers(*shape).requires_grad_()
                y = layer(adjoin.place(x, adjoin.Layout(grid, shape, cuts), grid)).whole()
                mine = x.clone().detach().requires_grad_()
                expected = twin(mine)
                equal(y, expected)
                weights = numbers(*expected.shape, seed=9)
                (y * weights).sum().backward()
                (expected * weights).sum().backward()
                equal(x.grad, mine.grad)
                adjoin.sum_gradients(layer)
                gradients = nn.gather_state([p.named(p.name, p.tensor.grad) for p in trained if p.tensor.grad is not None])
                for name, parameter in twin.named_parameters():
                    if world.rank == 0:
                        equal(gradients[name], parameter.grad)

        on_each_world(work)

    def test_have_gradients_of_first_and_second_order(self):
        def work(world):
            grid = nearly_square(world)
            for layer, _, shape, cuts in layers(grid):
                if "running_mean" in layer.pieces:
                    continue  # compared with its twin above; statistics have no gradient
                of = whole_of(layer, grid)
                layout = adjoin.Layout(grid, shape, cuts)
                f = lambda *inputs: of(layout, *inputs)  # noqa: B023, E731
                filled = [numbers(*of_piece.shape, seed=5).abs() + 0.5 for of_piece in layer.pieces.values()]
                inputs = [tensor.requires_grad_() for tensor in (numbers(*shape), *filled)]
                self.assertTrue(gradcheck(f, inputs))
                self.assertTrue(gradgradcheck(f, inputs))

        on_each_world(work)

    def test_losses_equal_their_twins(self):
        def work(world):
            grid = adjoin.Grid(world, {"a": world.size})
            layout = adjoin.Layout(grid, [5, 3], {0: "a"})
            x, target = numbers(5, 3), numbers(5, 3, seed=1)
            classes = torch.tensor([0, 2, 1, 1, 0])
            inside, targets = x.sigmoid(), target.sigmoid()
            cases = [
                (nn.L1Loss, {}, x, target),
                (nn.MSELoss, {"reduction": "sum"}, x, target),
                (nn.SmoothL1Loss, {"beta": 0.5}, x, target),
                (nn.HuberLoss, {"delta": 0.5}, x, target),
                (nn.PoissonNLLLoss, {"full": True}, x, targets),
                (nn.BCELoss, {}, inside, targets),
                (nn.BCEWithLogitsLoss, {"pos_weight": torch.tensor([1.0, 2.0, 3.0], dtype=FLOAT)}, x, targets),
                (nn.KLDivLoss, {"reduction": "batchmean"}, x.log_softmax(1), targets),
                (nn.NLLLoss, {"ignore_index": 1}, x.log_softmax(1), classes),
                (nn.CrossEntropyLoss, {"label_smoothing": 0.1}, x, classes),
            ]
            for loss, options, of, towards in cases:
                mine, alone = of.clone().requires_grad_(), of.clone().requires_grad_()
                towards_layout = layout if towards.dim() == 2 else adjoin.Layout(grid, [5])
                value = loss(**options, grid=grid)(adjoin.place(mine, layout, grid), adjoin.place(towards, towards_layout, grid))
                expected = getattr(torch.nn, loss.__name__)(**options)(alone, towards)
                equal(value.local, expected)
                value.local.sum().backward()
                expected.backward()
                equal(mine.grad, alone.grad)

        on_each_world(work)


class Modules(unittest.TestCase):
    def test_are_modules_of_torch(self):
        def work(world):
            grid = adjoin.Grid(world, {"a": world.size})
            net = torch.nn.Sequential(nn.Linear(4, 4, grid=grid), nn.BatchNorm1d(4, grid=grid), nn.Elementwise(torch.tanh))
            nn.initialize(net, seed=1)
            self.assertTrue(all(isinstance(p, torch.nn.Parameter) for p in net.parameters()))
            self.assertEqual(len(list(net.parameters())), 4)
            net.to(FLOAT)
            layout = adjoin.Layout(grid, [6, 4], {0: "a"})
            x = adjoin.place(numbers(6, 4), layout, grid)
            seen = []
            net[0].register_forward_hook(lambda module, inputs, output: seen.append(output.layout))
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            losses = []
            for _ in range(3):
                optimizer.zero_grad()
                loss = nn.MSELoss(grid=grid)(net(x), x).local
                loss.sum().backward()
                adjoin.sum_gradients(net)
                optimizer.step()
                losses.append(loss.item())
            self.assertLess(losses[2], losses[0])
            self.assertEqual(len(seen), 3)
            self.assertEqual(net[1].num_batches_tracked.item(), 3)
            net.eval()
            expected = net(x).whole()
            self.assertEqual(net[1].num_batches_tracked.item(), 3)

            file = io.BytesIO()
            torch.save(net.state_dict(), file)
            file.seek(0)
            other = torch.nn.Sequential(nn.Linear(4, 4, grid=grid), nn.BatchNorm1d(4, grid=grid), nn.Elementwise(torch.tanh)).to(FLOAT)
            other.load_state_dict(torch.load(file), assign=True)
            equal(other.eval()(x).whole(), expected)

        on_each_world(work)

    def test_refuse_to_be_pickled(self):
        layer = nn.Linear(2, 2, grid=adjoin.Grid(adjoin.Communicator(), {"a": 1}))
        for take in (pickle.dumps, copy.deepcopy):
            with self.assertRaisesRegex(adjoin.InvalidArgument, "cannot be pickled; save its state_dict"):
                take(layer)

    def test_say_what_does_not_fit(self):
        grid = adjoin.Grid(adjoin.Communicator(), {"a": 1})
        with self.assertRaisesRegex(adjoin.InvalidArgument, "expected 3 features in the last dim"):
            nn.Linear(3, 2, grid=grid)(adjoin.place(torch.ones(2, 4), adjoin.Layout(grid, [2, 4]), grid))
        with self.assertRaisesRegex(adjoin.InvalidArgument, "mode: 'cubic' is not supported"):
            nn.Upsample(size=3, mode="cubic", grid=grid)(adjoin.place(torch.ones(1, 1, 2), adjoin.Layout(grid, [1, 1, 2]), grid))
        with self.assertRaises(TypeError):
            nn.Conv2d(3, 2, grid=grid)


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

    @on_threads
    def test_refuse_what_has_no_twin(self):
        def work(world):
            grid = adjoin.Grid(world, {"a": world.size})
            with self.assertRaisesRegex(adjoin.InvalidArgument, "layer '1.0' is a Bilinear, which has no distributed twin"):
                nn.distributed(torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Sequential(torch.nn.Bilinear(1, 1, 1))), grid=grid)
            with self.assertRaisesRegex(adjoin.InvalidArgument, "expected the same arguments on all ranks"):
                nn.distributed(torch.nn.Sequential(torch.nn.Linear(2, 2 + world.rank)), grid=grid)

        adjoin.launch(work, ranks=2)


if __name__ == "__main__":
    unittest.main()
