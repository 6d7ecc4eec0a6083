"""Networks that adjoin trains as programs, beside Python's own loop.

usage: trained_program.py make NET FOLDER --source DATA     writes FOLDER/net.pt2 and FOLDER/data
       trained_program.py loop NET FOLDER [--epochs N] [--batch N] [--lr RATE]     trains it in Python, with the batches of --shuffle off
       trained_program.py back NET FOLDER --weights FILE     measures it with the weights of adjoin export

NET: vit, resnet (transformers, with random weights; DATA is a folder with MNIST's t10k files), distilbert (DATA is a folder with IMDb's
train.csv.gz and test.csv.gz, beside it bert-base-uncased), field (own; DATA is not needed).
"""

import argparse
import csv
import gzip
import math
import sys
import time
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python/adjoin"))
from program import export_program  # noqa: E402

TOKENS = 128


class Field(torch.nn.Module):
    """What a field on a torus becomes: convolutions around its edges, added to the field."""

    def __init__(self, channels=16):
        super().__init__()
        layers = [torch.nn.Conv2d(a, b, 5, padding=2, padding_mode="circular") for a, b in [(1, channels), (channels, channels), (channels, 1)]]
        self.body = torch.nn.Sequential(layers[0], torch.nn.GELU(), layers[1], torch.nn.GELU(), layers[2])

    def forward(self, x):
        return x + self.body(x)


def made(name):
    """The network, in float64: in float32 rounding would decide what is learned."""
    torch.manual_seed(1)
    return network(name).double()


def network(name):
    t = transformers
    if name == "vit":
        sizes = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128)
        config = t.ViTConfig(**sizes, image_size=28, patch_size=7, num_channels=1, num_labels=10, hidden_dropout_prob=0.0)
        return t.ViTForImageClassification(config)
    if name == "resnet":
        sizes = dict(embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1])
        return t.ResNetForImageClassification(t.ResNetConfig(**sizes, num_channels=1, layer_type="basic", num_labels=10))
    if name == "distilbert":
        config = t.DistilBertConfig(vocab_size=30522, dim=128, n_layers=2, n_heads=4, hidden_dim=512, max_position_embeddings=TOKENS, dropout=0.0, attention_dropout=0.0, seq_classif_dropout=0.0)
        return t.DistilBertForSequenceClassification(config)
    return Field()


def digits(source):
    def numbers(file, header):
        return torch.frombuffer(bytearray(gzip.open(source / file).read()[header:]), dtype=torch.uint8)

    pictures = numbers("t10k-images-idx3-ubyte.gz", 16).view(-1, 1, 28, 28).double()
    return (pictures / 255 - 0.13) / 0.31, numbers("t10k-labels-idx1-ubyte.gz", 8).long()


