"""Unchanged modules, among them models of transformers, laid out on a grid: as on one worker."""

import copy
import os
import tempfile
import unittest
import warnings
from unittest import mock

import torch
from torch.utils.checkpoint import checkpoint

import adjoin
from adjoin import nn
from worlds import equal, on_each_world

# A deep check runs all families.
NAMES = os.environ.get("ADJOIN_TEST_FAMILIES", "llama" if adjoin.started_by_mpi() else "bert llama t5").split()


class Net(torch.nn.Module):
    def __init__(self, p=0.0):
        super().__init__()
        self.words = torch.nn.Embedding(10, 8)
        self.up, self.down = torch.nn.Linear(8, 16), torch.nn.Linear(16, 10)
        self.drop = torch.nn.Dropout(p)
        self.register_buffer("scale", torch.tensor(2.0))
        self.double()

    def forward(self, ids):
        return self.down(self.drop(torch.nn.functional.gelu(self.up(self.words(ids) * self.scale))))


IDS = torch.arange(12).reshape(3, 4) % 10
CUTS = {"up.*": "outputs over tp", "down.weight": "inputs over tp"}


def loss_of(scores):
    return torch.nn.functional.cross_entropy(scores.reshape(-1, 10), IDS.roll(-1).reshape(-1))


def weighted_sum(x):
    return (x * torch.linspace(-1, 1, x.numel(), dtype=x.dtype).reshape(x.shape)).sum()


def net(p=0.0):
    return nn.seeded(1, lambda: Net(p))


