import copy
import io
import pickle
import unittest

import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.func import functional_call

import adjoin
from adjoin import nn
from worlds import equal, nearly_square, numbers, on_each_world, replicated

FLOAT = torch.float64


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


def layers_of_first_order(grid):
    """More of them, whose second derivatives the tests in C++ compare."""
    over_space, cut = {2: "y", 3: "x"}, dict(grid=grid, dtype=FLOAT)
    yield nn.Softmax(-1, grid=grid), torch.nn.Softmax(-1), [2, 5], {1: ["y", "x"]}
    yield nn.LogSoftmax(dim=0, grid=grid), torch.nn.LogSoftmax(0), [3, 2], {0: "y", 1: "x"}
    yield nn.ZeroPad2d((1, -1, 2, 0), grid=grid), torch.nn.ZeroPad2d((1, -1, 2, 0)), [1, 1, 3, 4], over_space
    yield nn.ConstantPad1d(2, 0.5, grid=grid), torch.nn.ConstantPad1d(2, 0.5), [1, 1, 3], {2: "y"}
    yield nn.CircularPad2d(1, grid=grid), torch.nn.CircularPad2d(1), [1, 1, 3, 2], over_space
    for name in ("LayerNorm", "GroupNorm", "BatchNorm1d", "InstanceNorm1d"):
        options = {"affine": True} if name.startswith("Inst") else {}
        sizes = {"LayerNorm": [4], "GroupNorm": [2, 6]}.get(name, [6])
        own, twin = getattr(nn, name)(*sizes, bias=False, **options, **cut), getattr(torch.nn, name)(*sizes, bias=False, **options)
        yield own, twin, [3, 6, 4], {0: "y", 1: "x"}


def parameters_for(layer, seed=3):
    return {name: numbers(*layout.shape, seed=seed + i) for i, (name, layout) in enumerate(layer.pieces.items())}


