"""What saving and loading costs torch.distributed.checkpoint, to be measured beside build/release/bench/bench_checkpoints.

    OMP_NUM_THREADS=1 python bench/peers/checkpoint_torch.py FOLDER [MiB] [turns]

Two processes over gloo. A third of the MiB are weights, which both have; the rest are AdamW's moments, DTensors of which each has
half of the rows. All are matrices of 4 MiB. Files are flushed, and cached when they are read. Prints medians.
"""
import json
import os
import shutil
import socket
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

RANKS, SIDE = 2, 1024


def work(rank, port, folder, mib, turns):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    torch.set_num_threads(1)
    mesh = init_device_mesh("cpu", (RANKS,))
    state = {f"weight{i}": torch.full((SIDE, SIDE), 0.1) for i in range(mib // 12)}
    state |= {f"moment{i}": distribute_tensor(torch.full((SIDE, SIDE), 0.1), mesh, [Shard(0)]) for i in range(mib // 6)}
    times = {"save": [], "async_save": [], "load": []}

    def take(name, turn, action):
        dist.barrier()
        begin = time.perf_counter()
        result = action()
        dist.barrier()
        if turn > 0:
            times[name].append(time.perf_counter() - begin)
        return result

    def fresh():
        if rank == 0:
            shutil.rmtree(folder, ignore_errors=True)
        dist.barrier()

    for turn in range(turns + 1):
        fresh()
        take("save", turn, lambda: dcp.save(state, checkpoint_id=folder))
        take("load", turn, lambda: dcp.load(state, checkpoint_id=folder))
        fresh()
        take("async_save", turn, lambda: dcp.async_save(state, checkpoint_id=folder)).result()
    if rank == 0:
        print(json.dumps({"peer": "torch", "MiB": mib, **{name: statistics.median(all) for name, all in times.items()}}))
        shutil.rmtree(folder, ignore_errors=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    place = os.path.join(sys.argv[1], "dcp")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = probe.getsockname()[1]
    sizes = [int(text) for text in sys.argv[2:]] + [1024, 5][len(sys.argv) - 2:]
    mp.spawn(work, args=(free, place, *sizes), nprocs=RANKS)