class Distribute(unittest.TestCase):
    def near(self, found, expected, what):
        error = ((found - expected).abs() / expected.abs().clamp_min(1)).max().item() if expected.numel() else 0
        self.assertLess(error, 1e-12, what)

    def test_trains_with_an_optimizer_of_torch(self):
        optimizers = [
            lambda p: torch.optim.AdamW(p, lr=0.01, eps=1e-3),
            lambda p: torch.optim.AdamW(p, lr=0.01, eps=1e-3, foreach=True, amsgrad=True),
            lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
        ]

        def work(world):
            grid = adjoin.Grid(world, {"tp": world.size})
            for make in optimizers:
                plain, model = net(), net()
                adjoin.distribute(model, grid, CUTS)
                ours, theirs = make(model.parameters()), make(plain.parameters())
                for _ in range(3):
                    norms = []
                    for module, optimizer in ((model, ours), (plain, theirs)):
                        optimizer.zero_grad()
                        loss_of(module(IDS)).backward()
                        norms.append(torch.nn.utils.clip_grad_norm_(module.parameters(), 0.1))
                        optimizer.step()
                    self.near(adjoin.whole(norms[0]), norms[1], "norm")
                for (name, p), q in zip(model.named_parameters(), plain.parameters(), strict=True):
                    self.near(adjoin.whole(p.grad), q.grad, name)
                    self.near(adjoin.whole(p), q, name)

        on_each_world(work)

    def test_trains_with_our_optimizer(self):
        def work(world):
            results = []
            cut, whole = adjoin.Grid(world, {"tp": world.size}), adjoin.Grid(world, {"tp": 1})
            for grid, sharded in ((cut, False), (cut, True), (whole, False)):
                model = net()
                laid_out = adjoin.distribute(model, grid, CUTS)
                if not grid.has_me:
                    continue
                optimizer = adjoin.Optimizer(laid_out.shards() if sharded else laid_out.trained(), "adamw", clip=0.1)
                for _ in range(3):
                    loss_of(model(IDS)).backward()
                    optimizer.step(0.01)
                results.append(nn.gather_state(laid_out.parameters() if sharded else model))
            if world.rank == 0:
                for name in results[0]:
                    self.near(results[0][name], results[2][name], name)
                    self.near(results[1][name], results[2][name], "sharded " + name)

        on_each_world(work)

    def test_draws_the_same_masks_in_every_layout_and_again_where_it_is_computed_again(self):
        losses = []

        def gradients(model, laid_out, again):
            model.zero_grad()
            laid_out.begin(adjoin.Step(seed=3, number=5, training=True))
            x = laid_out.laid_out(IDS, "samples over dp")
            scores = checkpoint(model, x, use_reentrant=False, context_fn=laid_out.context_fn) if again else model(x)
            loss = loss_of(scores)
            loss.backward()
            return [adjoin.whole(loss).detach()] + [adjoin.whole(p.grad) for p in model.parameters()]

        def work(world):
            grid = adjoin.Grid(world, {"tp": 1, "dp": world.size})
            model = net(0.5)
            laid_out = adjoin.distribute(model, grid, CUTS)
            found = gradients(model, laid_out, False)
            for a, b in zip(gradients(model, laid_out, True), found, strict=True):
                self.near(a, b, "computed again")
            losses.append(found[0].item())
            loss = loss_of(checkpoint(model, IDS, use_reentrant=False))
            with self.assertRaisesRegex(RuntimeError, "context_fn"):
                loss.backward()

        on_each_world(work)
        for loss in losses:
            self.assertAlmostEqual(loss, losses[0], delta=1e-12)

    def test_keeps_what_modules_do(self):
        def work(world):
            grid = adjoin.Grid(world, {"tp": world.size})
            plain, model = net(), net()
            laid_out = adjoin.distribute(model, grid, CUTS)
            expected = plain(IDS)
            self.assertIn("up.weight [16, 8]", repr(laid_out))
            self.assertIn("global tensor [16]", repr(model.up.bias))
            self.assertIn("in_features=8", repr(model))
            self.assertTrue(adjoin.is_global(model.up.weight))
            self.assertFalse(adjoin.is_global(plain.up.weight))
            self.assertEqual(adjoin.local_of(model.down.bias).layout.shape, [10])
            with torch.no_grad():
                for p in model.parameters():
                    p.zero_()
            model.load_state_dict(plain.state_dict())  # whole tensors, which all ranks have
            equal(adjoin.whole(model(IDS)), expected)
            model.load_state_dict(model.state_dict())  # global ones
            equal(adjoin.whole(laid_out(IDS)), expected)
            state = {name: adjoin.whole(x) for name, x in model.state_dict().items()}
            equal(state["up.weight"], plain.up.weight)
            path = os.path.join(tempfile.gettempdir(), f"adjoin-distribute-{os.getppid()}-{world.size}.safetensors")
            adjoin.save_state(path, model, grid)
            with torch.no_grad():
                model.up.weight.zero_()
            adjoin.load_state(path, model)
            equal(adjoin.whole(model(IDS)), expected)
            optimizer = torch.optim.AdamW(model.parameters())
            loss_of(model(IDS)).backward()
            optimizer.step()
            moments = adjoin.state_of(optimizer, model)
            expected = adjoin.whole(optimizer.state[model.up.weight]["exp_avg"])
            world.barrier()
            adjoin.save_state(path, moments, grid)
            optimizer.state.clear()
            adjoin.load_state(path, adjoin.state_of(optimizer, model))
            equal(adjoin.whole(optimizer.state[model.up.weight]["exp_avg"]), expected)
            world.barrier()
            if world.rank == 0:
                os.remove(path)

        on_each_world(work)

    def test_refuses_in_one_line(self):
        def work(world):
            grid = adjoin.Grid(world, {"tp": world.size})
            model = net()
            for cuts, why in (
                ({"side.*": "outputs over tp"}, "names none"),
                ({"up.*": "outputs across tp"}, 'expected "over"'),
                ({"up.*": "outputs over pp"}, "pp"),
            ):
                with self.assertRaisesRegex(adjoin.InvalidArgument, why):
                    adjoin.distribute(model, grid, cuts)
            self.assertFalse(adjoin.is_global(model.up.weight))
            with self.assertRaisesRegex(adjoin.InvalidArgument, "Module"):
                adjoin.distribute(model.up.weight, grid, {})
            adjoin.distribute(model, grid, CUTS)
            with self.assertRaisesRegex(adjoin.InvalidArgument, "global or marked already"):
                adjoin.distribute(model, grid, CUTS)
            for reads in (torch.Tensor.data_ptr, torch.Tensor.untyped_storage, lambda x: x.detach().numpy()):
                with self.assertRaisesRegex(RuntimeError, "piece of a global tensor"):
                    reads(model.up.weight)
            with self.assertRaisesRegex(adjoin.InvalidArgument, "got a plain one"):
                adjoin.local_of(IDS)

        on_each_world(work, sizes=(2,))


