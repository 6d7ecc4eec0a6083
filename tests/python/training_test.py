import copy
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

import torch
from torch.utils.checkpoint import checkpoint

import adjoin
from adjoin import nn
from worlds import equal, numbers, on_each_world, on_threads

FLOAT = torch.float64


def mlp():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 2)).double()


class Optimizers(unittest.TestCase):
    def test_equal_those_of_torch(self):
        model = mlp()
        x, y = numbers(7, 4), numbers(7, 2, seed=1)
        cases = [
            (lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1), lambda net: adjoin.Optimizer(net, "adamw", weight_decay=0.1)),
            (lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9), lambda net: adjoin.Optimizer(net, adjoin.sgd(momentum=0.9))),
        ]
        for torchs, ours in cases:
            alone = copy.deepcopy(model)
            # The library decays matrices alone.
            decay = [{"params": [alone[i].weight for i in (0, 2)]}, {"params": [alone[i].bias for i in (0, 2)], "weight_decay": 0}]
            optimizer = torchs(decay)
            for _ in range(4):
                optimizer.zero_grad()
                torch.nn.functional.mse_loss(alone(x), y).backward()
                optimizer.step()

            def work(world):
                grid = adjoin.Grid(world, {"a": world.size})
                net = nn.distributed(copy.deepcopy(model), grid=grid, batch=["a"])
                mine = ours(net)  # noqa: B023
                layout = adjoin.Layout(grid, [7, 4], {0: "a"})
                targets = adjoin.place(y, adjoin.Layout(grid, [7, 2], {0: "a"}), grid)
                for _ in range(4):
                    nn.MSELoss(grid=grid)(net(adjoin.place(x, layout, grid)), targets).local.sum().backward()
                    update = mine.step(0.01)
                    self.assertFalse(update.skipped)
                    self.assertGreater(update.norm, 0)
                state = nn.gather_state(net)
                if world.rank == 0:
                    for name, tensor in alone.state_dict().items():  # noqa: B023
                        torch.testing.assert_close(state[name], tensor, rtol=1e-9, atol=1e-9)
                self.assertEqual(mine.steps_taken, 4)

            on_each_world(work)

    def test_muon_is_torchs_which_works_in_bfloat16(self):
        model = torch.nn.Linear(12, 8, bias=False).double()
        alone = copy.deepcopy(model)
        theirs = torch.optim.Muon(alone.parameters(), lr=0.1, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
        for step in range(3):
            alone.weight.grad = numbers(8, 12, seed=step)
            theirs.step()

        def work(world):
            net = copy.deepcopy(model)
            ours = adjoin.Optimizer(nn.parameters_of(net, adjoin.Grid(world, {"a": world.size})), "muon", weight_decay=0.1)
            self.assertEqual([moment.name for moment in ours.moments()], ["momentum.weight"])
            for step in range(3):
                net.weight.grad = numbers(8, 12, seed=step) / world.size
                ours.step(0.1)
            torch.testing.assert_close(net.weight, alone.weight, rtol=0, atol=0.02 * alone.weight.abs().max().item())

        on_each_world(work)

    def test_data_parallelism_of_any_module(self):
        x, y = numbers(9, 4), numbers(9, 2, seed=1)
        model = mlp()  # of a generator that threads share
        alone = copy.deepcopy(model)
        torch.nn.functional.mse_loss(alone(x), y).backward()

        def work(world):
            torch_module = copy.deepcopy(model)
            with torch.no_grad():
                for parameter in torch_module.parameters():
                    parameter.add_(world.rank)  # those of rank 0 count
            data = adjoin.DataParallel(torch_module, world)
            rows = adjoin.Split.balanced(9, world.size).ranges(world.rank)[0]
            here = slice(*rows)
            loss = torch.nn.functional.mse_loss(torch_module(x[here]), y[here])
            mean = data.backward(loss, rows[1] - rows[0])
            self.assertAlmostEqual(mean, torch.nn.functional.mse_loss(alone(x), y).item(), 9)
            for mine, other in zip(torch_module.parameters(), alone.parameters()):
                equal(mine.grad, other.grad)
            self.assertEqual(data.any(world.rank == 0), True)

        on_each_world(work)


class AnyModule(unittest.TestCase):
    def test_trains_in_every_stage(self):
        x, y = numbers(9, 4), numbers(9, 2, seed=1)

        class Branches(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.shared, self.out = torch.nn.Linear(4, 5), torch.nn.Linear(5, 5), torch.nn.Linear(5, 2)
                self.table, self.tied = torch.nn.Embedding(7, 4, padding_idx=-1), torch.nn.Embedding(5, 5)

            def forward(self, x):
                ids = x.abs().sum(1).mul(3).long()

                def vectors(x):
                    return torch.tanh(self.first(x + self.table(ids % 7)) + self.tied(ids % 5))

                x = checkpoint(vectors, x, use_reentrant=False) @ self.tied.weight
                return self.out(self.shared(x) + torch.relu(self.shared(self.shared(x))))

        model = Branches().double()
        alone = copy.deepcopy(model)
        reference = torch.optim.AdamW(alone.parameters(), lr=0.01)
        for _ in range(3):
            reference.zero_grad()
            torch.nn.functional.mse_loss(alone(x), y).backward()
            torch.nn.utils.clip_grad_norm_(alone.parameters(), 0.5)
            reference.step()

        def work(world):
            rows = adjoin.Split.balanced(9, world.size).ranges(world.rank)[0]
            here = slice(*rows)
            for zero in range(4):
                module = copy.deepcopy(model)
                weights = adjoin.Weights(module, world, zero=zero, unit_bytes=0)
                optimizer = torch.optim.AdamW(weights.parts(), lr=0.01)
                for _ in range(3):
                    loss = torch.nn.functional.mse_loss(module(x[here]), y[here])
                    weights.backward(loss, rows[1] - rows[0])
                    weights.step(optimizer, clip=0.5)
                for name, found in nn.gather_state(weights.parameters()).items():
                    self.assertTrue(torch.allclose(found, alone.state_dict()[name], rtol=0, atol=1e-6), f"{zero} {name}")

        on_each_world(work)

    def test_keeps_the_habits_of_its_users(self):
        def work(world):
            module = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 1))
            flat, begin, calls = torch.zeros(sum(p.numel() for p in module.parameters())), 0, []
            for parameter in module.parameters():  # as fused optimizers make them
                parameter.grad = flat[begin : begin + parameter.numel()].view_as(parameter)
                begin += parameter.numel()
            module[0].weight.register_post_accumulate_grad_hook(lambda _: calls.append("before"))
            data = adjoin.DataParallel(module, world)
            module[0].weight.register_post_accumulate_grad_hook(lambda _: calls.append("after"))
            data.backward(module(torch.ones(2, 4)).mean(), 2)
            self.assertEqual(calls, ["before", "after"])
            self.assertGreater(flat.abs().sum(), 0)
            with self.assertRaisesRegex(adjoin.InvalidArgument, "already summed by a Weights"):
                adjoin.sum_gradients(nn.parameters_of(module, adjoin.Grid(world, {"a": world.size})))
            module[1] = torch.nn.Linear(3, 1)
            with self.assertRaisesRegex(adjoin.InvalidArgument, "DataParallel: '1.weight' is another tensor than when DataParallel was made"):
                data.backward(module(torch.ones(2, 4)).mean(), 2)

        on_each_world(work)

    def test_is_of_one_rank(self):
        module = torch.nn.Linear(2, 2)
        if not adjoin.started_by_mpi():
            with self.assertRaisesRegex(adjoin.InvalidArgument, "ranks share one module's tensors"):
                adjoin.launch(lambda world: adjoin.DataParallel(module, world), ranks=2)


