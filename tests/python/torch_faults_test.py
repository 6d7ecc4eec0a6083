import os
import random
import signal
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import numpy
import torch
import torch.distributed as dist
from adjoin import _c10d
from ranks import SCALE, alone, error_of, on_ranks


def timed_error(call):
    begin = time.monotonic()
    return error_of(call), time.monotonic() - begin


def kill_soon(seconds):
    threading.Timer(seconds, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()


def mismatch(rank):
    dist.barrier()
    x = torch.ones(7)
    given = [error_of(lambda: dist.all_reduce(x) if rank == 0 else dist.all_gather_into_tensor(torch.ones(14), x))]
    return [*given, error_of(lambda: dist.barrier())]


def other_sizes(rank, is_async):
    def call():
        work = dist.all_reduce(torch.ones(4 + rank), async_op=is_async)
        if is_async:
            work.wait()

    return error_of(call)


def other_types(rank):
    return error_of(lambda: dist.broadcast(torch.ones(4, dtype=torch.int16 if rank == 0 else torch.float16), 0))


def other_messages(rank):
    return error_of(lambda: dist.send(torch.ones(3), 1) if rank == 0 else dist.recv(torch.ones(4), 0))


def deadlock(rank, is_async):
    other = dist.new_group([0, 1])

    def call(group):
        work = dist.barrier(group, async_op=is_async)
        if is_async:
            time.sleep(0.2)  # so that the queue's thread carries it out
            work.wait()

    call(other)
    return error_of(lambda: call(other if rank == 0 else None))


def deadlock_of_any(rank):
    """Each waits for a message from any rank; later one does that nobody can send."""
    given = [timed_error(lambda: dist.recv(torch.ones(1)))[0]]
    group = dist.new_group([0, 1, 2])
    if rank == 0:
        time.sleep(1)  # both others wait: this one can act
        for to in (1, 2):
            dist.send(torch.ones(1), to, group=group)
    else:
        dist.recv(torch.ones(1), group=group)
    return given


def goes_on(rank):
    """A group ends, and the others go on."""
    pair = dist.new_group([1, 2])
    given = error_of(lambda: dist.all_reduce(torch.ones(2 + rank), group=pair)) if rank > 0 else ""
    x = torch.ones(1)
    dist.all_reduce(x)
    part = dist.new_group([1, 2])
    if rank > 0:
        part = part.split_group([1, 0], timedelta(seconds=20), None, "part", "a part")
    return given, x.item(), error_of(lambda: part.allreduce([torch.ones(2 + rank)]).wait()) if rank > 0 else given


def killed(rank, elements, seconds):
    x = torch.ones(elements)
    dist.all_reduce(x)
    if rank == 1:
        kill_soon(seconds)

    def calls():
        for _ in range(1_000_000):
            dist.all_reduce(x)

    return error_of(calls)


def killed_in_messages(rank, seed):
    draw = random.Random(seed)
    x = torch.ones(draw.choice((10, 100_000)))
    dist.barrier()
    if rank == 1:
        kill_soon(draw.random() / 10)

    def calls():
        for _ in range(1_000_000):
            works = [dist.isend(x, 1 - rank), dist.irecv(torch.empty_like(x), 1 - rank)]
            for work in works:
                work.wait()

    return error_of(calls)


def killed_while_a_group_is_made(rank):
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return timed_error(lambda: dist.new_group([0, 1]))


def killed_while_the_first_group_is_made(rank):
    """Rank 1 says who it is, as the first step of a meeting, and goes no further."""
    store = dist.PrefixStore("first", dist.distributed_c10d._get_default_store())
    if rank == 1:
        of_other = store.get("adjoin/1/0")
        store.set("adjoin/1/1", os.getpid().to_bytes(8, "little") + of_other[8:])
        os.kill(os.getpid(), signal.SIGKILL)
    return error_of(lambda: _c10d.make_group(store, 0, [0, 1], 2, timedelta(seconds=20)) and None)


def returned(rank):
    if rank == 1:
        return ""
    time.sleep(0.2)
    return error_of(dist.barrier)


def aborted(rank):
    pair = dist.new_group([0, 1])
    if rank == 0:
        time.sleep(0.1)
        pair.abort()
    given = [error_of(lambda: dist.barrier(pair)) for _ in range(2)]
    dist.barrier()
    return given


def timeouts(rank):
    if rank == 1:
        time.sleep(1.5)
        return []
    given = [timed_error(lambda: dist.all_reduce(torch.ones(1), async_op=True).wait(timedelta(seconds=0.2)))]
    pair = dist.group.WORLD
    pair.set_timeout(timedelta(seconds=0.3))
    return [*given, timed_error(lambda: pair.recv([torch.ones(1)], 1, 0).wait())]


def timeouts_of_calls(rank):
    """Each call's own timeout, and each group's."""
    short, soon = timedelta(seconds=0.2), dict(timeout=timedelta(seconds=1))
    groups = [dist.new_group([0, 1], **options) for options in ({}, {}, soon, soon)]
    split = dist.group.WORLD.split_group([0, 1], soon["timeout"], None, "split", "a split group")
    of_whole = dist.group.WORLD._get_backend(torch.device("cpu")).options._timeout
    store = dist.distributed_c10d._get_default_store()
    if rank == 1:
        return store.wait(["over"])
    calls = (lambda: groups[0].monitored_barrier(short), lambda: dist.irecv(torch.ones(1), 1, groups[1]).wait(short),
             lambda: dist.all_reduce(torch.ones(1), group=groups[2]), lambda: dist.recv(torch.ones(1), 1, groups[3]),
             lambda: dist.new_group([0, 1], **soon), lambda: split.recv([torch.ones(1)], 1, 0).wait())
    with ThreadPoolExecutor(len(calls)) as pool:
        given = list(pool.map(error_of, calls))
    store.set("over", "")
    return given, of_whole.total_seconds()


def again(rank, folder):
    dist.destroy_process_group()
    dist.init_process_group("adjoin", init_method=f"file://{folder}/again", rank=1 - rank, world_size=2)
    x = torch.tensor([float(dist.get_rank())])
    dist.broadcast(x, 0)
    begun, pipe = dist.irecv(torch.ones(1), 1 - dist.get_rank()), os.pipe()
    if (child := os.fork()) == 0:
        os.write(pipe[1], (error_of(dist.barrier) + error_of(begun.wait)).encode())
        os._exit(0)
    os.waitpid(child, 0)
    dist.send(x, 1 - dist.get_rank())
    begun.wait()
    dist.barrier()
    group = dist.new_group([0, 1])
    dist.destroy_process_group(group)
    return x.item(), os.read(pipe[0], 1000).decode(), error_of(lambda: group.barrier().wait())


def many_groups(rank):
    def threads():
        return len(os.listdir("/proc/self/task"))

    before = threads()
    x = torch.ones(3)
    for _ in range(20):
        group = dist.new_group([0, 1])
        dist.all_reduce(x, group=group, async_op=True)
        dist.destroy_process_group(group)  # which waits
    dist.barrier()
    return threads() - before, dist.distributed_c10d._get_default_store().num_keys(), x[0].item()


def odd_messages(rank):
    """From and into memory that the peers do not reach, and views."""
    for make in (lambda: torch.from_numpy(numpy.zeros((3000, 2))), lambda: torch.zeros(2, 3000, dtype=torch.float64).t()):
        x, y = make(), make()
        x += torch.arange(6000.0, dtype=torch.float64).view(3000, 2) + rank
        for work in [dist.isend(x, 1 - rank), dist.irecv(y, 1 - rank)]:
            work.wait()
        if not torch.equal(y, x + 1 - 2 * rank):
            return False
    return True


def messages(rank):
    """Messages in any order beside collectives, from any rank, and with equal tags."""
    size = dist.get_world_size()
    x, y, z = torch.zeros(3), torch.zeros(50_000), torch.zeros(2)
    if rank == 0:
        late, early, empty = dist.irecv(x, 1, tag=1), dist.irecv(y, 1, tag=2), dist.irecv(torch.zeros(0), 1, tag=3)
        dist.barrier()
        assert empty.is_completed()
        early.wait()
        late.wait()
        sources = sorted(dist.recv(z) for _ in range(size - 1))
        first, second = torch.zeros(1), torch.zeros(1)
        dist.recv(first, 1, tag=7)
        dist.recv(second, 1, tag=7)
        return x.tolist(), y[-1].item(), sources, first.item(), second.item()
    if rank == 1:
        begun = [dist.isend(torch.full((50_000,), 2.0), 0, tag=2), dist.isend(torch.full((3,), 1.0), 0, tag=1)]
        dist.send(torch.zeros(0), 0, tag=3)  # while its receiver has begun and waits elsewhere
    dist.barrier()
    if rank == 1:
        for work in begun:
            work.wait()
    dist.send(torch.ones(2), 0)
    if rank == 1:
        for work in [dist.isend(torch.tensor([3.0]), 0, tag=7), dist.isend(torch.tensor([4.0]), 0, tag=7)]:
            work.wait()
    return None


def listeners(rank):
    """A thread of each waits while the main thread, which has made a group, computes for longer than a deadlock lasts."""
    group, x = dist.new_group([0, 1]), torch.zeros(1)
    listener = threading.Thread(target=dist.recv, args=(x, 1 - rank), kwargs={"group": group})
    listener.start()
    time.sleep(1.5)
    dist.send(torch.ones(1), 1 - rank, group=group)
    listener.join()
    return x.item()


def asked(rank):
    """A receive that is asked for its end and never waited for, into a view, from any rank."""
    if rank == 1:
        return dist.send(torch.ones(3), 0), dist.send(torch.ones(3), 0, tag=1)
    x = torch.zeros(3, 2)[:, 0]
    work = dist.irecv(x)
    while not work.is_completed():
        time.sleep(0.001)
    later = dist.irecv(torch.zeros(3), 1, tag=1)
    later.wait()
    return x.tolist(), work._source_rank(), later._source_rank()


def futures(rank):
    x, called = torch.ones(3), []
    work = dist.all_reduce(x, async_op=True)
    then = work.get_future().then(lambda future: called.append(future.value()[0].sum().item()))
    then.wait()
    y = torch.ones(1)
    dist.all_reduce(x, async_op=True).get_future().then(lambda future: (dist.all_reduce(y), dist.all_reduce(y))).wait()
    late = dist.all_reduce(torch.ones(1), async_op=True)
    late.wait()
    values = [t.item() for t in late.get_future().wait()]
    failing = [dist.all_reduce(torch.ones(1 + rank), group=group, async_op=True) for group in (dist.new_group([0, 1]), dist.new_group([0, 1]))]
    early = failing[0].get_future()
    errors = [error_of(early.wait), error_of(failing[1].wait), error_of(failing[1].get_future().wait)]
    return called, work.is_completed(), x.tolist(), values, y.item(), errors


def behind(rank):
    """A call that begins while one of another thread goes on, and that nobody waits for by itself."""
    time.sleep(0.2 * rank)
    with ThreadPoolExecutor() as pool:
        pool.submit(dist.all_reduce, torch.ones(1))
        time.sleep(0.1)
        return dist.all_reduce(torch.ones(1), async_op=True).get_future().wait()[0].item()


@alone
class Faults(unittest.TestCase):
    def line(self, function, word):
        """Where in this file a function has a word."""
        lines = Path(__file__).read_text().splitlines()
        begin = lines.index(next(line for line in lines if line.startswith(f"def {function}(")))
        return next(i + 1 for i in range(begin, len(lines)) if word in lines[i])

    def test_calls_that_differ(self):
        line = self.line("mismatch", "dist.all_reduce")
        for ((first, later),) in on_ranks(mismatch):
            self.assertIn("DistBackendError: adjoin: mismatched collectives", first)
            self.assertIn(f"rank 0: all_reduce #2 (sum, float32 x 7) at torch_faults_test.py:{line}", first)
            self.assertIn(f"rank 1: all_gather #2 (float32 x {{7, 7}}) at torch_faults_test.py:{line}", first)
            self.assertEqual(later, first)

    def test_sizes_and_types_that_differ(self):
        line = self.line("other_sizes", "dist.all_reduce")
        for is_async in (False, True):
            for (given,) in on_ranks(other_sizes, arguments=(is_async,)):
                for rank in range(2):
                    self.assertRegex(given, rf"rank {rank}: all_reduce #1 \(sum, float32 x {4 + rank}\) at torch_faults_test.py:{line}\b")
        for (given,) in on_ranks(other_types):
            self.assertIn("rank 0: broadcast #1 (int16, root 0, uint8 x 8)", given)
            self.assertIn("rank 1: broadcast #1 (root 0, float16 x 4)", given)
        for (given,) in on_ranks(other_messages):
            self.assertIn("float32 x 3 by send #1", given)
            self.assertIn("float32 x 4 by recv", given)

    def test_deadlock_over_two_groups(self):
        for is_async in (False, True):
            for (given,) in on_ranks(deadlock, arguments=(is_async,)):
                self.assertIn("deadlock: these calls can never end", given)
                self.assertRegex(given, r"rank 0: barrier #2 at torch_faults_test.py:\d+, waits for rank 1")
                self.assertRegex(given, r"rank 1: barrier #1 at torch_faults_test.py:\d+, waits for rank 0")

    def test_deadlock_of_receives_from_any_rank(self):
        for ((given,),) in on_ranks(deadlock_of_any, 3):
            self.assertIn("deadlock: these calls can never end", given)
            self.assertRegex(given, r"rank 1: recv .* at torch_faults_test.py:\d+, waits for any of ranks 0, 2")

    def test_other_groups_go_on(self):
        for rank, ((error, value, of_part),) in enumerate(on_ranks(goes_on, 3)):
            self.assertEqual(value, 3)
            for text in (error, of_part):
                self.assertEqual("on group {1, 2}" in text and "rank 2: all_reduce #1 (sum, float32 x 4)" in text, rank > 0, text)

    def test_killed_peers_are_named(self):
        draw = random.Random(0)
        for seed in range(4 * SCALE):
            arguments = (draw.choice((10, 1000, 3_000_000)), draw.random() / 5)
            (given,), _ = on_ranks(killed, arguments=arguments, lost=(1,))
            self.assertRegex(given, r"rank 1 \(process \d+\) has died", arguments)
            self.assertIn("torch_faults_test.py", given)
            (given,), _ = on_ranks(killed_in_messages, arguments=(seed,), lost=(1,))
            self.assertRegex(given, r"rank 1 \(process \d+\) has died", seed)
        ((given, seconds),), _ = on_ranks(killed_while_a_group_is_made, lost=(1,))
        self.assertRegex(given, r"rank 1 \(process \d+\) has died")
        self.assertLess(seconds, 5)
        (given,), _ = on_ranks(killed_while_the_first_group_is_made, backends=("gloo",), lost=(1,))
        self.assertRegex(given, r"rank 1 \(process \d+\) has died while a group was made")

    def test_a_peer_that_returned_has_not_died(self):
        (given,), _ = on_ranks(returned)
        self.assertRegex(given, r"rank 1 (\(process \d+\) )?has returned")
        self.assertNotIn("died", given)

    def test_abort_ends_a_group_for_all(self):
        for (given,) in on_ranks(aborted):
            for error in given:
                self.assertIn("DistBackendError: adjoin: this group was aborted by rank 0", error)

    def test_timeouts(self):
        (given,), _ = on_ranks(timeouts)
        for error, seconds in given:
            self.assertIn(" Timed out ", error)
            self.assertLess(seconds, 1.4)
        ((given, of_whole),), _ = on_ranks(timeouts_of_calls, timeout=20)
        self.assertEqual(of_whole, 20)  # also where a part of it has less
        for error, seconds in zip(given, (0.2, 0.2, 1, 1, 1, 1), strict=True):
            self.assertIn(f"Timed out after {seconds} s", error)

    def test_destroyed_and_made_again(self):
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            for ((value, in_child, destroyed),) in on_ranks(again, arguments=(folder,)):
                self.assertEqual(value, 0)
                self.assertEqual(in_child.count("ValueError: adjoin: this group belongs to the process that made this one by fork()"), 2)
                self.assertIn("ValueError: adjoin: this group has been destroyed", destroyed)

    def test_groups_leave_nothing_behind(self):
        given = on_ranks(many_groups)
        self.assertEqual([(threads, x) for ((threads, _, x),) in given], [(0, 2**20)] * 2)
        keys = {keys for ((_, keys, _),) in given}
        self.assertLess(max(keys), 40)  # PyTorch's own

    def test_messages(self):
        for size in (2, 3):
            (given,), *_ = on_ranks(messages, size)
            self.assertEqual(given, ([1.0] * 3, 2.0, list(range(1, size)), 3.0, 4.0))

    def test_listeners(self):
        self.assertEqual(on_ranks(listeners), [[1.0]] * 2)

    def test_messages_of_odd_memory(self):
        self.assertEqual(on_ranks(odd_messages), [[True]] * 2)
        self.assertEqual(on_ranks(asked), [[([1.0] * 3, 1, 1)], [(None, None)]])

    def test_futures(self):
        for ((*given, errors),) in on_ranks(futures):
            self.assertEqual(given, [[6.0], True, [4.0] * 3, [2.0], 4.0])
            for error in errors:
                self.assertIn("mismatched collectives", error)
        self.assertEqual(on_ranks(behind), [[2.0]] * 2)


if __name__ == "__main__":
    unittest.main()
