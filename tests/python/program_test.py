"""export_program writes files that are the model; the files are run by tests/program."""

import importlib.util
import os
import tempfile
import unittest
from pathlib import Path

import torch

import adjoin


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.BatchNorm2d(4)
        self.drop, self.head = torch.nn.Dropout(0.5), torch.nn.Linear(4, 2)
        self.tail = torch.nn.Linear(4, 2)
        self.tail.weight = self.head.weight

    def forward(self, x, scale=None):
        y = self.drop(torch.relu(self.norm(self.conv(x))).mean((2, 3)))
        return {"scores": self.head(y) if scale is None else self.head(y) * scale, "more": (self.tail(y), x.shape[0])}


class Asking(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(4, 4), Question())

    def forward(self, x):
        return self.inner(x)


class Question(torch.nn.Module):
    def forward(self, x):
        return x * 2 if x.sum() > 0 else x


class Own(torch.nn.Module):
    def forward(self, x):
        return torch.ops.adjoin_test.twice(x)


@torch.library.custom_op("adjoin_test::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return 2 * x


@twice.register_fake
def _(x):
    return torch.empty_like(x)


class ExportProgram(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "net.pt2")

    def test_writes_both_graphs_and_leaves_the_model_as_it_is(self):
        torch.manual_seed(1)
        model = Net()
        model.norm.eval()
        before = {name: x.clone() for name, x in model.state_dict().items()}
        drawn = torch.get_rng_state()
        written = adjoin.export_program(model, torch.randn(3, 3, 8, 9), self.path)
        self.assertEqual(written.inputs, {"x": ["batch", 3, "n1", "n2"]})
        self.assertIn("operators; inputs x [batch, 3, n1, n2]", repr(written))
        self.assertEqual([m.training for m in (model, model.norm, model.drop)], [True, False, True])
        self.assertTrue(all(torch.equal(x, before[name]) for name, x in model.state_dict().items()))
        self.assertTrue(all(p.grad is None for p in model.parameters()))
        self.assertEqual(len(drawn), len(torch.get_rng_state()))
        x = torch.randn(5, 3, 6, 6)
        program = torch.export.load(self.path)  # a file of torch.export as any other
        self.assertEqual(sorted(program.state_dict), sorted(before))
        self.assertEqual(program.module()(x)["more"][1], 5)
        self.assertEqual(sorted(os.listdir(os.path.dirname(self.path))), ["net.pt2"])

    def test_takes_arguments_by_name_and_sizes_that_are_given(self):
        example = {"x": torch.randn(2, 3, 4, 4), "scale": torch.ones(2)}
        self.assertEqual(list(adjoin.export_program(Net(), example, self.path, check=False).inputs), ["x", "scale"])
        fixed = adjoin.export_program(Net(), (torch.randn(2, 3, 4, 4),), self.path, dynamic_shapes=({},), check=False)
        self.assertEqual(fixed.inputs, {"x": [2, 3, 4, 4]})

    def test_says_what_cannot_be_exported_and_where(self):
        for model, what in (
            (Asking(), r"^export_program: in inner\.1, .*program_test\.py:\d+: return x \* 2 if x\.sum\(\) > 0 else x, "),
            (Own(), r"the operator adjoin_test\.twice\.default is none of PyTorch's own"),
        ):
            with self.assertRaisesRegex(adjoin.ExportError, what) as refused:
                adjoin.export_program(model, torch.randn(3, 4), self.path)
            self.assertNotIn("\n", str(refused.exception))
            self.assertFalse(os.path.exists(self.path))

    def test_works_as_a_file_of_its_own(self):
        source = Path(__file__).resolve().parents[2] / "python/adjoin/program.py"
        spec = importlib.util.spec_from_file_location("program", source)
        alone = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(alone)
        self.assertEqual(alone.export_program(torch.nn.Linear(4, 2), torch.randn(3, 4), self.path).operators, 1)


if __name__ == "__main__":
    unittest.main()