class State(unittest.TestCase):
    def test_goes_from_one_layout_to_another(self):
        def work(world):
            grid = adjoin.Grid(world, {"a": world.size})
            by_rows = nn.Linear(5, 4, grid=grid, weight=adjoin.Layout(grid, [4, 5], {0: "a"}))
            by_columns = nn.Linear(5, 4, grid=grid, weight=adjoin.Layout(grid, [4, 5], {1: "a"}))
            nn.initialize(by_rows, seed=2)
            nn.initialize(by_columns, seed=5)
            state = nn.gather_state(by_rows, rank=world.size - 1)
            self.assertEqual(list(state), ["bias", "weight"] if world.rank == world.size - 1 else [])
            nn.scatter_state(state, by_columns, rank=world.size - 1)
            again = nn.gather_state(by_columns)
            alone = nn.Linear(5, 4, grid=adjoin.Grid(world.subset([world.rank]), {"a": 1}))
            nn.initialize(alone, seed=2)  # the same global tensors in every layout
            if world.rank == 0:
                self.assertTrue(torch.equal(again["weight"], alone.weight))

        on_each_world(work)

    def test_plain_modules_need_a_grid(self):
        module = torch.nn.Linear(2, 2)
        with self.assertRaisesRegex(adjoin.InvalidArgument, "'weight' has no layout"):
            adjoin.sum_gradients(module)
        grid = adjoin.Grid(adjoin.Communicator(), {"a": 1})
        self.assertEqual([p.name for p in nn.parameters_of(module, grid)], ["weight", "bias"])


