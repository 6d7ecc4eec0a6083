import tempfile
import unittest
from pathlib import Path

import torch

import adjoin
from adjoin import nn
from worlds import equal, numbers, on_each_world, on_threads

FLOAT = torch.float64


def model(seed=1):
    return nn.seeded(seed, lambda: torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 2)).double())


class Seeded(unittest.TestCase):
    def test_modules_have_the_same_weights_on_all_ranks_and_leave_the_generator_alone(self):
        def work(world):
            first = model()[0].weight
            copied = first.detach().clone()
            world.broadcast(copied)
            equal(copied, first)
            self.assertGreater((model(seed=2)[0].weight - first).abs().max(), 0)

        on_each_world(work)
        torch.manual_seed(5)
        expected = torch.rand(3)
        torch.manual_seed(5)
        with self.assertRaisesRegex(KeyError, "none"):
            nn.seeded(1, lambda: {}["none"])
        equal(torch.rand(3), expected)


def step(net, optimizer, grid):
    x = adjoin.place(numbers(5, 4), adjoin.Layout(grid, [5, 4], {0: "a"}), grid)
    target = adjoin.place(numbers(5, 2, seed=1), adjoin.Layout(grid, [5, 2], {0: "a"}), grid)
    optimizer.zero_grad()
    nn.MSELoss(grid=grid)(net(x), target).local.sum().backward()
    adjoin.sum_gradients(net)
    optimizer.step()


class States(unittest.TestCase):
    def test_of_optimizers_go_to_files_and_on_in_another_layout(self):
        optimizers = (
            lambda p: torch.optim.AdamW(p, lr=0.1, amsgrad=True),
            lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
            lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.5, centered=True),
            lambda p: torch.optim.Adagrad(p, lr=0.1),
        )

        def work(world):
            grid = adjoin.Grid(world, {"a": world.size})
            folder = Path(world_folder.name)
            for make in optimizers:
                net = nn.distributed(model(), grid=grid, batch=["a"])
                optimizer = make(net.parameters())
                step(net, optimizer, grid)
                adjoin.save_state(folder / "weights.safetensors", net, grid, {"made": "by a test"})
                adjoin.save_state(folder / "moments.safetensors", adjoin.state_of(optimizer, net), grid)
                other = nn.distributed(model(seed=2), grid=grid, channels=["a"])
                resumed = make(other.parameters())
                adjoin.load_state(folder / "weights.safetensors", other)
                adjoin.load_state(folder / "moments.safetensors", adjoin.state_of(resumed, other))
                step(net, optimizer, grid)
                step(other, resumed, grid)
                expected, found = nn.gather_state(net), nn.gather_state(other)
                for name, tensor in expected.items():
                    equal(found[name], tensor)

        with tempfile.TemporaryDirectory() as folder:
            world_folder = type("Folder", (), {"name": folder})
            if adjoin.started_by_mpi():
                shared = adjoin.mpi_world()
                named = torch.tensor(list(folder.encode().ljust(200)), dtype=torch.uint8)
                shared.broadcast(named)
                world_folder.name = bytes(named.tolist()).decode().strip()
            on_each_world(work, sizes=(1, 3))
            if adjoin.started_by_mpi():
                shared.barrier()

    def test_of_other_optimizers_are_refused_by_name(self):
        net = model()
        grid = adjoin.Grid(adjoin.Communicator(), {"a": 1})
        pieces = nn.parameters_of(net, grid)
        with self.assertRaisesRegex(adjoin.InvalidArgument, "expected SGD, Adam, AdamW, Adagrad or RMSprop of torch.optim, got Adamax"):
            adjoin.state_of(torch.optim.Adamax(net.parameters()), pieces)
        with self.assertRaisesRegex(adjoin.InvalidArgument, "expected SGD without dampening"):
            adjoin.state_of(torch.optim.SGD(net.parameters(), momentum=0.9, dampening=0.5), pieces)