class Automatic(unittest.TestCase):
    def test_finds_cuts_that_compute_the_same(self):
        plain = net()
        before = [p.clone() for p in plain.parameters()]
        found = adjoin.automatic(plain, adjoin.GridShape({"tp": 2}), IDS, computed=10)
        self.assertEqual(found["down.*"], "inputs over tp")
        self.assertEqual(found["up.*"], "outputs over tp")
        self.assertEqual(found.inputs, [])
        pasted = eval(repr(found), {"Cuts": adjoin.Cuts})
        self.assertEqual((dict(pasted), pasted.inputs), (dict(found), found.inputs))
        for p, q in zip(plain.parameters(), before, strict=True):
            equal(p, q)
        loss_of(plain(IDS)).backward()

        def work(world):
            grid = adjoin.Grid(world, {"tp": world.size})
            for cut in (False, True):
                model = net()
                cuts = adjoin.automatic(model, grid, {"ids": IDS}, {"ids": ["", "samples over tp"]} if cut else ())
                if not cut:
                    cuts["down.*"] = "inputs over tp"  # edited
                loss_of(adjoin.distribute(model, grid, cuts)(ids=IDS)).backward()
                for p, q in zip(model.parameters(), plain.parameters(), strict=True):
                    equal(adjoin.whole(p.grad), q.grad)

        on_each_world(work)

    def test_chooses_among_cuts_of_inputs_by_the_cost_of_moves(self):
        model = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(2, 1, 3, padding=1))
        grid, picture = adjoin.GridShape({"x": 2}), torch.zeros(1, 1, 64, 64)
        self.assertEqual(adjoin.automatic(model, grid, (picture,), ["dim 3 over x"]).inputs, ["dim 3 over x"])
        self.assertEqual(adjoin.automatic(model, grid, picture, [["", "dim 2 over x"]]).inputs, ["dim 2 over x"])
        self.assertEqual(adjoin.automatic(model, grid, picture, [["", "dim 2 over x"]], computed=0).inputs, [])
        moves = []

        def move(source, target, element_bytes):
            moves.append((source, target, element_bytes))
            return 0

        self.assertGreater(len(adjoin.automatic(model, grid, picture, move=move)), 0)
        self.assertIsInstance(moves[0][0], adjoin.Layout)
        self.assertEqual(adjoin.automatic(model, grid, picture, move=move, computed=0), {})

    def test_refuses_in_one_line(self):
        grid, model = adjoin.GridShape({"tp": 2}), net()
        for why, call in (
            ("torch.nn.Module, got a Parameter", lambda: adjoin.automatic(model.up.weight, grid, IDS)),
            ("it fails: IndexError: index out of range", lambda: adjoin.automatic(model, grid, IDS + 10)),
            ("it fails: TypeError", lambda: adjoin.automatic(model, grid, {"words": IDS})),
            ("pp", lambda: adjoin.automatic(model, grid, IDS, weights_over=["pp"])),
            ('expected "over"', lambda: adjoin.automatic(model, grid, IDS, "samples across tp")),
        ):
            with self.assertRaisesRegex(adjoin.InvalidArgument, why) as refused:
                call()
            self.assertNotIn("\n", str(refused.exception))
        adjoin.automatic(model, grid, IDS)  # what failed left nothing behind


class Transformers(unittest.TestCase):
    # Some layers compute in float32 whatever the type of their weights, in which results depend on the order of sums.
    @mock.patch.object(torch, "float32", torch.float64)
    @mock.patch.object(torch.Tensor, "float", torch.Tensor.double)
    def test_compute_what_they_compute_on_one_worker(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import families
        for name in families.FAMILIES if NAMES == ["all"] else NAMES:
            model, arguments, cuts = families.made(name)
            model.eval()
            plain = copy.deepcopy(model)
            expected = plain(**arguments).logits
            weighted_sum(expected).backward()

            def work(world):
                for axis, inputs, is_found in (("tp", (), False), ("tp", (), True), ("dp", "samples over dp", True)):
                    mine = copy.deepcopy(model)  # noqa: B023
                    grid = adjoin.Grid(world, {axis: world.size})
                    chosen = adjoin.automatic(mine, grid, arguments, inputs) if is_found else cuts  # noqa: B023
                    laid_out = adjoin.distribute(mine, grid, chosen)
                    scores = laid_out(**arguments).logits  # noqa: B023
                    Distribute.near(self, adjoin.whole(scores), expected, name)  # noqa: B023
                    weighted_sum(scores).backward()
                    for (of, p), q in zip(mine.named_parameters(), plain.parameters(), strict=True):  # noqa: B023
                        self.assertEqual(p.grad is None, q.grad is None, of)
                        if q.grad is not None:
                            Distribute.near(self, adjoin.whole(p.grad), q.grad, f"{name} {axis} {of}")  # noqa: B023

            with self.subTest(name):
                on_each_world(work, sizes=(1, 2, 3) if NAMES == ["all"] else (2, 3))


if __name__ == "__main__":
    unittest.main()
