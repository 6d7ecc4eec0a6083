import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
import traceback
import unittest

import torch
from torch.utils.checkpoint import checkpoint

import adjoin
from adjoin import nn
from worlds import on_each_world, on_threads


@on_threads
class Launch(unittest.TestCase):
    def test_gives_what_each_rank_returned(self):
        self.assertEqual(adjoin.launch(lambda world: (world.rank, world.size), ranks=3), [(0, 3), (1, 3), (2, 3)])

    def test_raises_what_a_rank_raised(self):
        class Mine(Exception):
            pass

        def fails(world):
            if world.rank == 1:
                raise Mine("of my own")
            world.barrier()

        try:
            adjoin.launch(fails, ranks=3)
            self.fail("nothing was raised")
        except Mine as error:
            text = "".join(traceback.format_exception(error))
        self.assertIn('raise Mine("of my own")', text)
        self.assertIn("in fails", text)
        self.assertIn("on rank 1 of adjoin.launch", text)

    def test_refuses_a_launch_within_a_launch(self):
        with self.assertRaisesRegex(adjoin.InvalidArgument, "a rank cannot launch ranks"):
            adjoin.launch(lambda world: adjoin.launch(lambda inner: None, ranks=2), ranks=2)
        with self.assertRaisesRegex(ValueError, "expected at least 1 rank, got 0"):
            adjoin.launch(lambda world: None, ranks=0)

    def test_names_the_lines_of_calls_that_do_not_match(self):
        def differ(world):
            if world.rank == 0:
                world.barrier()
            else:
                world.all_reduce(torch.ones(2))

        with self.assertRaises(adjoin.CommunicationError) as caught:
            adjoin.launch(differ, ranks=2)
        first = differ.__code__.co_firstlineno
        self.assertIn(f"barrier #1 at launch_test.py:{first + 2}", str(caught.exception))
        self.assertIn(f"at launch_test.py:{first + 4}", str(caught.exception))

    def test_names_the_line_of_a_movement_whose_backward_waits_for_ever(self):
        def hangs(world):
            x = torch.ones(2, requires_grad=True)
            y = adjoin.copy_to(x, world)
            if world.rank == 0:
                y.sum().backward()

        with self.assertRaises(adjoin.CommunicationError) as caught:
            adjoin.launch(hangs, ranks=2)
        self.assertIn(f"launch_test.py:{hangs.__code__.co_firstlineno + 2}", str(caught.exception))

    def test_lets_other_threads_have_the_interpreter(self):
        def work(world):
            if world.rank == 0:  # whose receive would keep the lock from the rank that sends
                return world.recv(torch.empty(1), 1).item()
            done = threading.Event()
            threading.Thread(target=done.set).start()
            self.assertTrue(done.wait(20))
            world.send(torch.tensor([7.0]), 0)

        self.assertEqual(adjoin.launch(work, ranks=2)[0], 7)


class Modes(unittest.TestCase):
    def test_of_torch_hold_in_the_ranks(self):
        def seen(world):
            product = torch.nn.Linear(2, 2)(torch.ones(2, 2)).dtype
            return torch.is_grad_enabled(), torch.is_inference_mode_enabled(), product

        ranks = None if adjoin.started_by_mpi() else 2
        for mode, expected in (
            (torch.no_grad(), (False, False, torch.float32)),
            (torch.inference_mode(), (False, True, torch.float32)),
            (torch.autocast("cpu", torch.bfloat16), (True, False, torch.bfloat16)),
            (torch.autocast("cpu", torch.float16), (True, False, torch.float16)),
        ):
            with mode:
                self.assertEqual(set(adjoin.launch(seen, ranks=ranks)), {expected})
        self.assertEqual(set(adjoin.launch(seen, ranks=ranks)), {(True, False, torch.float32)})


class Exit(unittest.TestCase):
    def test_of_a_rank_is_that_of_the_launch(self):
        def leave(world):
            world.barrier()
            if world.rank == world.size - 1:
                sys.exit(code)

        for code, exits_with in ((7, 7), (0, 0), (None, 0)):
            with self.assertRaises(SystemExit) as caught:
                adjoin.launch(leave, ranks=None if adjoin.started_by_mpi() else 2)
            self.assertEqual(caught.exception.code or 0, exits_with)


