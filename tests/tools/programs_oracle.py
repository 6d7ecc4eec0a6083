"""Exports small modules, and writes what PyTorch computes with them.

usage: programs_oracle.py OUT [NAME…]     NAME: of the modules below, or of a family of transformers (tests/python/families.py)

OUT/NAME.pt2: both graphs; OUT/NAME-plain.pt2: as torch.export.save writes it.
OUT/NAME.safetensors: "input.0", …, at other sizes than those of the export; in training mode, after torch.manual_seed(7), "output.0", …,
"loss", which is the sum of all outputs weighted from -1 to 1, "gradient.NAME" and "buffer.NAME" after the step; then in eval mode
"eval.0", …, and of families "eval-loss" and "eval-gradient.NAME". OUT/NAME-double.pt2 and .safetensors of families: in float64 alone.
"""

import json
import shutil
import sys
import warnings
import zipfile
from pathlib import Path
from unittest import mock

import torch
from safetensors.torch import save_file
from torch.export.pt2_archive._package import PT2ArchiveWriter

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python/adjoin"))
from program import export_program  # noqa: E402

DYNAMIC = torch.export.Dim.DYNAMIC


class Cnn(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(
            torch.nn.Conv2d(1, 6, 3, padding=1), torch.nn.BatchNorm2d(6), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Conv2d(6, 8, 3, padding=1)
        )
        self.head = torch.nn.Linear(8 * 4 * 4, 5)

    def forward(self, x):
        return self.head(torch.relu(self.body(x)).flatten(1))


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.norm, self.drop, self.down = torch.nn.Linear(7, 12), torch.nn.BatchNorm1d(12), torch.nn.Dropout(0.3), torch.nn.Linear(12, 4)

    def forward(self, x):
        return self.down(self.drop(torch.nn.functional.gelu(self.norm(self.up(x)))))


class Block(torch.nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.drop = torch.nn.Dropout(dropout) if dropout else torch.nn.Identity()
        self.norm1, self.norm2 = torch.nn.LayerNorm(24), torch.nn.LayerNorm(24)
        self.qkv, self.out = torch.nn.Linear(24, 72), torch.nn.Linear(24, 24)
        self.up, self.down = torch.nn.Linear(24, 48), torch.nn.Linear(48, 24)

    def forward(self, x, mask, shift=None):
        b, t, e = x.shape
        shift = self.norm1.weight.tanh() if shift is None else shift  # of the first block, which gives it to the others
        q, k, v = (part.view(b, t, 6, 4).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, -1))
        a = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.out(a.transpose(1, 2).reshape(b, t, e))
        return x + self.drop(self.down(torch.nn.functional.silu(self.up(self.norm2(x + shift))))), shift


class Transformer(torch.nn.Module):
    """With a head that is the table of words, and with positions made of sizes."""

    def __init__(self, dropout=0.0):
        super().__init__()
        self.words, self.positions = torch.nn.Embedding(20, 24), torch.nn.Embedding(16, 24)
        self.blocks = torch.nn.ModuleList([Block(dropout), Block(dropout)])
        self.head = torch.nn.Linear(24, 20, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids, mask):
        t = ids.shape[1]
        x = self.words(ids) + self.positions(torch.arange(t, device=ids.device))
        seen = torch.ones(t, t, dtype=torch.bool).tril() & (mask != 0)[:, None, None, :]
        shift = None
        for block in self.blocks:
            x, shift = block(x, seen, shift)
        return self.head(x)


class Modes(torch.nn.Module):
    """Writes to a buffer, changes modes of gradients and autocast, and returns several things."""

    def __init__(self):
        super().__init__()
        self.inner, self.outer = torch.nn.Linear(6, 6), torch.nn.Linear(6, 3)
        self.register_buffer("mean", torch.zeros(6))
        self.register_buffer("scale", torch.tensor(2.0), persistent=False)
        self.offsets = torch.arange(6.0) / 6

    def forward(self, x, factor=1.5):
        with torch.no_grad():
            self.mean.mul_(0.9).add_(0.1 * x.mean(0))
        y = torch.tanh(self.inner(x - self.mean) * self.scale + self.offsets)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            z = self.outer(y)
        return {"scores": z * factor, "rest": (y, x.shape[0] * 2, None)}


class Path_(torch.nn.Module):
    """Whole samples are dropped by numbers that it draws itself; one layer is the first and the last."""

    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(6, 6), torch.nn.Linear(6, 6)

    def forward(self, x):
        y = self.first(torch.relu(self.second(torch.relu(self.first(x)))))
        if self.training:
            y = y * (torch.rand(x.shape[0], 1, dtype=x.dtype) + 0.8).floor() / 0.8
        return x + y


class Texts(torch.nn.Module):
    """Puts texts into two classes by the mean of what each word is."""

    def __init__(self):
        super().__init__()
        self.words, self.drop, self.head = torch.nn.Embedding(20, 12), torch.nn.Dropout(0.2), torch.nn.Linear(12, 2)

    def forward(self, input_ids, attention_mask):
        seen = attention_mask.unsqueeze(-1).to(self.head.weight.dtype)
        return {"rest": seen, "logits": self.head(self.drop((self.words(input_ids) * seen).sum(1) / seen.sum(1)))}


class Writer(torch.nn.Module):
    """Scores bytes by the byte before."""

    def __init__(self):
        super().__init__()
        self.words, self.head = torch.nn.Embedding(300, 12), torch.nn.Linear(12, 300)

    def forward(self, input_ids):
        return self.head(torch.tanh(self.words(input_ids)))


class Learner(torch.nn.Module):
    """Returns its loss."""

    def __init__(self):
        super().__init__()
        self.inner, self.norm, self.outer = torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3)

    def forward(self, x, labels):
        return {"loss": torch.nn.functional.cross_entropy(self.outer(torch.tanh(self.norm(self.inner(x)))), labels)}