class Attention(unittest.TestCase):
    def test_is_that_of_one_worker(self):
        q, k, v = (numbers(7, 2, 4, seed=s) for s in range(3))
        expected = torch.nn.functional.scaled_dot_product_attention(
            *(x[:4].transpose(0, 1) for x in (q, k, v)), is_causal=True).transpose(0, 1)  # fmt: skip

        def work(world):
            rows = adjoin.TokenRows.zigzag([4, 3], world.size)
            grid = adjoin.Grid(world, {"a": world.size})
            layout = adjoin.Layout(grid, [7, 2, 4], [(rows.split(), ["a"])])
            for method in ("ring", "gathered", "ulysses"):
                mine = [adjoin.place(x, layout, grid).local.clone().requires_grad_() for x in (q, k, v)]
                y = nn.attention(*mine, rows, world, method=method, causal=True)
                equal(adjoin.DistributedTensor(y, layout, grid).whole()[:4], expected)
                hidden = nn.attention(*mine, rows, world, method=method,
                                      mask=lambda s, a, b: torch.ones(a[1] - a[0], b[1] - b[0], dtype=torch.bool))  # fmt: skip
                self.assertEqual(hidden.abs().sum().item(), 0)
                y.sum().backward()
                self.assertEqual(mine[0].grad.shape, mine[0].shape)

        on_each_world(work)

    def test_interpolation_of_a_piece(self):
        half = nn.Interpolation([([[0, 1, 2], [1, 2, 3]], [[0.5] * 3, [0.5] * 3])])
        x = torch.tensor([[0.0, 2.0, 6.0, 8.0]], dtype=FLOAT, requires_grad=True)
        self.assertEqual(half(x).tolist(), [[1.0, 4.0, 7.0]])
        self.assertTrue(torch.autograd.gradcheck(half, (x,)))


TRAINED = """
    import torch
    import adjoin

    adjoin.train({{"data": "sample", "preset": "tiny", "tp": 2, "steps": 4, "samples": 200, "out": "{out}", "overwrite": True}})
    try:
        adjoin.train({{"data": "sample", "presett": "tiny"}})
    except adjoin.InvalidArgument as error:
        print("refused", error)
    try:
        torch.ones(2) + torch.ones(3)
    except RuntimeError as error:
        print("an exception", error)
"""


@on_threads
class Train(unittest.TestCase):
    def test_trains_and_leaves_libtorch_as_it_was(self):
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "run"
            script = textwrap.dedent(TRAINED.format(out=out))
            result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
            self.assertEqual(result.returncode, 0, result)
            self.assertIn("refused unexpected --presett", result.stdout)
            self.assertIn("an exception", result.stdout)
            self.assertTrue((out / "model.safetensors").exists())


@unittest.skipUnless("ADJOIN_EXAMPLES" in os.environ, "the examples of C++ are not built")
@on_threads
class Examples(unittest.TestCase):
    python = Path(__file__).resolve().parents[2] / "examples" / "python"
    built = Path(os.environ.get("ADJOIN_EXAMPLES", "."))

    def both(self, name, *options):
        run = lambda *command: subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: E731
        return run(self.built / name, *options), run(sys.executable, self.python / f"{name}.py", *options)

    def test_heat_has_the_bits_of_the_one_in_cpp(self):
        theirs, ours = (json.loads(text) for text in self.both("heat", "--ranks", "4", "--json"))
        self.assertEqual(ours, {name: theirs[name] for name in ours})

    def test_tensor_parallel_mlp_learns_as_the_one_in_cpp(self):
        theirs, ours = self.both("tensor_parallel_mlp")
        self.assertEqual(ours, theirs)
        self.assertIn("step 300  loss 0.0", ours)

    def test_lenet5_has_the_bits_of_the_one_in_cpp(self):
        with tempfile.TemporaryDirectory() as folder:
            pictures = torch.randint(0, 256, (300, 28, 28), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
            labels = torch.arange(300).remainder(10).to(torch.uint8)
            for name, tensor in {"t10k-images-idx3-ubyte": pictures, "t10k-labels-idx1-ubyte": labels}.items():
                header = bytes([0, 0, 8, tensor.dim()]) + b"".join(size.to_bytes(4, "big") for size in tensor.shape)
                (Path(folder) / name).write_bytes(header + tensor.numpy().tobytes())
            theirs, ours = (json.loads(text) for text in self.both("lenet5", "--ranks", "2", "--steps", "4", "--json", "--data", folder))
        self.assertEqual(ours["losses"], theirs["losses"])
        self.assertEqual(len(ours["losses"]), 4)


if __name__ == "__main__":
    unittest.main()
