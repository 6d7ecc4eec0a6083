"""Least seconds of short bursts of collectives, on adjoin and gloo in turns: what a quiet machine would show, on one that is not.

torchrun --standalone --nproc-per-node 2 bench/torch_distributed.py [--bytes 4096,65536] [--seconds 3] [--staged]

--staged: tensors that were made before the group, so that the ranks do not reach each other's
"""

import argparse
import math
import time
import warnings

import adjoin  # noqa: F401
import torch
import torch.distributed as dist

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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bytes", default="4096,65536,1048576,16777216,67108864")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--staged", action="store_true")
    options = parser.parse_args()
    sizes = [int(size) for size in options.bytes.split(",")]
    torch.set_num_threads(1)

    def made():
        counts = {size: size // 4 // world * world for size in sizes}
        return {size: (torch.ones(n), torch.ones(n // world), torch.ones(n)) for size, n in counts.items()}

    dist.init_process_group("gloo")
    world = dist.get_world_size()
    tensors = made() if options.staged else None
    groups = {"gloo": dist.group.WORLD, "adjoin": dist.new_group(backend="adjoin")}
    tensors = tensors or made()
    ratios = []
    for operation in calls(None, (None,) * 3):
        for size in sizes:
            of_group = {name: calls(group, tensors[size])[operation] for name, group in groups.items()}
            times = bursts(of_group, max(1, min(20, (1 << 20) // size)), options.seconds)
            for tensor in tensors[size]:
                tensor.fill_(1)
            least = {name: min(of) * 1e6 for name, of in times.items()}
            ratios.append((size, least["gloo"] / least["adjoin"]))
            if dist.get_rank() == 0:
                print(f"{operation:15} {size:9}  gloo {least['gloo']:9.1f} us  adjoin {least['adjoin']:9.1f} us  ratio {ratios[-1][1]:6.1f}", flush=True)
    of_large = [ratio for size, ratio in ratios if size >= 1 << 16]
    if dist.get_rank() == 0 and of_large:
        print(f"geometric mean from 64 KiB: {math.exp(sum(map(math.log, of_large)) / len(of_large)):.1f}, least {min(of_large):.1f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