class Pipelines(unittest.TestCase):
    def test_give_the_losses_and_gradients_of_one_rank(self):
        batches, chunks = numbers(6, 2, 4), 2

        def work(world):
            for name in adjoin.pipeline.schedule_names():
                of_each = chunks if name == "interleaved" else 1
                schedule = adjoin.pipeline.make_schedule(name, ranks=world.size, micro_batches=6, chunks=of_each)
                self.assertEqual(schedule, adjoin.pipeline.read_schedule(adjoin.pipeline.to_csv(schedule)))
                layers = nn.seeded(3, lambda: [torch.nn.Linear(4, 4).double() for _ in range(schedule.stages)])  # noqa: B023
                expected = [layer.weight.detach().clone().requires_grad_() for layer in layers]
                losses, actions, alone = {}, [], []

                def forward(stage, micro_batch, x):
                    return layers[stage](batches[micro_batch] if x is None else x).tanh()  # noqa: B023

                def loss(micro_batch, output):
                    losses[micro_batch] = output.square().sum()  # noqa: B023
                    return losses[micro_batch]  # noqa: B023

                observer = lambda action, seconds: actions.append(action)  # noqa: B023, E731
                adjoin.run_pipeline(schedule, world, forward, loss, lambda stage, micro_batch: [2, 4], FLOAT, observer=observer)
                for batch in batches:
                    for layer, weight in zip(layers, expected):
                        batch = torch.nn.functional.linear(batch, weight, layer.bias.detach()).tanh()
                    alone.append(batch.square().sum())
                sum(alone).backward()
                self.assertEqual(actions, schedule.actions[world.rank])
                for micro_batch, value in losses.items():
                    equal(value, alone[micro_batch])
                for stage, rank in enumerate(schedule.rank_of):
                    if rank == world.rank:
                        equal(layers[stage].weight.grad, expected[stage].grad)
                outputs = []
                evaluation = adjoin.pipeline.forward_only(schedule, 2)
                judge = lambda micro_batch, y: outputs.append(y.requires_grad)  # noqa: B023, E731
                adjoin.run_pipeline(evaluation, world, forward, judge, lambda *_: [2, 4], FLOAT)
                self.assertEqual(outputs, [False, False] if schedule.rank_of[-1] == world.rank else [])

        on_each_world(work)

    @on_threads
    def test_raise_what_a_stage_raises_and_refuse_what_cannot_run(self):
        def work(world):
            schedule = adjoin.pipeline.make_schedule("gpipe", ranks=2, micro_batches=1)
            adjoin.run_pipeline(schedule, world, lambda stage, *_: {}[f"stage {stage}"], None, lambda *_: [1])

        with self.assertRaisesRegex(KeyError, "stage 0"):
            adjoin.launch(work, ranks=2)
        action = adjoin.pipeline.Action(0, "F", 0)
        self.assertEqual(repr(action), "0F0")
        with self.assertRaisesRegex(adjoin.InvalidArgument, "expected a kind: F, B, I or W, got 'X'"):
            adjoin.pipeline.Action(0, "X", 0)
        with self.assertRaises(adjoin.InvalidArgument):
            adjoin.pipeline.Schedule(1, 1, [0], [[action]])  # without backward


class Gradients(unittest.TestCase):
    def test_are_checked_before_backward(self):
        def work(world):
            grid = adjoin.Grid(world, {"a": world.size})
            net = nn.distributed(model(), grid=grid, batch=["a"])
            x = adjoin.place(numbers(5, 4), adjoin.Layout(grid, [5, 4], {0: "a"}), grid)
            weight = torch.ones(2, dtype=FLOAT, requires_grad=True)
            with adjoin.ForwardRecord():
                y = adjoin.recomputed(net, x)
                inputs = {"x": x, "of each rank": (weight, {"a": "copied"})}
                adjoin.check_gradients((y.local * weight).sum(), net, inputs, grid, {"a": "split"} if world.size > 1 else None)
            if world.size > 1:
                used = nn.parameters_of(torch.nn.Linear(4, 4).double(), grid, replicated=["a"])
                loss = torch.nn.functional.linear(x.local, used[0].tensor).sum()
                with self.assertRaisesRegex(adjoin.InvalidArgument, "'weight'"):
                    adjoin.check_gradients(loss, used, {"x": x}, grid)

        on_each_world(work, sizes=(1, 2))

    def test_of_what_is_computed_again_are_the_same(self):
        def work(world):
            grid = adjoin.Grid(world, {"a": world.size})
            net = nn.distributed(model(), grid=grid, batch=["a"])
            layout, gradients, calls = adjoin.Layout(grid, [5, 4], {0: "a"}), [], []
            for again in (False, True):
                x = numbers(5, 4).requires_grad_()
                placed = adjoin.place(x, layout, grid)
                net.zero_grad()

                def f(given, scale):
                    calls.append(1)
                    return net(given).map(lambda t: t * scale)

                scale = torch.full((), 3.0, dtype=FLOAT, requires_grad=True)
                y = adjoin.recomputed(f, placed, scale) if again else f(placed, scale)
                self.assertEqual(y.layout.shape, [5, 2])
                y.whole().square().sum().backward()
                adjoin.sum_gradients(net)
                gradients.append([x.grad, scale.grad, *(p.grad for p in net.parameters())])
            for plain, of_again in zip(*gradients, strict=True):
                equal(of_again, plain)
            self.assertEqual(len(calls), 3)
            equal(adjoin.recomputed(torch.tanh, numbers(3).requires_grad_()), numbers(3).tanh())

        on_each_world(work, sizes=(1, 2))


if __name__ == "__main__":
    unittest.main()