def ids(batch, tokens):
    mask = torch.ones(batch, tokens, dtype=torch.long)
    mask[0, tokens - 2 :] = 0
    return torch.randint(0, 20, (batch, tokens)), mask


# A module, the type of its weights, what it is exported with, and what it computes.
CASES = {
    "cnn": (Cnn, torch.float64, lambda: (torch.randn(3, 1, 8, 8),), lambda: (torch.randn(5, 1, 8, 8),)),
    "mlp": (Mlp, torch.float32, lambda: (torch.randn(3, 7),), lambda: (torch.randn(6, 7),)),
    "transformer": (Transformer, torch.float64, lambda: ids(3, 7), lambda: ids(4, 9)),
    "dropping": (lambda: Transformer(0.2), torch.float64, lambda: ids(3, 7), lambda: ids(4, 9)),
    "modes": (Modes, torch.float32, lambda: (torch.randn(3, 6),), lambda: (torch.randn(5, 6),)),
    "texts": (Texts, torch.float64, lambda: ids(3, 7), lambda: ids(4, 9)),
    "writer": (Writer, torch.float64, lambda: ids(3, 7)[:1], lambda: ids(4, 9)[:1]),
    "learner": (Learner, torch.float64, lambda: (torch.randn(3, 6), torch.tensor([0, 2, 1])), lambda: (torch.randn(4, 6), torch.tensor([1, 1, 0, 2]))),
    "path": (Path_, torch.float64, lambda: (torch.randn(3, 6),), lambda: (torch.randn(5, 6),)),
}


def as_type(inputs, dtype):
    return tuple(x.to(dtype) if x.is_floating_point() else x for x in inputs)


def leaves(results):
    return [x if isinstance(x, torch.Tensor) else torch.tensor(x) for x in torch.utils._pytree.tree_leaves(results) if x is not None]