class Layers(unittest.TestCase):
    def test_equal_their_twins(self):
        def work(world):
            grid = nearly_square(world)
            for layer, twin, shape, cuts in (*layers(grid), *layers_of_first_order(grid)):
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
        with self.assertRaisesRegex(adjoin.InvalidArgument, "cannot be pickled; save its state_dict"):
            pickle.dumps(layer)

    def test_are_copied_with_weights_of_their_own(self):
        def work(world):
            grid = adjoin.Grid(world, {"a": world.size})
            model = torch.nn.Sequential(
                torch.nn.Conv1d(2, 4, 3), torch.nn.BatchNorm1d(4), torch.nn.ReLU(), torch.nn.Upsample(scale_factor=2),
                torch.nn.Dropout(0.5), torch.nn.MaxPool1d(2), torch.nn.Flatten(), torch.nn.Linear(16, 3),
            ).double()  # fmt: skip
            net = nn.distributed(model, grid=grid, batch=["a"])
            net.rows = adjoin.Layout(grid, [4, 2, 6], {0: "a"})
            net[7].bias.requires_grad_(False)
            x = adjoin.place(numbers(4, 2, 6), net.rows, grid)
            net.eval()
            before = net(x).whole()
            copied = copy.deepcopy(net)
            equal(copied(x).whole(), before)
            self.assertFalse(copied.training or copied[7].bias.requires_grad)
            self.assertIs(type(copied[0]), nn.Conv1d)
            with torch.no_grad():
                for parameter in copied.parameters():
                    parameter.mul_(2)
            equal(net(x).whole(), before)
            self.assertGreater((copied(x).whole() - before).abs().max(), 0)
            copied(x).local.sum().backward()
            adjoin.sum_gradients(copied)
            self.assertIsNone(net[0].weight.grad)
            self.assertIsNotNone(copied[0].weight.grad)

            class Shared(torch.nn.Module):
                def __init__(self):
                    super().__init__()
                    self.first, self.loss = nn.Linear(3, 3, grid=grid), nn.MSELoss(grid=grid)
                    self.second = nn.Linear(3, 3, grid=grid)
                    self.second.weight = self.first.weight
                    self.experts = nn.MixtureOfExperts(3, 5, 2, grid=grid, axis="a")

            shared = copy.deepcopy(Shared())
            self.assertIs(shared.first.weight, shared.second.weight)
            nn.initialize(shared, seed=1)
            rows = adjoin.place(torch.ones(2, 3), adjoin.Layout(grid, [2, 3]), grid)
            shared.loss(shared.experts(shared.second(shared.first(rows))), rows).local.sum().backward()
            self.assertIsNotNone(shared.first.weight.grad)

        on_each_world(work)

    def test_refuse_hooks_that_would_not_be_called(self):
        grid = adjoin.Grid(adjoin.Communicator(), {"a": 1})
        net = nn.Sequential(nn.Linear(2, 2, grid=grid), nn.Elementwise(torch.tanh))
        for module in (net, *net, nn.MSELoss(grid=grid)):
            for register in (module.register_full_backward_hook, module.register_full_backward_pre_hook, module.register_backward_hook):
                with self.assertRaisesRegex(adjoin.InvalidArgument, f"{type(module).__name__}: a backward hook of a layer on many"):
                    register(lambda *_: None)
        seen = []
        plain = nn.ColRow(2, 2, 2, grid=grid, axis="a")
        nn.initialize(plain, seed=1)
        plain.register_full_backward_hook(lambda *_: seen.append(1))
        plain(torch.ones(1, 2, requires_grad=True)).sum().backward()
        self.assertEqual(seen, [1])

    def test_say_by_their_own_name_what_they_expect(self):
        grid = adjoin.Grid(adjoin.Communicator(), {"a": 1})
        x = torch.ones(2, 4)
        placed = adjoin.place(x, adjoin.Layout(grid, [2, 4]), grid)
        for layer in (nn.Linear(4, 2, grid=grid), nn.Dropout(name="d"), nn.Elementwise(torch.tanh), nn.Upsample(size=2, grid=grid)):
            said = f"^{type(layer).__name__}: expected a DistributedTensor, got a Tensor; place it first"
            with self.assertRaisesRegex(adjoin.InvalidArgument, said):
                layer(x)
        loss = nn.MSELoss(grid=grid)
        for call in (lambda: loss(placed, x), lambda: loss(x, placed), lambda: placed + x, lambda: x + placed, lambda: placed * x,
                     lambda: adjoin.whole(x), lambda: adjoin.sum(x), lambda: adjoin.cat([placed, x]), lambda: adjoin.cat(x, placed, 0),
                     lambda: adjoin.move(x, placed.layout), lambda: adjoin.map(x, torch.tanh)):  # fmt: skip
            with self.assertRaisesRegex(adjoin.InvalidArgument, "expected a DistributedTensor, got a Tensor; place it first"):
                call()
        for call, error, text in (
            (lambda: nn.Linear(4, 2), TypeError, r"^Linear.__init__\(\) missing 1 required keyword-only argument: 'grid'"),
            (lambda: nn.Conv2d(3, grid=grid), TypeError, r"^Conv2d.__init__\(\) missing a required argument: 'out_channels'"),
            (lambda: nn.Dropout2d(), TypeError, r"^Dropout2d.__init__\(\) missing 1 required keyword-only argument: 'name'"),
            (lambda: nn.MSELoss(), TypeError, r"^MSELoss.__init__\(\) missing 1 required keyword-only argument: 'grid'"),
            (lambda: loss(placed), TypeError, r"^MSELoss.forward\(\) missing 1 required positional argument: 'target'"),
            (lambda: nn.Linear(4, 2, grid=2), adjoin.InvalidArgument, "^Linear: expected an adjoin.Grid as grid, got a int"),
            (lambda: nn.Linear("a", 2, grid=grid), adjoin.InvalidArgument, "^Linear: in_features cannot be 'a'"),
            (lambda: nn.Softmax(grid=grid), adjoin.InvalidArgument, "^Softmax: dim cannot be None"),
        ):
            with self.assertRaisesRegex(error, text):
                call()

    def test_say_what_does_not_fit(self):
        grid = adjoin.Grid(adjoin.Communicator(), {"a": 1})
        with self.assertRaisesRegex(adjoin.InvalidArgument, "expected 3 features in the last dim"):
            nn.Linear(3, 2, grid=grid)(adjoin.place(torch.ones(2, 4), adjoin.Layout(grid, [2, 4]), grid))
        with self.assertRaisesRegex(adjoin.InvalidArgument, "mode: 'cubic' is not supported"):
            nn.Upsample(size=3, mode="cubic", grid=grid)(adjoin.place(torch.ones(1, 1, 2), adjoin.Layout(grid, [1, 1, 2]), grid))
        with self.assertRaises(TypeError):
            nn.Conv2d(3, 2, grid=grid)


if __name__ == "__main__":
    unittest.main()