def end_of(child):
    """The exit code of a child, or the negative number of the signal that ended it."""
    for _ in range(2400):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "hangs"


class Child(unittest.TestCase):
    """Children that ranks make by os.fork()."""

    def end_in(self, in_child):
        def work(world):
            x = torch.ones(1000)
            handle = world.stream().all_reduce(torch.ones(1000))
            child = os.fork()
            if child == 0:
                return in_child(world, x)
            end = end_of(child)
            handle.wait()
            world.all_reduce(x)
            return end, x[0].item() == world.size

        return adjoin.launch(work, ranks=None if adjoin.started_by_mpi() else 2)

    def check(self, in_child, end):
        self.assertEqual(set(self.end_in(in_child)), {(end, True)})

    def test_may_end_by_sys_exit(self):
        self.check(lambda world, x: sys.exit(7), 7)

    def test_may_return(self):
        self.check(lambda world, x: None, 0)

    def test_is_told_that_it_cannot_communicate(self):
        def communicate(world, x):
            try:
                world.all_reduce(x)
            except adjoin.InvalidArgument as error:
                sys.exit(5 if "a child that it made by fork()" in str(error) else 6)

        self.check(communicate, 5)


class Backward(unittest.TestCase):
    def test_calls_functions_and_hooks_of_python(self):
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return 2 * x

            @staticmethod
            def backward(ctx, gradient):
                return 2 * gradient

        def work(world):
            seen = []
            x = torch.ones(3, requires_grad=True)
            x.register_hook(lambda gradient: seen.append(gradient.clone()))
            y = adjoin.reduce_from(Double.apply(adjoin.copy_to(x, world)), world)
            y.sum().backward()
            self.assertEqual(x.grad.tolist(), [2.0 * world.size] * 3)
            self.assertEqual(len(seen), 1)

        on_each_world(work)

    def test_goes_deeper_than_one_thread(self):
        def work(world):
            def deep(x, levels):
                if levels == 0:
                    return adjoin.all_sum_reduce(x, world)
                return checkpoint(deep, x, levels - 1, use_reentrant=True)

            x = torch.ones(3, requires_grad=True)
            deep(x, 70).sum().backward()
            self.assertEqual(x.grad.tolist(), [float(world.size)] * 3)

        on_each_world(work, sizes=(2,))

    def test_hands_on_the_error_of_a_hook(self):
        if adjoin.started_by_mpi():
            self.skipTest("an error ends the job")

        def work(world):
            x = torch.ones(1, requires_grad=True)

            def fails(gradient):
                raise LookupError("in the hook")

            if world.rank == 1:
                x.register_hook(fails)
            adjoin.copy_to(adjoin.copy_to(x, world) * 1, world).sum().backward()

        with self.assertRaisesRegex(LookupError, "in the hook"):
            adjoin.launch(work, ranks=2)


class Programs(unittest.TestCase):
    """Random programs, the same on all ranks, of calls, backward with hooks of Python, and calls beside."""

    def run_program(self, world, seed):
        choose = random.Random(seed)
        grid = adjoin.Grid(world, {"a": world.size})
        pending, total = [], 0.0
        for _ in range(30):
            what = choose.randrange(6)
            if what == 0:
                total += world.all_reduce(torch.ones(choose.randrange(1, 3000))).sum().item()
            elif what == 1:
                pending.append(world.stream().all_gather(torch.ones(choose.randrange(1, 100))))
            elif what == 2 and pending:
                total += pending.pop(choose.randrange(len(pending))).wait().sum().item()
            elif what == 3:
                x = torch.ones(choose.randrange(1, 50), requires_grad=True)
                x.register_hook(lambda gradient: gradient * 2)
                adjoin.reduce_from(adjoin.copy_to(x, world) ** 2, world).sum().backward()
                total += x.grad.sum().item()
            elif what == 4:
                rows, to = choose.randrange(1, 20), choose.randrange(world.size)
                source, target = adjoin.Layout(grid, [rows, 3], {0: "a"}), nn.on_one_worker(to)([rows, 3])
                x = adjoin.place(torch.ones(rows, 3, requires_grad=True), source, grid)
                total += x.move(target).local.sum().item()
            else:
                del pending[:]  # which waits for them
        return total

    def test_never_hang(self):
        def work(world):
            return [self.run_program(world, seed) for seed in range(8)]

        if adjoin.started_by_mpi():
            adjoin.launch(work)
            return
        for ranks in (2, 4):
            results = adjoin.launch(work, ranks=ranks)
            self.assertEqual(results, adjoin.launch(work, ranks=ranks))


