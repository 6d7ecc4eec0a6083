"""Processes that are the ranks of torch.distributed, forked from one that has loaded torch."""

import io
import multiprocessing
import multiprocessing.util
import os
import tempfile
import traceback
import unittest
from datetime import timedelta

import torch
import torch.distributed as dist

PRELOADED = ["torch", "adjoin", "numpy", "transformers", "torch._dynamo", "torch.distributed.algorithms.join", "torch.distributed.checkpoint",
             "torch.distributed.fsdp", "torch.distributed.optim", "torch.distributed.pipelining", "torch.distributed.tensor.parallel", "ranks"]
alone = unittest.skipIf("OMPI_COMM_WORLD_SIZE" in os.environ or "PMI_RANK" in os.environ, "starts its own processes")
SCALE = int(os.environ.get("ADJOIN_TEST_SCALE", 1))
usual, tempfile.tempdir = tempfile.gettempdir(), "/tmp"
multiprocessing.util.get_temp_dir()  # for sockets, whose paths are short, so not in TMPDIR
tempfile.tempdir = usual
context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(PRELOADED)


def _be_rank(work, rank, size, backends, store, timeout, arguments, environment, results):
    import adjoin  # noqa: F401  the backend

    torch.set_num_threads(1)
    os.environ.update(environment)
    try:
        given = []
        for backend in backends:
            dist.init_process_group(backend, init_method=f"file://{store}.{backend}", rank=rank, world_size=size, timeout=timedelta(seconds=timeout))
            given.append(work(rank, *arguments))
            if dist.is_initialized():
                dist.destroy_process_group()
        packed = io.BytesIO()
        torch.save(given, packed)  # a tensor by its bytes: as itself it would be a file of a process that has ended
        results.send((None, packed.getvalue()))
    except BaseException:
        results.send((traceback.format_exc(), None))


def on_ranks(work, ranks=2, backends=("adjoin",), arguments=(), timeout=60, lost=(), within=100, environment={}):
    """Runs work(rank, *arguments) on processes with a default group, on each backend in turn; gives what each rank returned for each.

    lost: ranks that do not end by themselves, for which None is given
    """
    with tempfile.TemporaryDirectory() as folder:
        store = os.path.join(folder, "store")
        ends = [context.Pipe(duplex=False) for _ in range(ranks)]
        processes = [context.Process(target=_be_rank, args=(work, rank, ranks, backends, store, timeout, arguments, environment, ends[rank][1]))
                     for rank in range(ranks)]
        for process, (_, sender) in zip(processes, ends):
            process.start()
            sender.close()
        given, failures = [None] * ranks, []
        try:
            for rank in range(ranks):
                if rank in lost:
                    continue
                failure = "hangs"
                if ends[rank][0].poll(within if not failures else 2):
                    try:
                        failure, packed = ends[rank][0].recv()
                        given[rank] = packed and torch.load(io.BytesIO(packed), weights_only=False)
                    except EOFError:
                        failure = "ended without a result"
                if failure:
                    failures.append(f"rank {rank}: {failure}")
        finally:
            for process in processes:
                if process.is_alive():
                    process.join(2)
                process.kill()
                process.join()
        if failures:
            raise AssertionError("\n".join(failures))
        return given


def on_both(work, ranks=2, arguments=()):
    """What work gives on each rank on gloo, and what it gives on adjoin."""
    given = on_ranks(work, ranks, ("gloo", "adjoin"), arguments)
    return [of_rank[0] for of_rank in given], [of_rank[1] for of_rank in given]


def error_of(call):
    """The text of the exception that call() raises, and its class."""
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no exception"
