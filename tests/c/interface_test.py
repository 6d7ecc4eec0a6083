"""adjoin.h as a solver calls it: one network over blocks of a domain equals one rank's, and every misuse is an error."""

import ctypes as c
import importlib.util
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings
from pathlib import Path

import numpy as np
from library import (COLUMNS_FIRST, COMMUNICATION, INVALID, IO, LIBRARY, NO_MEMORY, ROWS_FIRST, UNSUPPORTED, Array, Failure, Network, Options, arrays,
                     Samples, backward, blocks_of, check, described, loss, points_of, run_threads)

UNET = {"inputs": 2, "padding": ["periodic", "periodic", ["replicate", 0.5]], "layers": [
    {"type": "conv", "out": 4}, "gelu", {"name": "fine", "type": "conv", "out": 4}, "avgpool",
    {"type": "conv", "out": 6}, "tanh", {"name": "up", "type": "up", "out": 3, "like": "fine"},
    {"type": "cat", "of": ["up", "fine"]}, {"type": "conv", "out": 4}, {"name": "r", "type": "silu"},
    {"name": "k", "type": "conv", "out": 4, "kernel": 1}, {"type": "add", "of": ["k", "r"]}, {"type": "conv", "out": 1, "kernel": 1}]}


# Rank 1 lacks the addresses for what its layers make, 2 GiB for a pass that trains.
LITTLE_MEMORY = """
import resource
import numpy as np
from library import Failure, Network, Samples, blocks_of, run_threads

def lack(world, rank):
    n = 2**20 if rank == 1 else 2**4
    blocks, x = blocks_of(world, (2**20 + 2**4,), (2**4 * rank,), (n,)), np.ones(n)
    network = Network(blocks, {"inputs": 1, "layers": [{"type": "conv", "out": 256}, {"type": "conv", "out": 1}]})
    samples, told = Samples(network, 2), []
    samples.add([x], [x])
    for action in (lambda: network.infer([x], [x]), lambda: network.forward([x]), lambda: samples.draw(1)):
        try:
            action()
        except Failure as failure:
            told.append((failure.code, failure.rank, "allocate memory" in str(failure)))
    Network(blocks, {"inputs": 1, "layers": ["relu"]}).infer([x], [x])
    return told

in_use = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (in_use + (1 << 30), resource.RLIM_INFINITY))
print(run_threads(2, lack))
"""