def loss_of(results):
    return sum((x.double() * torch.linspace(-1, 1, x.numel(), dtype=torch.float64).reshape(x.shape)).sum() for x in results if x.is_floating_point())


def step(model, call, name):
    """A forward and a backward pass: results, the loss and the gradients."""
    model.zero_grad()
    results = leaves(call(model))
    loss = loss_of(results)
    loss.backward()
    gradients = {f"{name}gradient.{key}": p.grad for key, p in model.named_parameters() if p.grad is not None}
    return results, {f"{name}loss": loss.detach()} | gradients


def save(path, model, inputs, call, has_eval_gradients):
    """What the model computes from inputs."""
    expected = {f"input.{i}": x for i, x in enumerate(inputs)}
    torch.manual_seed(7)
    model.train()
    results, found = step(model, call, "")
    expected |= {f"output.{i}": x.detach() for i, x in enumerate(results)} | found
    expected |= {f"buffer.{key}": x.clone() for key, x in model.named_buffers()}
    model.eval()
    results, found = step(model, call, "eval-")
    expected |= {f"eval.{i}": x.detach() for i, x in enumerate(results)} | (found if has_eval_gradients else {})
    save_file({key: x.clone().contiguous() for key, x in expected.items()}, path)


def write(folder, name):
    torch.manual_seed(len(name))
    make, dtype, example, inputs = CASES[name]
    model = make().to(dtype)
    example, inputs = as_type(example(), dtype), as_type(inputs(), dtype)
    export_program(model, example, folder / f"{name}.pt2", check=False)
    shapes = tuple({dim: DYNAMIC for dim in range(2 if x.dtype == torch.long and x.dim() == 2 else 1)} for x in example)
    if name == "modes":
        shapes = {"x": shapes[0]}
    torch.export.save(torch.export.export(model.train(), example, dynamic_shapes=shapes, strict=False), folder / f"{name}-plain.pt2")
    save(folder / f"{name}.safetensors", model, inputs, lambda model: model(*inputs), False)


def write_family(folder, name):
    sys.path.insert(0, str(ROOT / "tests/python"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import families
    model, arguments, _ = families.made(name)
    print(export_program(model.train(), arguments, folder / f"{name}.pt2", check=False))
    inputs = [torch.cat([x, x.flip(0)[:2]]) for x in arguments.values()]
    inputs = [x[:, :-1] if x.dim() == 2 else x for x in inputs]

    def call(model):
        return model(**dict(zip(arguments, inputs, strict=True)))

    save(folder / f"{name}.safetensors", model, inputs, call, True)
    # Some layers compute in float32 whatever the type of their weights; there results depend on the order of sums.
    # DeBERTa's are quotients of whole numbers, which stay so.
    (shutil.copy if name == "deberta" else as_double)(folder / f"{name}.pt2", folder / f"{name}-double.pt2")
    with mock.patch.object(torch, "float32", torch.float64), mock.patch.object(torch.Tensor, "float", torch.Tensor.double):
        save(folder / f"{name}-double.safetensors", model, inputs, call, True)


def as_double(source, target):
    """The program in which each float32 is a float64."""

    def changed(json):
        if isinstance(json, dict):
            return {key: 8 if key in ("dtype", "as_scalar_type") and x == 7 else changed(x) for key, x in json.items()}
        return [changed(x) for x in json] if isinstance(json, list) else json

    with zipfile.ZipFile(source) as file, PT2ArchiveWriter(str(target)) as writer:
        for record in file.namelist():
            name, data = record.split("/", 1)[1], file.read(record)
            if name.startswith("models/"):
                data = json.dumps(changed(json.loads(data))).encode()
            if not name.startswith(".data/") and name not in ("archive_format", "archive_version", "byteorder"):
                writer.write_bytes(name, data)


def main():
    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    for name in sys.argv[2:] or CASES:
        (write if name in CASES else write_family)(folder, name)


if __name__ == "__main__":
    main()