INTERRUPTED = """
import os, signal, sys, threading, time
import torch
from torch.utils.checkpoint import checkpoint
import adjoin

def work(world):
    try:
        if world.rank == 0:
            threading.Timer(0.5, os.kill, [os.getpid(), signal.SIGINT]).start()
        if world.rank == 1:
            while True:
                pass  # computes
        world.barrier()  # waits
    except KeyboardInterrupt:
        print(f"rank {world.rank}\\n", end="", flush=True)
        raise

try:
    adjoin.launch(work, ranks=3)
except KeyboardInterrupt:
    print("launch\\n", end="", flush=True)
"""

INTERRUPTED_JOB = """
import adjoin

def work(world):
    print("begins\\n", end="", flush=True)
    try:
        while True:
            world.barrier()
    except KeyboardInterrupt:
        print("is interrupted\\n", end="", flush=True)
        raise

adjoin.launch(work)
"""


@on_threads
class Interrupt(unittest.TestCase):
    def test_ends_ranks_that_wait_and_ranks_that_compute(self):
        result = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=300)
        self.assertEqual(sorted(result.stdout.split("\n")), ["", "launch", "rank 0", "rank 1", "rank 2"], result.stderr)

    def test_of_mpirun_reaches_its_ranks(self):
        command = ["mpirun", "-n", "2", sys.executable, "-c", INTERRUPTED_JOB]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as job:
            self.assertEqual([job.stdout.readline() for _ in range(2)], ["begins\n"] * 2)
            job.send_signal(signal.SIGINT)
            out, err = job.communicate(timeout=300)
        self.assertIn("is interrupted\n", out, err)
        self.assertNotEqual(job.returncode, 0)

    def test_a_second_time_ends_a_rank_that_sleeps(self):
        def insist():
            while True:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.1)

        def work(world):
            while world.rank == 1:
                try:
                    time.sleep(60)
                except KeyboardInterrupt:  # the first one's, if it came before the rank slept
                    pass
            threading.Thread(target=insist, daemon=True).start()
            world.barrier()

        child = os.fork()  # an interpreter that has imported torch
        if child == 0:
            try:
                adjoin.launch(work, ranks=2)
            finally:
                os._exit(1)
        self.assertEqual(end_of(child), -signal.SIGINT)


FAILING_JOB = """
import adjoin

def inner(x):
    return 1 / x

def work(world):
    print("not flushed", end="")
    inner(0)

adjoin.launch(work)
"""


@on_threads
class Job(unittest.TestCase):
    def test_prints_the_traceback_of_a_rank_that_raises(self):
        command = ["mpirun", "-n", "1", sys.executable, "-c", FAILING_JOB]
        result = subprocess.run(command, capture_output=True, text=True, timeout=300)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, "Traceback(.|\n)*in work(.|\n)*in inner\n(.|\n)*ZeroDivisionError: division by zero\nadjoin: rank 0: ZeroDivisionError: division by zero\n")
        self.assertIn("not flushed", result.stdout)


@on_threads
class Program(unittest.TestCase):
    def run_python(self, text):
        return subprocess.run([sys.executable, "-c", textwrap.dedent(text)], capture_output=True, text=True)

    def test_is_that_of_the_library(self):
        result = subprocess.run([sys.executable, "-m", "adjoin", "--version"], capture_output=True, text=True)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn(f"adjoin {adjoin.__version__}", result.stdout)
        result = subprocess.run([sys.executable, "-m", "adjoin", "nothing"], capture_output=True, text=True)
        self.assertEqual(result.returncode, 2)

    def test_importing_says_in_one_line_what_lacks(self):
        another = """
            import sys, types
            torch = types.ModuleType("torch"); torch.__version__ = "{version}"
            sys.modules["torch"] = torch if "{version}" else None
            import adjoin
        """
        self.assertIn("ImportError: adjoin: was built for torch 2.13, but torch 2.9.1 is installed", self.run_python(another.format(version="2.9.1")).stderr)
        self.assertIn("ImportError: adjoin: torch is not installed", self.run_python(another.format(version="")).stderr)


if __name__ == "__main__":
    unittest.main()