def imported(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def cut(size, parts, draw):
    """Random starts of so many parts, some of which may have one cell."""
    inner = sorted(draw.sample(range(1, size), parts - 1))
    return [0, *inner], [b - a for a, b in zip([0, *inner], [*inner, size])]


def blocks_of_all(shape, parts, ranks, draw):
    """Each rank's starts and sizes in a random Cartesian arrangement; ranks beyond it have no cells."""
    of_dims = [cut(size, count, draw) for size, count in zip(shape, parts)]
    found = []
    for cell in np.ndindex(*parts):
        found.append(([of_dims[d][0][i] for d, i in enumerate(cell)], [of_dims[d][1][i] for d, i in enumerate(cell)]))
    found += [([0] * len(shape), [0] * len(shape))] * (ranks - len(found))
    draw.shuffle(found)
    return found


def random_network(draw, shape):
    """Its layers keep the size, or halve and restore it."""
    dims, along = len(shape), draw.randrange(len(shape))
    pad = lambda: draw.choice(["zeros", "periodic", "replicate", "reflect", ["zeros", "replicate"], [1.5, "reflect"], [0.5, -1]])
    layers = [{"type": "conv", "out": 4, "kernel": draw.choice([1, 3, 3, 5])}]
    for _ in range(draw.randrange(1, 4)):
        layers.append(draw.choice([
            "relu", "gelu", "softplus", {"type": "conv", "out": 4, "groups": 2}, {"type": "conv", "out": 4, "dilation": 2},
            {"type": "batchnorm"}, {"type": "groupnorm", "groups": 2}, {"type": "dropout", "p": 0.3}, {"type": "instancenorm"},
            {"type": "linear", "dim": along, "out": shape[along]}]))
    layers[-1] = layers[-1] if isinstance(layers[-1], dict) else {"type": layers[-1]}
    layers[-1]["name"] = "last"
    if draw.random() < 0.6:
        layers += [draw.choice(["maxpool", "avgpool", {"type": "conv", "out": 4, "stride": 2}]), {"type": "conv", "out": 4}]
        layers.append(draw.choice([{"type": "up", "out": 4, "like": "last"}, {"type": "upsample", "like": "last", "mode": "linear"},
                                   {"type": "upsample", "like": "last"}]))
        layers += [{"name": "up", "type": "identity"}, {"type": draw.choice(["add", "cat"]), "of": ["up", "last"]}]
    layers.append({"type": "conv", "out": 2})
    return {"inputs": 2, "padding": [pad() for _ in range(dims)], "layers": layers}


def train(world, blocks, description, fields, optimizer, loss_kind="mse", steps=3, order=ROWS_FIRST):
    """What a rank finds out: outputs, losses, gradients of the first step, and the weights at the end."""
    starts, sizes = blocks
    shape = fields["x"].shape[1:]
    own = tuple(slice(a, a + n) for a, n in zip(starts, sizes))
    handle = blocks_of(world, shape, starts, sizes, order)
    network = Network(handle, description, optimizer=optimizer)
    x, target = (np.asfortranarray(fields[name][(slice(None), *own)]) for name in ("x", "target"))
    weights = fields["weights"][own]
    found = {"loss": []}
    for step in range(steps):
        given, y, gradient = x.copy(), np.zeros_like(target), np.zeros_like(x)
        handle = network.forward([described(given, 0)], [described(y, 0)], input_gradients=step == 0)
        given[...] = np.nan  # a pass keeps no memory of the solver's
        found["loss"].append(loss(handle, [described(target, 0)], loss_kind, weights if step > 0 else None))
        backward(handle, [], [described(gradient, 0)] if step == 0 else [])
        if step == 0:
            found |= {"output": (own, y), "input gradient": (own, gradient), "gradients": network.read(1)}
        network.step()
    found["weights"] = network.read(0)
    return found


def whole(results, what, like):
    """The global field of which each rank has a part."""
    field = np.full((results[0][what][1].shape[0], *like.shape[1:]), np.nan)
    for result in results:
        own, part = result[what]
        field[(slice(None), *own)] = part
    return field


class OneNetwork(unittest.TestCase):
    def expect_close(self, found, expected, bound, what):
        self.assertFalse(np.isnan(found).any(), what)
        self.assertLessEqual(np.max(np.abs(found - expected) / np.maximum(1, np.abs(expected)), initial=0), bound, what)

    def expect_same(self, shape, parts, ranks, description, optimizer, draw, **more):
        fields = {"x": np.array([[draw.gauss(0, 1) for _ in range(int(np.prod(shape)))] for _ in range(2)]).reshape(2, *shape)}
        outputs = 1 if description is UNET else 2
        fields["target"] = np.array([draw.gauss(0, 1) for _ in range(outputs * int(np.prod(shape)))]).reshape(outputs, *shape)
        fields["weights"] = np.abs(fields["target"][0]) + 0.1
        blocks = blocks_of_all(shape, parts, ranks, draw)
        one, = run_threads(1, lambda world, _: train(world, ([0] * len(shape), shape), description, fields, optimizer, **more))
        all_of = run_threads(ranks, lambda world, rank: train(world, blocks[rank], description, fields, optimizer, **more))
        text = f"{description} on {blocks} of {shape}"
        for what in ("output", "input gradient"):
            self.expect_close(whole(all_of, what, fields["x"]), whole([one], what, fields["x"]), 1e-12, f"{what}: {text}")
        for result in all_of:
            self.expect_close(np.array(result["loss"]), np.array(one["loss"]), 1e-12, text)
            for name, gradient in one["gradients"].items():
                self.expect_close(result["gradients"][name], gradient, 1e-12, f"gradient of {name}: {text}")
            bound = 1e-9 if optimizer.get("rule", "adamw") == "adamw" else 1e-12
            for name, weight in one["weights"].items():
                self.expect_close(result["weights"][name], weight, bound, f"{name}: {text}")

    def test_is_one_ranks_with_walls_and_periodic_dims(self):
        draw = random.Random(1)
        for parts in ((2, 1, 1), (1, 2, 2), (1, 1, 3)):
            for order in (ROWS_FIRST, COLUMNS_FIRST):
                self.expect_same((6, 5, 7), parts, int(np.prod(parts)), UNET, {"rule": "sgd", "rate": 0.05, "momentum": 0.9}, draw, order=order)

    def test_is_one_ranks_for_random_networks_and_blocks(self):
        for seed in range(int(os.environ.get("ADJOIN_TEST_SCALE", "1")) * 24):
            draw = random.Random(seed)
            dims = draw.randrange(1, 4)
            shape = tuple(draw.randrange(5, 12 if dims < 3 else 8) for _ in range(dims))
            parts = [draw.choice([1, 2, 3]) for _ in range(dims)]
            while np.prod(parts) > 6:
                parts[draw.randrange(dims)] = 1
            optimizer = draw.choice([{"rule": "sgd", "rate": 0.05, "clip": 0.5}, {"rate": 0.01, "decay": 0.1, "warmup": 2}])
            with self.subTest(seed=seed):
                self.expect_same(shape, parts, int(np.prod(parts)) + draw.choice([0, 0, 1]), random_network(draw, shape), optimizer, draw,
                                 loss_kind=draw.choice(["mse", "mae", "huber"]), steps=20 if seed in (0, 3, 7) else 3)

    def test_is_one_ranks_where_several_layers_read_the_input(self):
        """The first finds room for its halo around the input; those of others are wider, or other numbers."""
        conv = {"type": "conv", "out": 2}
        description = {"inputs": 2, "layers": [dict(conv, name="a"), dict(conv, name="b", of="input", kernel=5), dict(conv, name="c", of="input", padding=1.5),
                                               {"type": "cat", "of": ["a", "b", "c", "input", "input"]}, conv]}
        draw = random.Random(6)
        for shape, parts in (((7, 6), (3, 1)), ((7, 6), (2, 2)), ((4, 5, 6), (1, 1, 2))):
            self.expect_same(shape, parts, int(np.prod(parts)), description, {"rule": "sgd", "rate": 0.05}, draw)

    def test_is_one_ranks_where_blocks_have_one_cell_and_kernels_are_wider(self):
        description = {"inputs": 2, "layers": [{"type": "conv", "out": 3, "kernel": 5}, "tanh", {"type": "conv", "out": 2, "padding": "periodic", "kernel": 3}]}
        self.expect_same((6, 2), (6, 1), 7, description, {"rule": "sgd"}, random.Random(3))

    def test_is_one_ranks_along_a_whole_dim(self):
        along = lambda dim, out: {"type": "linear", "dim": dim, "out": out}
        draw = random.Random(5)
        for shape, parts, ranks, order, optimizer in (((6, 5), (3, 1), 3, ROWS_FIRST, {"rule": "sgd", "rate": 0.05}), ((5, 4, 6), (2, 1, 2), 5, COLUMNS_FIRST, {}),
                                                      ((3,), (2,), 2, ROWS_FIRST, {"rate": 0.01})):
            layers = [{"type": "conv", "out": 3}, along(0, 2 * shape[0]), "tanh", along(len(shape) - 1, 3), along(0, shape[0]), along(len(shape) - 1, shape[-1]),
                      {"type": "linear", "out": 2}]
            self.expect_same(shape, parts, ranks, {"inputs": 2, "layers": layers}, optimizer, draw, order=order)

        def apply(world, own, end):
            network = Network(blocks_of(world, (2, 5), (0, own.start), (2, own.stop - own.start)), {"inputs": 1, "layers": [along(1, 8)]})
            y = np.zeros((2, end))
            network.infer([x[:, own]], [y])
            return y

        x = np.random.default_rng(1).normal(size=(2, 5))
        one, = run_threads(1, lambda world, _: apply(world, slice(0, 5), 8))
        two = run_threads(2, lambda world, rank: apply(world, (slice(0, 2), slice(2, 5))[rank], 4))  # 2 of 5 begin at ceil(2 * 8 / 5)
        self.expect_close(np.concatenate(two, 1), one, 1e-12, "scaled blocks")

    def test_is_pytorchs_network(self):
        import torch
        from torch.nn import functional as F
        description = {"inputs": 1, "layers": [{"name": "a", "type": "conv", "out": 3, "padding": ["periodic", ["replicate", 2.0]]}, "gelu",
                                               {"name": "b", "type": "conv", "out": 1, "kernel": [1, 3]}]}
        x = np.random.default_rng(1).normal(size=(1, 5, 6))

        def apply(world, _):
            network, y = Network(blocks_of(world, (5, 6), (0, 0), (5, 6)), description), np.zeros((5, 6))
            network.infer([described(x, 0)], [y])
            return {name: torch.from_numpy(weight) for name, weight in network.read(0).items()}, y

        (w, y), = run_threads(1, apply)
        t = F.pad(F.pad(torch.from_numpy(x)[None], (0, 0, 1, 1), mode="circular"), (1, 0, 0, 0), mode="replicate")
        t = F.gelu(F.conv2d(F.pad(t, (0, 1), value=2.0), w["a.weight"], w["a.bias"]))
        self.expect_close(y, F.conv2d(t, w["b.weight"], w["b.bias"], padding=(0, 1))[0, 0].numpy(), 1e-12, "PyTorch")

    def test_is_the_module_of_the_same_description_in_python(self):
        import torch
        insitu = imported(Path(__file__).resolve().parents[2] / "python" / "adjoin" / "insitu.py")

        def apply(world, description, shape, order, path):
            network = Network(blocks_of(world, shape, [0] * len(shape), shape, order), description, optimizer={}, seed=3)
            x = np.asfortranarray(np.random.default_rng(4).normal(size=(2, *shape)))
            y = np.zeros((2, *shape), order="F")
            handle = network.forward([described(x, 0)])
            loss(handle, [described(y, 0)])
            backward(handle)
            network.step()
            network.save(path)
            network.infer([described(x, 0)], [described(y, 0)])
            return x, y

        with tempfile.TemporaryDirectory() as folder:
            for seed in range(12):
                draw, path = random.Random(100 + seed), Path(folder) / f"{seed}.safetensors"
                dims, order = draw.randrange(1, 4), draw.choice([ROWS_FIRST, COLUMNS_FIRST])
                shape = tuple(draw.randrange(5, 9) for _ in range(dims))
                description, along = random_network(draw, shape), draw.randrange(dims)
                description["layers"].insert(draw.choice([0, 1]), {"type": "linear", "dim": along, "out": shape[along]})
                if seed % 2 == 0:  # which meet in corners
                    description["padding"] = [draw.choice(["zeros", 7.5, [2.5, "zeros"], ["replicate", 3]]) for _ in range(dims)]
                description["layers"].append({"type": "normalise", "mean": [1, 2], "deviation": 3, "inverse": True})
                (x, y), = run_threads(1, lambda world, _: apply(world, description, shape, order, path))
                module = insitu.network(description, dims=dims, order=("rows", "columns")[order], dtype=torch.float64).load(path).eval()
                turn = (lambda a: a.transpose(0, *range(dims, 0, -1))) if order == COLUMNS_FIRST else (lambda a: a)
                found = module(torch.from_numpy(np.ascontiguousarray(turn(x)))[None]).detach()[0].numpy()
                self.expect_close(found, turn(y), 1e-12, f"{description} of {shape}")

    def test_runs_programs_of_pytorch_on_blocks(self):
        import torch
        from torch import nn

        class Closure(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.norm, self.drop = nn.Conv2d(4, 6, 3, padding=1), nn.BatchNorm2d(6), nn.Dropout(0.2)
                self.inner, self.up, self.last = nn.Conv2d(6, 6, 3, padding=1), nn.ConvTranspose2d(6, 4, 2, 2), nn.Conv2d(10, 3, 3, padding=1)

            def forward(self, x):
                fine = nn.functional.gelu(self.norm(self.first(x)))
                coarse = torch.tanh(self.inner(nn.functional.avg_pool2d(self.drop(fine), 2)))
                return self.last(torch.cat([self.up(coarse), fine], 1))

        python = Path(__file__).resolve().parents[2] / "python" / "adjoin"
        torch.manual_seed(1)
        with tempfile.TemporaryDirectory() as folder:
            path, saved = str(Path(folder) / "closure.pt2"), Path(folder) / "saved.safetensors"
            any_size = str(Path(folder) / "any_size.pt2")
            with warnings.catch_warnings(action="ignore"):
                export, dynamic = imported(python / "program.py").export_program, torch.export.Dim.DYNAMIC
                export(Closure(), torch.ones(1, 4, 8, 6), path, check=False, dynamic_shapes=({},))
                export(nn.Conv2d(2, 2, 3, padding=1), torch.ones(2, 2, 5, 5), any_size, check=False, dynamic_shapes=({0: dynamic, 2: dynamic, 3: dynamic},))
                torch.export.save(torch.export.export(nn.Conv1d(1, 1, 1), (torch.ones(1, 1, 4),)), str(Path(folder) / "one_graph.pt2"))
            one_graph = {"inputs": 1, "layers": [{"type": "program", "file": str(Path(folder) / "one_graph.pt2")}]}
            with self.assertRaisesRegex(RuntimeError, "has no graph of eval mode"):
                imported(python / "insitu.py").network(one_graph, dims=1).eval()(torch.ones(1, 1, 4))
            description = {"inputs": 2, "padding": "periodic", "layers": [
                {"type": "program", "file": any_size}, {"type": "conv", "out": 4}, {"name": "net", "type": "program", "file": path}, {"type": "conv", "out": 2}]}
            for parts, ranks, optimizer in (((2, 1), 2, {"rule": "sgd", "rate": 0.05}), ((2, 2), 5, {"rate": 0.01, "clip": 1})):
                self.expect_same((8, 6), parts, ranks, description, optimizer, random.Random(ranks))

            def restart(world, rank, ranks, load, save):
                own = slice(8 // ranks * rank, 8 // ranks * (rank + 1))
                network = Network(blocks_of(world, (8, 6), (own.start, 0), (8 // ranks, 6)), description, optimizer={})
                if load:
                    network.load(saved)
                x, y = fields[:, own].copy(), np.zeros_like(fields[:, own])
                handle = network.forward([described(x, 0)])
                value = loss(handle, [described(y, 0)])
                backward(handle)
                if save:
                    network.step()
                    network.save(saved)
                network.infer([described(x, 0)], [described(y, 0)])
                return value, y

            fields = np.random.default_rng(1).normal(size=(2, 8, 6))
            after = np.concatenate([y for _, y in run_threads(2, lambda world, rank: restart(world, rank, 2, False, True))], 1)
            module = imported(python / "insitu.py").network(description, dims=2, dtype=torch.float64).load(saved).eval()
            self.expect_close(module(torch.from_numpy(fields)[None]).detach()[0].numpy(), after, 1e-12, "the module in Python")
            one, four = (run_threads(ranks, lambda world, rank: restart(world, rank, ranks, True, False))[0][0] for ranks in (1, 4))
            self.assertAlmostEqual(one, four, delta=1e-12)

            def refuse(world, rank):
                blocks = blocks_of(world, (8, 6), (4 * rank, 0), (4, 6))
                told = []
                for file, channels in ((path, 5), (__file__, 4), (os.path.relpath(path, "." if rank == 0 else ".."), 4)):
                    layers = [{"type": "conv", "out": channels}, {"name": "net", "type": "program", "file": file}]
                    told.append(str(Misuse().failure(lambda: Network(blocks, {"inputs": 2, "layers": layers}))))
                return told

            first, second = run_threads(2, refuse)
            self.assertEqual(first, second)
            self.assertTrue(first[0].startswith("layer 'net': expected a program of [1, 5, 8, 6], got one of Float [1, 4, 8, 6]"), first)
            self.assertTrue(first[1].startswith(f"layer 'net': rank 0: {__file__}"), first)

    def test_takes_slices_of_any_type_batches_and_many_arrays(self):
        def apply(world, rank):
            network = Network(blocks_of(world, (4, 6), (0, 3 * rank), (4, 3), COLUMNS_FIRST), {"inputs": 2, "layers": [{"type": "conv", "out": 2}]})
            values = np.random.default_rng(2).normal(size=(3, 2, 4, 6)).astype(np.float32)
            own = values[..., 3 * rank:3 * rank + 3]
            ghosts = np.full((3, 2, 8, 7), np.nan, dtype=np.float32, order="F")
            ghosts[:, :, 2:6, 2:5] = own
            batch = np.zeros((3, 2, 4, 3))
            network.infer([described(ghosts[:, :, 2:6, 2:5], 1, 0)], [described(batch, 1, 0)])
            for sample in range(3):
                a, b = np.zeros((4, 3), order="F"), np.zeros((4, 3), dtype=np.float32)
                network.infer([own[sample, 0], own[sample, 1].astype(np.float64)], [a, b])
                self.expect_close(a, batch[sample, 0], 1e-12, "first channel")
                self.expect_close(b, batch[sample, 1], 1e-6, "second channel")
                inplace = own[sample].astype(np.float64)
                network.infer([described(inplace, 0)], [described(inplace, 0)])
                self.expect_close(inplace[0], a, 1e-12, "in place")
            return True

        self.assertTrue(all(run_threads(2, apply)))

    def test_unrolls_steps_with_the_solvers_own_adjoint_between_them(self):
        """u <- u + 0.1 N(2 u), four times; the gradient of sum(u * r), against differences."""
        description = {"inputs": 1, "layers": [{"type": "conv", "out": 4, "padding": "periodic"}, "tanh", {"type": "conv", "out": 1}]}
        start, r = (np.random.default_rng(seed).normal(size=8) for seed in (1, 2))

        def unroll(world, rank):
            own = slice(4 * rank, 4 * rank + 4)
            network = Network(blocks_of(world, (8,), (own.start,), (4,)), description)

            def value(u0):
                u = u0[own].copy()
                for _ in range(4):
                    y = np.zeros(4)
                    network.infer([2 * u], [y])
                    u = u + 0.1 * y
                return u @ r[own]

            u, passes = start[own].copy(), []
            for _ in range(4):
                y = np.zeros(4)
                passes.append(network.forward([2 * u], [y], input_gradients=True))
                u = u + 0.1 * y
            g = r[own].copy()
            for handle in reversed(passes):
                of_input = np.zeros(4)
                backward(handle, [0.1 * g], [of_input])
                g = g + 2 * of_input
            differences = []
            for i in range(8):
                e = np.eye(8)[i] * 1e-6
                differences.append((value(start + e) - value(start - e)) / 2e-6)
            return g, np.array(differences), network.read(1)

        first, second = run_threads(2, unroll)
        self.expect_close(np.concatenate([first[0], second[0]]), first[1] + second[1], 1e-8, "gradient of the start")
        self.assertGreater(np.abs(first[2]["0.weight"]).max(), 1e-3)
        np.testing.assert_array_equal(first[2]["0.weight"], second[2]["0.weight"])

    def test_sends_one_message_a_neighbour_and_layer_and_at_most_seven_collectives_a_step(self):
        description = dict(UNET, padding="periodic")
        x = np.random.default_rng(1).normal(size=(2, 8, 8, 8))

        def count(world, rank):
            found = []
            for order, optimizer in ((0, {}), (1, {"rule": "sgd", "decay": 0.1, "clip": 1})):
                network = Network(blocks_of(world, (8, 8, 8), (4 * rank, 0, 0), (4, 8, 8)), description, optimizer=optimizer)
                own = x[:, 4 * rank:4 * rank + 4]
                for step in range(2):
                    counts = [c.c_int64() for _ in range(4)]
                    check(LIBRARY.adjoin_world_counts(world, *(c.byref(n) for n in counts)))
                    handle = network.forward([described(own, 0)], input_gradients=order == 1)
                    loss(handle, [own[0]])
                    backward(handle)
                    network.step()
                check(LIBRARY.adjoin_world_counts(world, *(c.byref(n) for n in counts)))
                found.append([n.value for n in counts])
            return found

        # Four convolutions, to the left and right, forward and backward, where the first goes back for gradients of the inputs alone.
        for without, with_ in run_threads(2, count):
            for (messages, size, collectives, of_collectives), expected in ((without, 14), (with_, 16)):
                self.assertEqual((messages, collectives), (expected, 7))
                self.assertGreater(min(size, of_collectives), 0)

    def test_normalises_by_what_all_ranks_observed(self):
        fields = [np.random.default_rng(seed).normal(300, 2, size=(2, 9, 4)) * [[[1]], [[1e-3]]] for seed in range(3)]
        fields[0][:, 4:] += 5
        description = {"inputs": 2, "layers": [{"name": "in", "type": "normalise"}, {"type": "linear", "out": 2},
                                               {"name": "out", "type": "normalise", "inverse": True}]}

        def observe(world, ranks, rank, path=None):
            own = slice(9 * rank // ranks, 9 * (rank + 1) // ranks)
            network = Network(blocks_of(world, (9, 4), (own.start, 0), (own.stop - own.start, 4)), description, optimizer={"rule": "sgd", "rate": 0.1})
            for field in fields:
                network.observe("in", [described(field[:, own], 0)])
                network.observe("out", [described(field[:, own], 0)])
            y = np.zeros_like(fields[0][:, own])
            handle = network.forward([described(fields[0][:, own], 0)], [described(y, 0)])
            value = loss(handle, [described(fields[1][:, own], 0)])
            backward(handle)
            network.step()
            network.save(path)
            other = Network(blocks_of(world, (9, 4), (own.start, 0), (own.stop - own.start, 4)), description, seed=5)
            other.load(path, weights_only=True)
            again, z = (np.zeros_like(y) for _ in range(2))
            network.infer([described(fields[0][:, own], 0)], [described(z, 0)])
            other.infer([described(fields[0][:, own], 0)], [described(again, 0)])
            np.testing.assert_array_equal(again, z)
            return value, network.read(0), y

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "network.safetensors"
            (value, one, y), = run_threads(1, lambda world, rank: observe(world, 1, 0, path))
            cells = np.stack(fields, 1).reshape(2, -1)
            mean, deviation = cells.mean(1), cells.std(1)
            self.expect_close(one["in.mean"] / mean, 1, 1e-13, "mean")
            self.expect_close(one["out.deviation"] / deviation, 1, 1e-9, "deviation")
            self.expect_close(value, np.mean(((y - fields[1]) / deviation[:, None, None]) ** 2), 1e-9, "the loss is of normalised differences")
            for other, weights, _ in run_threads(3, lambda world, rank: observe(world, 3, rank, path)):
                self.expect_close(other, value, 1e-9, "loss")
                for name, weight in one.items():
                    self.expect_close(weights[name], weight, 1e-9, name)

    def test_draws_the_same_samples_on_any_ranks(self):
        fields = np.random.default_rng(3).normal(size=(7, 2, 8, 3))
        description = {"inputs": 1, "layers": [{"type": "conv", "out": 4}, "tanh", {"type": "conv", "out": 1}]}

        def train_on(world, rank, ranks):
            own = slice(8 * rank // ranks, 8 * (rank + 1) // ranks)
            network = Network(blocks_of(world, (8, 3), (own.start, 0), (own.stop - own.start, 3)), description, optimizer={"rule": "sgd", "rate": 0.1})
            samples, losses = Samples(network, 4, seed=9), []
            for x, target in fields[:, :, own]:
                given = x.copy()
                samples.add([given], [target])
                given[...] = np.nan
            for batch in (1, 1, 1, 1, 1, 1, 1, 1, 3, 4):
                value, handle = samples.draw(batch)
                losses.append(value)
                if batch == 4:
                    backward(handle)
                    network.step()
                else:
                    check(LIBRARY.adjoin_pass_destroy(c.byref(handle)))
            for x, target in fields[3:, :, own]:
                handle = network.forward([x])
                losses.append(loss(handle, [target]))
                check(LIBRARY.adjoin_pass_destroy(c.byref(handle)))
            with self.assertRaisesRegex(Failure, "batch: expected 1 to the 4 samples that are kept, got 5"):
                samples.draw(5)
            check(LIBRARY.adjoin_samples_destroy(c.byref(samples.handle)))
            return losses, network.read(0)["0.weight"]

        (one, weight), = run_threads(1, lambda world, rank: train_on(world, rank, 1))
        self.assertGreater(len(set(one[:8])), 2)
        self.assertLessEqual(len(set(one[:8])), 4)
        for losses, other in run_threads(3, lambda world, rank: train_on(world, rank, 3)):
            self.expect_close(np.array(losses), np.array(one), 1e-12, "losses")
            self.expect_close(other, weight, 1e-12, "weights")

    def test_trains_another_network_in_each_part_of_a_world(self):
        x, target = (np.random.default_rng(seed).normal(size=(6, 4)) for seed in (1, 2))

        def train_in(world, rank, size, seed):
            sizes = (6 // size, 4)
            own = slice(sizes[0] * rank, sizes[0] * (rank + 1))
            blocks = blocks_of(world, (6, 4), (own.start, 0), sizes)
            network = Network(blocks, {"inputs": 1, "layers": [{"type": "conv", "out": 1}]}, seed=seed, optimizer={"rule": "sgd", "rate": 0.1})
            for _ in range(2 + seed):  # parts do not wait for each other
                handle = network.forward([x[own]])
                loss(handle, [target[own]])
                backward(handle)
                network.step()
            found = network.read(0)
            wrong = self.assertRaisesRegex(Failure, "rank 0: 1st array of inputs") if size > 1 else None
            if wrong:
                with wrong:
                    network.infer([x[own] if rank > 0 else x], [])
            for free, of in ((LIBRARY.adjoin_network_destroy, network.handle), (LIBRARY.adjoin_blocks_destroy, blocks)):
                check(free(c.byref(of)))
            return found

        def split(world, rank):
            part, color = c.c_uint64(), (-1, 0, 1, 0, 1, 1)[rank]
            check(LIBRARY.adjoin_world_split(world, color, -rank, c.byref(part)))
            if color < 0:
                self.assertEqual(part.value, 0)
                return None
            own, size = c.c_int32(), c.c_int32()
            check(LIBRARY.adjoin_world_rank(part, c.byref(own), c.byref(size)))
            self.assertEqual((size.value, own.value), (2, {3: 0, 1: 1}[rank]) if color == 0 else (3, {5: 0, 4: 1, 2: 2}[rank]))
            found = train_in(part, own.value, size.value, color)
            check(LIBRARY.adjoin_world_destroy(c.byref(part)))
            return color, found

        alone = [run_threads(1, lambda world, rank: train_in(world, 0, 1, seed))[0] for seed in (0, 1)]
        for color, found in run_threads(6, split)[1:]:
            self.expect_close(found["0.weight"], alone[color]["0.weight"], 1e-12, "weights")

    def test_takes_points(self):
        x, target = (np.random.default_rng(seed).normal(size=(11, 3)) for seed in (1, 2))
        description = {"inputs": 3, "layers": [{"type": "linear", "out": 8}, {"type": "batchnorm"}, "tanh", {"type": "linear", "out": 3}]}

        def train_on(world, own):
            blocks = points_of(world, own.stop - own.start)
            network, y = Network(blocks, description, optimizer={}), np.zeros((own.stop - own.start, 3))
            for _ in range(3):
                handle = network.forward([described(x[own], 1)], [described(y, 1)])
                loss(handle, [described(target[own], 1)], "huber")
                backward(handle)
                network.step()
            with self.assertRaisesRegex(Failure, '"kernel": expected 1, as points have no neighbours'):
                Network(blocks, {"inputs": 1, "layers": [{"type": "conv", "out": 1}]})
            return y, network.read(0)

        (one, weights), = run_threads(1, lambda world, rank: train_on(world, slice(0, 11)))
        cuts = [slice(0, 5), slice(5, 5), slice(5, 11)]
        results = run_threads(3, lambda world, rank: train_on(world, cuts[rank]))
        self.expect_close(np.concatenate([y for y, _ in results]), one, 1e-9, "outputs")
        for _, found in results:
            for name, weight in weights.items():
                self.expect_close(found[name], weight, 1e-9, name)
        self.assertEqual(str(Misuse().failure(lambda: run_threads(1, lambda world, rank: points_of(world, -1)))),
                         "points: rank 0: expected a number of points, got -1")

    def test_trains_one_network_with_the_members_of_an_ensemble(self):
        x, target = (np.random.default_rng(seed).normal(size=(2, 6, 4)) for seed in (1, 2))
        description = {"inputs": 1, "layers": [{"type": "conv", "out": 3, "padding": "periodic"}, {"type": "batchnorm"}, "gelu",
                                               {"type": "linear", "dim": 0, "out": 6}, {"type": "conv", "out": 1}]}

        def train_on(world, rank, members):
            own = (slice(None) if members == 1 else slice(rank // 2, rank // 2 + 1), slice(0, 6) if members == 1 else slice(4 * (rank % 2), 4 + 2 * (rank % 2)))
            starts, sizes = (own[1].start, 0), (own[1].stop - own[1].start, 4)
            network = Network(blocks_of(world, (6, 4), starts, sizes, member=rank // 2), description, optimizer={"rule": "sgd", "rate": 0.1})
            losses, y = [], np.zeros_like(x[own])
            for _ in range(3):
                handle = network.forward([described(x[own], -1, 0)], [described(y, -1, 0)])
                losses.append(loss(handle, [described(target[own], -1, 0)]))
                backward(handle)
                network.step()
            return losses, own, y, network.read(0)

        (one, _, whole_output, weights), = run_threads(1, lambda world, rank: train_on(world, rank, 1))
        for losses, own, y, found in run_threads(4, lambda world, rank: train_on(world, rank, 2)):
            self.expect_close(np.array(losses), np.array(one), 1e-12, "losses")
            self.expect_close(y, whole_output[own], 1e-12, "outputs")
            for name, weight in weights.items():
                self.expect_close(found[name], weight, 1e-12, name)
        told = run_threads(2, lambda world, rank: str(Misuse().failure(lambda: blocks_of(world, (6,), (0,), (6 - rank,), member=rank))))
        self.assertEqual(told[0], "blocks: 1 cells of the domain are in no block; the first that does not fit is rank 1's block [0, 5)")


class Files(unittest.TestCase):
    @staticmethod
    def trained(blocks, description, x, target, load, save, steps):
        network = Network(blocks, description, optimizer={"rate": 0.01, "schedule": "cosine", "steps": 20, "warmup": 2})
        if load:
            network.load(load)
        for _ in range(steps):
            handle = network.forward([x.copy()])
            loss(handle, [target.copy()])
            backward(handle)
            network.step()
        if save:
            network.save(save)
        return network.read(0)

    def test_restart_on_other_ranks_and_bit_for_bit_on_the_same(self):
        description = {"inputs": 1, "layers": [{"type": "conv", "out": 3}, {"type": "batchnorm"}, "gelu", {"type": "conv", "out": 1}]}
        x, target = (np.random.default_rng(seed).normal(size=(8, 4)) for seed in (1, 2))

        def train_on(world, rank, ranks, *files_and_steps):
            sizes = (8 // ranks, 4)
            own = slice(sizes[0] * rank, sizes[0] * (rank + 1))
            return self.trained(blocks_of(world, (8, 4), (own.start, 0), sizes), description, x[own], target[own], *files_and_steps)

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "half.safetensors"
            run_threads(2, lambda world, rank: train_on(world, rank, 2, None, path, 3))
            whole_run = run_threads(2, lambda world, rank: train_on(world, rank, 2, None, None, 6))[0]
            for ranks, bound in ((2, 0), (1, 1e-9), (4, 1e-9)):
                for weights in run_threads(ranks, lambda world, rank: train_on(world, rank, ranks, path, None, 3)):
                    for name, weight in weights.items():
                        np.testing.assert_allclose(weight, whole_run[name], rtol=bound, atol=bound)
            from safetensors.numpy import load_file
            self.assertIn("0.weight", load_file(path))

    def test_restart_bit_for_bit_where_ranks_have_no_cells(self):
        description = {"inputs": 1, "layers": [{"type": "conv", "out": 1}]}
        x, target = (np.random.default_rng(seed).normal(size=8) for seed in (1, 2))

        def train_on(world, rank, begins, *files_and_steps):
            own = slice(begins[rank], begins[rank + 1])
            blocks = blocks_of(world, (8,), (own.start,), (own.stop - own.start,))
            return self.trained(blocks, description, x[own], target[own], *files_and_steps)

        for begins in ((0, 5, 8, 8), (0, 0, 3, 8)):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "half.safetensors"
                run_threads(3, lambda world, rank: train_on(world, rank, begins, None, path, 3))
                whole_run = run_threads(3, lambda world, rank: train_on(world, rank, begins, None, None, 6))[0]
                for weights in run_threads(3, lambda world, rank: train_on(world, rank, begins, path, None, 3)):
                    for name, weight in weights.items():
                        np.testing.assert_array_equal(weight, whole_run[name], err_msg=f"{begins} {name}")

    def test_that_cannot_be_written_or_read_are_told_on_all_ranks(self):
        def try_files(world, rank):
            blocks, layer = blocks_of(world, (4,), (2 * rank,), (2,)), {"type": "conv", "out": 1}
            network = Network(blocks, {"inputs": 1, "layers": [layer]}, optimizer={})
            Network(blocks, {"inputs": 1, "layers": [dict(layer, kernel=5)]}, optimizer={}).save(Path(folder) / "other")
            Network(blocks, {"inputs": 1, "layers": [layer]}).save(Path(folder) / "weights")
            network.load(Path(folder) / "weights", weights_only=True)
            told = []
            for action in (lambda: network.save("/proc/none/x"), lambda: network.save("/dev/null"), lambda: network.load("/proc/none/x"), lambda: network.load(__file__),
                           lambda: network.load(Path(folder) / "other"), lambda: network.load(Path(folder) / "weights")):
                with self.assertRaises(Failure) as caught:
                    action()
                told.append(str(caught.exception))
            y = np.zeros(2)
            network.infer([np.ones(2)], [y])
            return told

        with tempfile.TemporaryDirectory() as folder:
            first, second = run_threads(2, try_files)
        self.assertEqual(first, second)
        self.assertEqual(len(set(first)), 6)
        self.assertTrue(first[1].endswith("/dev/null: is not a regular file"), first)
        self.assertTrue(all("0.weight" in text or "steps" in text or "first" in text for text in first[4:]), first)


class Misuse(unittest.TestCase):
    def failure(self, action):
        with self.assertRaises(Failure) as caught:
            action()
        return caught.exception

    def test_of_memory_and_numbers_is_told_before_anything_happens(self):
        def misuse(world, rank):
            blocks = blocks_of(world, (4,), (2 * rank,), (2,))
            description = {"inputs": 1, "layers": [{"type": "conv", "out": 1}]}
            network = Network(blocks, description, optimizer={})
            good, y = np.ones(2), np.zeros(2)
            far, one = described(good), described(y)
            far.strides[0], one.strides[0] = 2**63 - 1, 0
            told = [self.failure(lambda: network.infer([far if rank == 1 else good], [y])),
                    self.failure(lambda: network.infer([good], [one if rank == 1 else y]))]
            network.infer([one], [y])  # inputs may be one number for all cells
            told.append(self.failure(lambda: network.step(float("nan"))))
            told.append(self.failure(lambda: network.step(1e-9 + 1e-12 * rank)))
            told.append(self.failure(lambda: network.save("")))
            for text in ({"beta1": 1}, {"beta2": 1}):
                told.append(self.failure(lambda: Network(blocks, description, optimizer=text)))
            wrong = {"inputs": 1, "padding": 1e39, "layers": [{"type": "conv", "out": 1}]}
            told.append(self.failure(lambda: Network(blocks, wrong)))
            missing = self.failure(lambda: network.load("/nowhere/x" if rank == 1 else __file__))
            nothing = Network(blocks, {"inputs": 1, "layers": ["tanh"]})
            handle = nothing.forward([good])
            loss(handle, [good])
            backward(handle)  # of which nothing is trained
            network.infer([good], [y])
            return [(str(error), error.code) for error in told], str(missing)

        first, second = run_threads(2, misuse)
        self.assertEqual(first, second)
        self.assertEqual({code for _, code in first[0]}, {INVALID})
        self.assertEqual(first[0][0][0], "rank 1: 1st array of inputs: strides: expected elements within memory")
        self.assertEqual(first[0][1][0], "rank 1: 1st array of outputs: strides: expected elements within memory of their own")

    def test_of_one_rank_is_told_on_all_and_the_next_calls_work(self):
        handles = {}

        def misuse(world, rank):
            blocks = blocks_of(world, (4,), (2 * rank,), (2,))
            network = Network(blocks, {"inputs": 1, "layers": [{"type": "conv", "out": 1}]}, optimizer={})
            good, y = np.ones(2), np.zeros(2)
            bad = np.ones(3) if rank == 1 else good
            told = [self.failure(lambda: network.infer([bad], [y]))]
            told.append(self.failure(lambda: network.infer([good], [y]) if rank == 0 else network.forward([good])))
            told.append(self.failure(lambda: Network(blocks, {"inputs": 1, "layers": ["relu"]}, seed=rank)))
            none = Network.__new__(Network)
            none.handle = c.c_uint64(77)
            told.append(self.failure(lambda: (none if rank == 1 else network).infer([good], [y])))
            handle = network.forward([good])
            told.append(self.failure(lambda: loss(handle, [good], "mse" if rank == 0 else "rms")))
            loss(handle, [good])
            told.append(self.failure(lambda: backward(handle if rank == 0 else c.c_uint64(77))))
            backward(handle)
            told.append(self.failure(lambda: network.step() if rank == 0 else loss(handle, [good])))
            told.append(self.failure(lambda: (none if rank == 1 else network).step()))
            handles[rank] = network.handle.value
            network.infer([good], [y])  # so that both handles are there
            none.handle = c.c_uint64(handles[0])
            told.append(self.failure(lambda: none.step()))
            network.infer([good], [y])
            return [(str(error), error.code, error.rank) for error in told], y

        (first, _), (second, _) = run_threads(2, misuse)
        self.assertEqual(first, second)
        self.assertEqual([text for text, _, _ in first], [
            "rank 1: 1st array of inputs: 1st dim: expected the block's 2 cells, got 3",
            "ranks 0 and 1 call different functions: adjoin_infer and adjoin_forward",
            "ranks 0 and 1 give adjoin_network_create different arguments that must be equal",
            "rank 1: expected a network, got a handle that was freed or never given",
            "rank 1: loss: expected mse, mae or huber, got 'rms'",
            "rank 1: expected a pass, got a handle that was freed or never given",
            "rank 1: expected a pass, got no handle (0)",
            "rank 1: expected a network, got a handle that was freed or never given",
            "rank 1: calls on a world, and on what is made on it, come from the thread that made it"])
        self.assertTrue(all(code == INVALID and rank == 1 for _, code, rank in first))

    def test_ends_the_world_of_all_where_a_rank_gives_up(self):
        codes = []

        def give_up(world, rank):
            blocks = blocks_of(world, (4,), (2 * rank,), (2,))
            network, x = Network(blocks, {"inputs": 1, "layers": [{"type": "conv", "out": 1}]}), np.ones(2)
            if rank == 0:
                raise KeyError("gives up")
            codes.extend(self.failure(lambda: network.infer([x], [x])).code for _ in range(2))

        self.assertRaises(KeyError, run_threads, 2, give_up)
        self.assertEqual(codes, [COMMUNICATION, COMMUNICATION])

    def test_of_blocks_names_the_first_that_does_not_fit(self):
        cases = [([(0, 3), (2, 4)], "blocks: rank 0's block [0, 3) and rank 1's block [2, 6) overlap"),
                 ([(0, 3), (4, 2)], "blocks: 1 cells of the domain are in no block; the first that does not fit is rank 0's block [0, 3)"),
                 ([(0, 3), (3, 4)], "blocks: rank 1's block begins at 3 and has 4 cells along a dim of 6"),
                 ([(0, 0), (3, 0)], "blocks: no rank has a cell"),
                 ([(0, -1), (0, 6)], "blocks: rank 0: expected a domain of at least 1 cell in each dim, and no negative size")]
        for given, text in cases:
            for told in run_threads(2, lambda world, rank: str(self.failure(lambda: blocks_of(world, (6,), given[rank][:1], given[rank][1:])))):
                self.assertEqual(told, text)
        for told in run_threads(2, lambda world, rank: str(self.failure(lambda: blocks_of(world, (6 - 4 * rank,), (3 * rank,), (3,))))):
            self.assertEqual(told, "blocks: rank 1 gives the domain [2], rank 0 another")
        pinwheel = [((0, 0), (1, 2)), ((0, 2), (2, 1)), ((2, 1), (1, 2)), ((1, 0), (2, 1)), ((1, 1), (1, 1))]
        told = run_threads(5, lambda world, rank: str(self.failure(lambda: blocks_of(world, (3, 3), *pinwheel[rank]))))
        self.assertEqual(set(told), {"blocks: they are no Cartesian arrangement; the first that does not fit is rank 0's block [0, 1) x [0, 2)"})

    def test_of_descriptions_names_layer_and_key(self):
        conv = {"type": "conv", "out": 1}
        cases = [({"inputs": 1, "layers": [{"type": "program", "file": "/nowhere.pt2"}]}, "layer '0': rank 0: /nowhere.pt2"),
                 ({"inputs": 1, "layers": [{"type": "linear", "dim": 2, "out": 1}]}, "layer '0': \"dim\": expected a dim of a domain with neighbours, from 0 to 1, got 2"),
                 ({"inputs": 1, "layers": [{"type": "linear", "dim": 1, "out": 0}]}, "layer '0': \"out\": expected a whole number of at least 1, got 0"),
                 ("[]", "network: expected an object {…}"), ("{", "network: is no JSON"), ('{"inputs": 1}', 'network: "layers": expected a list'),
                 ({"inputs": 0, "layers": [conv]}, 'network: "inputs": expected a whole number of at least 1, got 0'),
                 ({"inputs": 1, "layers": [conv], "colour": 1}, 'network: "colour" is not known here'),
                 ({"inputs": 1, "layers": [dict(conv, name="a", out=-3)]}, "layer 'a': \"out\": expected a whole number of at least 1, got -3"),
                 ({"inputs": 1, "layers": [dict(conv, kernal=3)]}, "layer '0': \"kernal\" is not known here"),
                 ({"inputs": 1, "layers": [dict(conv, kernel=[3, 3, 3])]}, "layer '0': \"kernel\": expected a whole number of at least 1, or a list of 2"),
                 ({"inputs": 1, "layers": ["cov"]}, "layer '0': \"type\": expected one of add, avgpool, "),
                 ({"inputs": 1, "layers": [conv, {"type": "add", "of": ["0", "b"]}]}, "layer '1': there is no layer 'b' before it"),
                 ({"inputs": 2, "layers": [conv, {"type": "add", "of": ["0", "input"]}]}, "layer '1': \"of\": expected layers of one size and as many channels"),
                 ({"inputs": 1, "layers": [dict(conv, padding="mirror")]}, "layer '0': \"padding\": expected zeros, periodic"),
                 ({"inputs": 1, "layers": [dict(conv, padding=["zeros", ["periodic", 1]])]}, "layer '0': \"padding\": expected both ends of a dim periodic, or none"),
                 ({"inputs": 1, "layers": [{"type": "maxpool", "kernel": 9}]}, "layer '0': window: expected a kernel"),
                 ({"inputs": 1, "layers": [{"type": "groupnorm", "groups": 2}]}, "layer '0': \"groups\": expected a number that divides"),
                 ({"inputs": 1, "layers": [dict(conv, name="a.b")]}, "layer 'a.b': \"name\": expected a word without a dot")]

        def describe(world, _):
            blocks = blocks_of(world, (4, 5), (0, 0), (4, 5))
            for description, text in cases:
                handle = c.c_uint64()
                given = description if isinstance(description, str) else json.dumps(description)
                error = self.failure(lambda: check(LIBRARY.adjoin_network_create(blocks, given.encode(), 1, 1, c.byref(handle))))
                self.assertTrue(str(error).startswith(text), f"{error} instead of {text}")

        run_threads(1, describe)

    @unittest.skipIf("asan" in os.environ.get("LD_PRELOAD", ""), "AddressSanitizer ends a program that asks for so much")
    def test_of_memory_is_an_error(self):
        def ask_for_more_than_there_is(world, rank):
            blocks, x = blocks_of(world, (2**16,), (2**15 * rank,), (2**15,)), np.ones(2**15)
            error = self.failure(lambda: Network(blocks, {"inputs": 1, "layers": [{"type": "linear", "dim": 0, "out": 2**31}]}))
            Network(blocks, {"inputs": 1, "layers": ["relu"]}).infer([x], [x])
            return error.code, error.rank, "allocate memory" in str(error)

        self.assertEqual(run_threads(2, ask_for_more_than_there_is), [(NO_MEMORY, 0, True)] * 2)

    @unittest.skipIf("asan" in os.environ.get("LD_PRELOAD", ""), "AddressSanitizer needs addresses itself")
    def test_of_memory_that_one_rank_lacks_in_a_pass_is_told_on_all_and_all_go_on(self):
        found = subprocess.run([sys.executable, "-c", LITTLE_MEMORY], cwd=Path(__file__).parent, capture_output=True, text=True)
        self.assertEqual((found.stdout, found.stderr), (f"{[[(NO_MEMORY, 1, True)] * 3] * 2}\n", ""))

    def test_of_order_is_an_error(self):
        def misorder(world, _):
            blocks = blocks_of(world, (4,), (0,), (4,))
            network, x = Network(blocks, {"inputs": 1, "layers": [{"type": "conv", "out": 1}]}), np.ones(4)
            self.assertIn("adjoin_network_optimizer before it", str(self.failure(network.step)))
            handle = network.forward([x])
            self.assertIn("expected a loss before it", str(self.failure(lambda: backward(handle))))
            self.assertIn("was not asked for", str(self.failure(lambda: backward(handle, [x], [x]))))
            other = network.forward([x])
            freed = c.c_uint64(other.value)
            backward(other, [x])
            self.assertEqual(other.value, 0)
            self.assertIn("freed or never given", str(self.failure(lambda: backward(freed, [x]))))
            for destroy, of, text in ((LIBRARY.adjoin_blocks_destroy, blocks, "blocks cannot be freed while 1"),
                                      (LIBRARY.adjoin_network_destroy, network.handle, "a network cannot be freed while 1"),
                                      (LIBRARY.adjoin_world_destroy, world, "a world cannot be freed while 1")):
                self.assertIn(text, str(self.failure(lambda: check(destroy(c.byref(of))))))
            check(LIBRARY.adjoin_pass_destroy(c.byref(c.c_uint64(0))))
            self.assertIn("has a world already", str(self.failure(lambda: check(LIBRARY.adjoin_world_alone(None, c.byref(c.c_uint64()))))))

        run_threads(1, misorder)

    def test_of_arrays_is_an_error(self):
        def try_arrays(world, _):
            network, x = Network(blocks_of(world, (4, 3), (0, 0), (4, 3)), {"inputs": 1, "layers": ["relu"]}), np.ones((4, 3))

            def with_(code=INVALID, **changes):
                array = described(x)
                for name, value in changes.items():
                    setattr(array, name, value)
                error = self.failure(lambda: network.infer([array], [x]))
                self.assertEqual(error.code, code)
                return str(error)

            self.assertIn("struct_size: expected 168, got 8", with_(struct_size=8))
            self.assertIn("memory, got null", with_(data=None))
            self.assertIn("type: expected", with_(type=7))
            self.assertIn("dims: expected 1 to 8, got 9", with_(dims=9))
            self.assertIn("channel_dim: expected -1", with_(channel_dim=2))
            self.assertIn("expected 2 dims of space", with_(batch_dim=0))
            self.assertIn("device", with_(code=UNSUPPORTED, device=1))
            self.assertIn("stride is negative", with_(strides=(c.c_int64 * 8)(-3, 1)))
            self.assertIn("expected 1 channels, got 2", str(self.failure(lambda: network.infer([x, x], [x]))))
            self.assertIn("expected arrays, got 1 at null", str(self.failure(lambda: check(LIBRARY.adjoin_infer(network.handle, 1, None, 0, None)))))

        run_threads(1, try_arrays)

    def misuse(self, world, rank, calls):
        """The results of random calls. All ranks draw the same functions, and each its own arguments."""
        alike, draw, results = random.Random(1), random.Random(2 + rank), []
        blocks = blocks_of(world, (6, 5), (3 * rank, 0), (3, 5)) if rank >= 0 else blocks_of(world, (6, 5), (0, 0), (6, 5))
        good = b'{"inputs": 1, "layers": [{"name": "in", "type": "normalise"}, {"type": "conv", "out": 2}, "gelu", {"type": "conv", "out": 1}]}'
        network, gone, field, numbers_of = c.c_uint64(), c.c_uint64(), np.ones((6, 5) if rank < 0 else (3, 5)), np.ones(99)
        check(LIBRARY.adjoin_network_create(blocks, good, 1, 1, c.byref(network)))
        check(LIBRARY.adjoin_network_create(blocks, good, 1, 1, c.byref(gone)))
        freed, live = c.c_uint64(gone.value), c.c_uint64()
        check(LIBRARY.adjoin_network_destroy(c.byref(gone)))
        check(LIBRARY.adjoin_forward(network, *arrays([field]), 0, None, 0, c.byref(live)))
        samples = Samples(type("", (), {"handle": network}), 2)
        known = {"world": world, "blocks": blocks, "network": network, "samples": samples.handle, "pass": live}
        others = [*known.values(), freed, c.c_uint64(), c.c_uint64(12345), c.c_uint64(2**63 + 7)]
        texts = [good, b"", b"{", b"[]", b'{"inputs": 1}', b'{"inputs": "x", "layers": []}', b"\xff", None,
                 b'{"inputs": 1, "layers": [{"type": "conv", "out": 1, "kernel": 1e9}]}', b'{"inputs": 1, "layers": [{"type": "program", "file": "/"}]}',
                 b'{"inputs": 1, "layers": [{"type": "linear", "dim": 0, "out": 3}]}', b'{"rule": "adamw"}', b'{"rule": 3}', b'{"rate": -1}']
        for _ in range(calls):
            of = lambda kind: c.c_uint64((known[kind] if draw.random() < 0.7 else draw.choice(others)).value)
            pick = lambda *choices: draw.choice(choices)
            bad = described(field)
            if draw.random() < 0.5:
                name = draw.choice(["struct_size", "data", "type", "dims", "channel_dim", "batch_dim", "device", "strides", "sizes"])
                if name in ("strides", "sizes"):
                    setattr(bad, name, (c.c_int64 * 8)(pick(-1, 0, 3, 2**62), pick(-5, 0, 5)))
                else:
                    setattr(bad, name, pick(0, None) if name == "data" else pick(0, 1, 2, 7, 9, 100))
                if name == "type" and bad.type == 0 or name == "strides" and min(bad.strides[:2]) >= 0:
                    bad.type = 7  # other memory may be read, which no check finds
            array, made, n = c.byref(bad) if draw.random() < 0.9 else None, c.c_uint64(), pick(0, 1, 1, 1, -1)
            sizes, place = (c.c_int64 * 3)(3 if rank >= 0 else 6, 5, pick(-1, 0, 4)), pick(None, c.byref(made), c.byref(made), c.byref(made))
            starts, loss_kind = (c.c_int64 * 3)(max(0, 3 * rank), pick(0, 0, 1)), pick(b"mse", b"mse", b"mae", b"rms", None)
            library = LIBRARY
            call, is_of_all, free = alike.choice([
                (lambda: library.adjoin_network_create(of("blocks"), draw.choice(texts), pick(0, 1, 5), 1, place), True, library.adjoin_network_destroy),
                (lambda: library.adjoin_network_optimizer(of("network"), draw.choice(texts)), True, None),
                (lambda: library.adjoin_forward(of("network"), n, array, pick(0, 1), array, pick(0, 1), place), True, library.adjoin_pass_destroy),
                (lambda: library.adjoin_infer(of("network"), n, array, pick(0, 1), array), True, None),
                (lambda: library.adjoin_loss(of("pass"), loss_kind, pick(0.0, 0.0, -1.0), n, array, pick(None, array), None), True, None),
                (lambda: library.adjoin_backward(pick(None, c.byref(c.c_uint64(draw.choice([network, freed, others[-1]]).value))), n, array, n, array), True, None),
                (lambda: library.adjoin_step(of("network"), pick(-1.0, 0.1), None, None), True, None),
                (lambda: library.adjoin_network_observe(of("network"), pick(None, b"0", b"in", b"in", b"\xff"), n, array), True, None),
                (lambda: library.adjoin_samples_create(of("network"), pick(-1, 0, 3), 1, place), True, library.adjoin_samples_destroy),
                (lambda: library.adjoin_samples_add(of("samples"), n, array, n, array), True, None),
                (lambda: library.adjoin_samples_draw(of("samples"), pick(-1, 0, 1, 1, 2), loss_kind, 0.0, None, place), True, library.adjoin_pass_destroy),
                (lambda: library.adjoin_blocks_of_points(of("world"), c.c_int64(pick(-1, 0, 5)), place), True, library.adjoin_blocks_destroy),
                (lambda: library.adjoin_blocks_of_member(of("world"), 0, 2, sizes, starts, sizes, pick(-1, 0, 0, 1, 2**31 - 1), place), True, library.adjoin_blocks_destroy),
                (lambda: library.adjoin_blocks_create(of("world"), pick(0, 1, 2), pick(-1, 2, 3, 99), sizes, pick(None, starts), sizes, place), True, library.adjoin_blocks_destroy),
                (lambda: library.adjoin_world_split(of("world"), pick(-1, 0, 1), pick(-1, 0), place), True, library.adjoin_world_destroy),
                (lambda: library.adjoin_network_load(of("network"), pick(b"/nowhere/x", b"", b"/", None), 0), True, None),
                (lambda: library.adjoin_network_save(of("network"), pick(b"/nowhere/x", b"", b"/proc/x", None)), True, None),
                (lambda: library.adjoin_network_read(of("network"), pick(-1, 1, 99), pick(0, 1, 2), None, c.c_int64(3)), True, None),
                (lambda: library.adjoin_network_write(of("network"), pick(-1, 4, 99), pick(0, 1, 2), pick(None, c.c_void_p(numbers_of.ctypes.data)), c.c_int64(pick(-1, 2, 18))), True, None),
                (lambda: library.adjoin_network_destroy(c.byref(c.c_uint64(draw.choice([network, freed, blocks]).value))), True, None),
                (lambda: library.adjoin_blocks_destroy(c.byref(c.c_uint64(draw.choice([network, freed, blocks]).value))), True, None),
                (lambda: library.adjoin_world_destroy(c.byref(c.c_uint64(draw.choice([network, freed, world]).value))), True, None),
                (lambda: library.adjoin_network_parameter(of("network"), pick(-1, 0, 99), None, 0, None, None, None), False, None),
                (lambda: library.adjoin_network_parameters(of("network"), None), False, None),
                (lambda: library.adjoin_network_output(of("network"), None, pick(None, sizes)), False, None),
                (lambda: library.adjoin_zero_gradients(of("network")), False, None),
                (lambda: library.adjoin_pass_destroy(pick(None, c.byref(c.c_uint64(12345)))), False, None),
                (lambda: library.adjoin_world_rank(of("world"), None, None), False, None),
                (lambda: library.adjoin_world_counts(of("world"), None, None, None, None), False, None),
                (lambda: library.adjoin_world_alone(pick(None, array), place), False, None),
                (lambda: library.adjoin_world_of_mpi_f(pick(0, 77), None, place), False, None),
                (lambda: library.adjoin_run_threads(pick(-1, 0, 2), None, None), False, None)])
            code = call()
            results.append((code, library.adjoin_last_error().decode() if code else "") if is_of_all else None)
            self.assertTrue(code == 0 or results[-1] is None or results[-1][1])
            if made.value:
                check(free(c.byref(made)))
        for free, handle in ((LIBRARY.adjoin_pass_destroy, live), (LIBRARY.adjoin_samples_destroy, samples.handle),
                             (LIBRARY.adjoin_network_destroy, network), (LIBRARY.adjoin_blocks_destroy, blocks)):
            check(free(c.byref(handle)))
        return results

    def test_at_random_never_crashes_and_is_told_on_all_ranks_alike(self):
        calls, world = int(os.environ.get("ADJOIN_TEST_MISUSES", "1000")), c.c_uint64()
        check(LIBRARY.adjoin_world_alone(None, c.byref(world)))
        alone = self.misuse(world, -1, calls // 2)
        check(LIBRARY.adjoin_world_destroy(c.byref(world)))
        first, second = run_threads(2, lambda world, rank: self.misuse(world, rank, calls // 2))
        self.assertEqual(first, second)
        for results in (alone, first):
            texts = [text for _, text in filter(None, results) if text]
            self.assertGreater(len(texts), calls // 6)
            self.assertGreater(len(set(texts)), 25)

    def test_of_threads_and_options_is_an_error(self):
        world, told = c.c_uint64(), []
        short = Options(struct_size=8)
        for options, text in ((short, "struct_size: expected 32, got 8"), (Options(32, -1.0), "deadline: expected seconds"),
                              (Options(32, 0, -1), "threads: expected 0"), (Options(32, 0, 0, 0, 3), "host_memory: expected 0, 1 or 2")):
            self.assertIn(text, str(self.failure(lambda: check(LIBRARY.adjoin_world_alone(c.byref(options), c.byref(world))))))
        check(LIBRARY.adjoin_world_alone(None, c.byref(world)))
        blocks = blocks_of(world, (4,), (0,), (4,))
        network = Network(blocks, {"inputs": 1, "layers": ["relu"]})
        for description in ("{", {"rule": "adam"}, {"rate": "fast"}, {"momentum": 0.9}, {"rule": "sgd", "nesterov": 1}, {"schedule": "cosine"}):
            text = description if isinstance(description, str) else json.dumps(description)
            self.assertIn("optimizer: ", str(self.failure(lambda: check(LIBRARY.adjoin_network_optimizer(network.handle, text.encode())))))
        for action in (lambda: network.infer([np.ones(4)], [np.ones(4)]), lambda: check(LIBRARY.adjoin_world_destroy(c.byref(world)))):
            thread = threading.Thread(target=lambda: told.append(str(self.failure(action))))
            thread.start()
            thread.join()
        self.assertEqual(set(told), {"calls on a world, and on what is made on it, come from the thread that made it"})
        for free, handle in ((LIBRARY.adjoin_network_destroy, network.handle), (LIBRARY.adjoin_blocks_destroy, blocks), (LIBRARY.adjoin_world_destroy, world)):
            check(free(c.byref(handle)))


class Library(unittest.TestCase):
    def test_shows_the_listed_functions_alone_and_has_a_soname(self):
        path = os.environ["ADJOIN_C_LIBRARY"]
        listed = (Path(__file__).resolve().parents[2] / "adjoin" / "c" / "symbols.txt").read_text().split()
        shown = subprocess.run(["nm", "-D", "--defined-only", path], check=True, capture_output=True, text=True).stdout
        names = sorted(line.split()[-1].split("@")[0] for line in shown.splitlines() if " A " not in line)
        self.assertEqual(names, sorted(listed))
        dynamic = subprocess.run(["readelf", "-d", path], check=True, capture_output=True, text=True).stdout
        self.assertRegex(dynamic, r"SONAME.*libadjoin_c\.so\.\d+")
        needed = set(re.findall(r"NEEDED.*\[lib([\w+]+)\.so", dynamic))
        of_compiler = {"c", "m", "stdc++", "gcc_s", "gomp", "asan", "ubsan"}
        self.assertLessEqual(needed, {"torch", "torch_cpu", "c10", "mpi", "mpich", "z", *of_compiler})  # none for texts


if __name__ == "__main__":
    unittest.main()