def fields(count=2000, size=16, steps=20):
    """Smooth random fields, and what 20 steps of Allen and Cahn's equation, u' = 0.1 Laplace(u) + 0.2 (u - u^3), make of them."""
    torch.manual_seed(2)
    waves = torch.randn(count, 1, size, size // 2 + 1, dtype=torch.cfloat)
    waves[..., 4:] = 0
    waves[:, :, 4:-3] = 0
    x = torch.fft.irfft2(waves, s=(size, size))
    x = 0.5 * x / x.std()
    u = x.clone()
    for _ in range(steps):
        around = sum(torch.roll(u, shift, dim) for shift in (1, -1) for dim in (2, 3))
        u = u + 0.1 * (around - 4 * u) + 0.2 * (u - u**3)
    return x.double(), u.double()


def write_data(name, source, folder):
    if name == "distilbert":
        csv.field_size_limit(1 << 30)
        for part, count in [("train", 5000), ("test", 1000)]:
            with gzip.open(source / f"{part}.csv.gz", "rt", newline="") as file:
                rows = list(csv.reader(file))[1:]
            chosen = [rows[i] for i in torch.randperm(len(rows), generator=torch.Generator().manual_seed(1))[:count]]
            with open(folder / f"{part}.csv", "w", newline="") as file:
                csv.writer(file).writerows([["text", "label"], *chosen])
        return
    x, y = fields() if name == "field" else digits(source)
    train = len(x) * 4 // 5
    save_file({"x": x[:train].contiguous(), "y": y[:train].contiguous()}, folder / "train.safetensors")
    save_file({"x": x[train:].contiguous(), "y": y[train:].contiguous()}, folder / "test.safetensors")


def read_data(name, part, folder):
    """Inputs by name, and targets."""
    if name != "distilbert":
        data = load_file(folder / f"data/{part}.safetensors")
        return {"x": data["x"]}, data["y"]
    csv.field_size_limit(1 << 30)
    with open(folder / f"data/{part}.csv", newline="") as file:
        rows = list(csv.reader(file))[1:]
    tokenizer = transformers.BertTokenizer(str(folder / "vocab.txt"))
    found = tokenizer([row[0] for row in rows], truncation=True, max_length=TOKENS, padding=True, return_tensors="pt")
    return {key: found[key] for key in ("input_ids", "attention_mask")}, torch.tensor([int(row[1]) for row in rows])


def output_of(name, model, inputs):
    if name == "distilbert":
        longest = int(inputs["attention_mask"].sum(1).max())
        return model(**{key: x[:, :longest] for key, x in inputs.items()}).logits
    return model(inputs["x"]) if name == "field" else model(inputs["x"]).logits


def measured(name, model, folder):
    model.eval()
    inputs, y = read_data(name, "test", folder)
    with torch.no_grad():
        scores = torch.cat([output_of(name, model, {key: x[i : i + 100] for key, x in inputs.items()}) for i in range(0, len(y), 100)])
    if name == "field":
        return f"r2 {1 - ((scores - y) ** 2).sum() / ((y - y.mean()) ** 2).sum():.4f}"
    return f"accuracy {100 * (scores.argmax(1) == y).float().mean():.2f} %"


def loop(name, folder, epochs, batch, lr):
    """As adjoin train does it by default: AdamW with weight decay of matrices, clipping, a warm-up and half a cosine."""
    model = made(name)
    inputs, y = read_data(name, "train", folder)
    groups = [[p for p in model.parameters() if p.dim() >= 2], [p for p in model.parameters() if p.dim() < 2]]
    optimizer = torch.optim.AdamW([{"params": groups[0], "weight_decay": 0.01}, {"params": groups[1], "weight_decay": 0}], lr=lr)
    begins = [begin for _ in range(epochs) for begin in range(0, len(y), batch)]
    warm_up, begun = 0.1 * len(begins), time.time()
    torch.manual_seed(1)
    model.train()
    for step, begin in enumerate(begins):
        rate = (step + 1) / warm_up if step + 1 < warm_up else 0.5 + 0.5 * math.cos(math.pi * max(0, step - warm_up) / (len(begins) - warm_up))
        for group in optimizer.param_groups:
            group["lr"] = lr * rate
        scores, target = output_of(name, model, {key: x[begin : begin + batch] for key, x in inputs.items()}), y[begin : begin + batch]
        loss = torch.nn.functional.mse_loss(scores, target) if name == "field" else torch.nn.functional.cross_entropy(scores, target)
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters()])
        if norm > 1:  # clip_grad_norm_ would divide by norm + 1e-6
            torch._foreach_div_([p.grad for p in model.parameters()], norm)
        optimizer.step()
    print(f"{measured(name, model, folder)}, {time.time() - begun:.0f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("do", choices=["make", "loop", "back"])
    parser.add_argument("net", choices=["vit", "resnet", "distilbert", "field"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--source", type=Path)
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--lr", type=float, default=1e-3)
    given = parser.parse_args()
    if given.do == "make":
        (given.folder / "data").mkdir(parents=True, exist_ok=True)
        write_data(given.net, given.source, given.folder / "data")
        if given.net == "distilbert":
            (given.folder / "vocab.txt").write_bytes((given.source.parent / "bert-base-uncased/vocab.txt").read_bytes())
        if given.net == "distilbert":
            ids = torch.randint(5, 30000, (4, 20))
            example = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        else:
            example = read_data(given.net, "test", given.folder)[0]["x"][:4]
        print(export_program(made(given.net), example, given.folder / "net.pt2"))
    elif given.do == "loop":
        loop(given.net, given.folder, given.epochs, given.batch, given.lr)
    else:
        model = made(given.net)
        model.load_state_dict(load_file(given.weights))
        print(measured(given.net, model, given.folder))


if __name__ == "__main__":
    main()
