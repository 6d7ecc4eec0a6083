"""LeNet-5 on MNIST's digits. Four workers hold quarters of every picture, and of all features of it; then the features
move to a grid of rows and columns, over which the weights of the linear layers are cut.
"""

import gzip
from pathlib import Path

import torch

import adjoin
from adjoin import nn
from example import nearly_square, run

PICTURES_OF_STEP = 50
RATE, MOMENTUM = 0.04, 0.9


def lenet5(space, features, dtype):
    def conv(inputs, outputs, padding):
        return nn.Conv2d(inputs, outputs, 5, padding=padding, grid=space, dtype=dtype)

    def linear(inputs, outputs):
        weight = adjoin.Layout(features, [outputs, inputs], {0: "out", 1: "in"})
        return nn.Linear(inputs, outputs, grid=features, weight=weight, dtype=dtype)

    relu = nn.Elementwise(torch.relu)
    pool = nn.MaxPool2d(2, grid=space)
    return nn.Sequential(
        *(conv(1, 6, 2), relu, pool),  # [batch, 6, 14, 14], cut over space
        *(conv(6, 16, 0), relu, pool),  # [batch, 16, 5, 5]
        nn.Flatten(grid=space),  # [batch, 400], cut over features
        *(linear(400, 120), relu, linear(120, 84), relu, linear(84, 10)),  # their weights over both
    )


def read_idx(folder, name):
    path = Path(folder) / name
    data = path.read_bytes() if path.exists() else gzip.decompress(path.with_name(name + ".gz").read_bytes())
    dims = [int.from_bytes(data[4 + 4 * dim : 8 + 4 * dim]) for dim in range(data[3])]
    return torch.frombuffer(bytearray(data[4 + 4 * len(dims) :]), dtype=torch.uint8).view(dims)


def learn_digits(world, options, say):
    dtype = torch.float64 if options.precision == "fp64" else torch.float32
    pictures = (read_idx(options.data, "t10k-images-idx3-ubyte").to(dtype).unsqueeze(1) / 255 - 0.13) / 0.31
    labels = read_idx(options.data, "t10k-labels-idx1-ubyte").to(torch.int64)
    to_train = len(labels) * 4 // 5

    height, width = nearly_square(world.size)
    space, features = adjoin.Grid(world, {"y": height, "x": width}), adjoin.Grid(world, {"out": height, "in": width})
    net = lenet5(space, features, dtype)
    nn.initialize(net, seed=1)  # the same global weights for every number of workers
    loss_of = nn.CrossEntropyLoss(grid=features)
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE, momentum=MOMENTUM)
    over_space = nn.balanced_over(space, [[], [], ["y"], ["x"]])
    sampler = adjoin.Sampler(samples=to_train, batch=PICTURES_OF_STEP, seed=1)

    losses = []
    for step in range(options.steps):
        batch = torch.tensor(sampler.next())
        x = adjoin.place(pictures[batch], over_space([len(batch), 1, 28, 28]), space)
        y = adjoin.DistributedTensor(labels[batch], adjoin.Layout(features, [len(batch)]), features)
        optimizer.param_groups[0]["lr"] = RATE * (1 - step / options.steps)  # falls to 0, so that no batch has the last word
        optimizer.zero_grad()
        loss = loss_of(net(x), y)
        loss.local.sum().backward()
        adjoin.sum_gradients(net)
        optimizer.step()
        losses.append(loss.local.item())
        if step % 100 == 0:
            say(f"step {step:4d}  loss {losses[-1]:.4f}")
    return {"losses": losses}


def add_options(parser):
    parser.add_argument("--data", required=True, help="folder of MNIST's t10k files")
    parser.add_argument("--precision", choices=["fp32", "fp64"], default="fp32", help="what is computed in")
    parser.add_argument("--steps", type=int, default=500, help="steps of 50 pictures")


if __name__ == "__main__":
    run("LeNet-5 on MNIST's digits, cut over space and features.", learn_digits, add_options)
