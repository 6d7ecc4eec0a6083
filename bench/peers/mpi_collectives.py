#!/usr/bin/env python3
"""Times all_reduce, broadcast and reduce_scatter of float32 by other builds of MPI beside adjoin's processes, in turns.

usage: bench/peers/mpi_collectives.py ENVIRONMENT… [--adjoin BENCH_COLLECTIVES] [--ranks N] [--rounds N]

An ENVIRONMENT is a folder made by `python3 -m venv` that holds mpi4py, numpy and one of openmpi, mpich and impi-rt. Buffers are
written anew before each call, which is not timed. Prints microseconds, medians over calls and rounds, and each build's time over
adjoin's.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

SIZES = [64 << 10, 1 << 20, 16 << 20, 64 << 20]
OPERATIONS = ["all_reduce", "broadcast", "reduce_scatter"]
ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "PRTE_ALLOW_RUN_AS_ROOT": "1",
               "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
               "I_MPI_FABRICS": "shm", "I_MPI_PIN": "0", "HYDRA_BINDING": "none"}


def measure_as_rank():
    """Prints the median microseconds of each operation and size on rank 0."""
    import numpy
    from mpi4py import MPI
    world = MPI.COMM_WORLD
    times = {}
    for size in SIZES:
        given, got = numpy.ones(size // 4, numpy.float32), numpy.zeros(size // 4, numpy.float32)
        block = got[:size // 4 // world.size]
        calls = {"all_reduce": lambda: world.Allreduce(MPI.IN_PLACE, given),
                 "broadcast": lambda: world.Bcast(given, 0),
                 "reduce_scatter": lambda: world.Reduce_scatter_block(given, block)}
        for name, call in calls.items():
            seconds = []
            for _ in range(max(7, min(200, (64 << 20) // size))):
                given.fill(1)
                world.Barrier()
                begin = time.perf_counter()
                call()
                world.Barrier()
                seconds.append(time.perf_counter() - begin)
            times[f"{name} {size}"] = 1e6 * statistics.median(seconds[2:])
    if world.rank == 0:
        print(json.dumps(times))


def of_library(environment, ranks):
    """The times of the MPI of an environment."""
    tools = os.path.join(environment, "bin")
    command = [os.path.join(tools, "mpiexec"), "-n", str(ranks), os.path.join(tools, "python"), __file__, "--as-rank"]
    out = subprocess.run(command, capture_output=True, text=True, timeout=300, env=os.environ | ENVIRONMENT)
    if out.returncode != 0:
        sys.exit(f"{environment}: {out.stderr[-2000:]}")
    return json.loads(out.stdout.strip().splitlines()[-1])


def of_adjoin(program, ranks):
    """Those of adjoin's processes, which bench_collectives measures."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, "--op", ",".join(OPERATIONS), "--ranks", str(ranks), "--sizes", ",".join(map(str, SIZES)),
                        "--out", folder + "/times"], capture_output=True, timeout=600, check=True)
        with open(folder + "/times.json", encoding="utf-8") as file:
            return {f"{row['op']} {row['bytes']}": row["processes_us"] for row in json.load(file)["results"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("environments", nargs="*")
    parser.add_argument("--adjoin", default="build/release/bench/bench_collectives")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--as-rank", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.as_rank:
        return measure_as_rank()
    measured = {"adjoin": [], **{environment: [] for environment in options.environments}}
    for _ in range(options.rounds):
        for name, rounds in measured.items():
            rounds.append(of_adjoin(options.adjoin, options.ranks) if name == "adjoin" else of_library(name, options.ranks))
    for case in measured["adjoin"][0]:
        median = {name: statistics.median(times[case] for times in rounds) for name, rounds in measured.items()}
        print(f"{case:26s}" + "".join(
            f"  {os.path.basename(name.rstrip('/'))} {us:.1f}" + ("" if name == "adjoin" else f" ({us / median['adjoin']:.1f}x)")
            for name, us in median.items()))


if __name__ == "__main__":
    main()
