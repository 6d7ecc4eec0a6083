"""Least seconds of short bursts of collectives, in turns on gloo, on adjoin, and on adjoin with tensors whose memory is numpy's, which are
staged: what a quiet machine would show, on one that is not. Then those of a call of one element on one rank, beside PyTorch's "fake" backend.

torchrun --standalone --nproc-per-node 2 bench/torch_distributed.py [--bytes 4096,65536] [--seconds 3]
"""

import argparse
import itertools
import math
import time
import warnings

import adjoin  # noqa: F401
import numpy
import torch
import torch.distributed as dist
from torch.testing._internal.distributed import fake_pg  # noqa: F401, makes "fake" a backend

warnings.filterwarnings("ignore")


def calls(group, tensors):
    whole, part, other = tensors
    return {
        "all_reduce": lambda: dist.all_reduce(whole, group=group),
        "broadcast": lambda: dist.broadcast(whole, 0, group=group),
        "all_gather": lambda: dist.all_gather_single(whole, part, group=group),
        "reduce_scatter": lambda: dist.reduce_scatter_single(part, whole, group=group),
        "all_to_all": lambda: dist.all_to_all_single(other, whole, group=group),
    }


def bursts(of_group, number, seconds):
    """Seconds of a call in each burst, for each group."""
    times = {name: [] for name in of_group}
    going, end = torch.ones(1), time.perf_counter() + seconds
    while going:
        for _ in range(8):
            for name, call in of_group.items():
                call()
                begin = time.perf_counter()
                for _ in range(number):
                    call()
                times[name].append((time.perf_counter() - begin) / number)
        going.fill_(time.perf_counter() < end)
        dist.broadcast(going, 0)
    return times


def least_of_one_element(backend):
    """Microseconds of an all_reduce on this rank alone: waited for by the call, and begun."""
    group, x = dist.new_group([dist.get_rank()], backend=backend, use_local_synchronization=True), torch.ones(1)

    def least(call):
        begins = [time.perf_counter()]
        for _ in range(200):
            for _ in range(200):
                call()
            begins.append(time.perf_counter())
        return min(after - before for before, after in itertools.pairwise(begins)) / 200 * 1e6

    return least(lambda: dist.all_reduce(x, group=group)), least(lambda: dist.all_reduce(x, group=group, async_op=True).wait())


def geometric_mean(numbers):
    return math.exp(sum(map(math.log, numbers)) / len(numbers))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bytes", default="4096,65536,1048576,16777216,67108864")
    parser.add_argument("--seconds", type=float, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    world, prints = dist.get_world_size(), dist.get_rank() == 0
    gloo, own = dist.group.WORLD, dist.new_group(backend="adjoin")
    ratios, staged = {}, {}
    for size in map(int, options.bytes.split(",")):
        n = size // 4 // world * world
        shared = [torch.ones(count) for count in (n, n // world, n)]
        of_numpy = [torch.from_numpy(numpy.ones(tensor.shape, numpy.float32)) for tensor in shared]
        of_group = {"gloo": calls(gloo, shared), "adjoin": calls(own, shared), "staged": calls(own, of_numpy)}
        for operation in of_group["gloo"]:
            times = bursts({name: of[operation] for name, of in of_group.items()}, max(1, min(20, (1 << 20) // size)), options.seconds)
            for tensor in (*shared, *of_numpy):
                tensor.fill_(1)
            least = {name: min(of) * 1e6 for name, of in times.items()}
            ratios[operation, size] = least["gloo"] / least["adjoin"]
            staged[operation, size] = least["staged"] / least["adjoin"]
            if prints:
                print(f"{operation:15} {size:9}", *(f" {name} {us:9.1f} us" for name, us in least.items()), f" gloo over adjoin {ratios[operation, size]:5.1f}", flush=True)
    alone = {backend: least_of_one_element(backend) for backend in ("fake", "adjoin")}
    large = {key: ratio for key, ratio in ratios.items() if key[1] >= 1 << 16}
    if prints and large:
        print(f"from 64 KiB, gloo over adjoin: geometric mean {geometric_mean(large.values()):.1f}, least {min(large.values()):.1f}")
        for operation in ("all_reduce", "reduce_scatter"):
            print(f"  of {operation} alone: {geometric_mean([ratio for key, ratio in large.items() if key[0] == operation]):.1f}")
        print(f"from 64 KiB, staged over shared: most {max(staged[key] for key in large):.1f}, least gloo over staged {min(ratios[key] / staged[key] for key in large):.1f}")
    if prints:
        for kind, (fake, here) in zip(("waited for", "begun"), zip(alone["fake"], alone["adjoin"])):
            print(f"one element on one rank, {kind}: {here:.1f} us, fake {fake:.1f} us")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
