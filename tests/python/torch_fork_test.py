"""Only what is communicated is shared, so forked processes have the rest as they would without the backend."""

import gc
import os
import signal
import unittest

import torch
import torch.distributed as dist
from adjoin import _c10d
from ranks import alone, on_ranks


def of_child(work):
    """What work() gives in a forked process, after `then()` in this one."""
    ends, go = os.pipe(), os.pipe()
    if (child := os.fork()) == 0:
        os.read(go[0], 1)
        try:
            os.write(ends[1], repr(work()).encode())
        finally:
            os._exit(0)
    os.close(ends[1])

    def result():
        os.write(go[1], b"x")
        with os.fdopen(ends[0], "rb") as end:
            given = end.read().decode()
        os.waitpid(child, 0)
        return given

    return result


def forks(rank):
    data = torch.full((1 << 22,), 3.0)  # made before the first group, 16 MiB
    dist.all_reduce(torch.ones(1))
    weights, own, small = torch.full((1 << 20,), 1.0), torch.full((1 << 22,), 3.0), torch.full((10,), 1.0)
    for t in (weights, small):
        dist.all_reduce(t)
    are_shared = [_c10d.is_shared(t) for t in (weights, small, own, data)]

    def seen():
        made = [torch.full((1 << 18,), 6.0) for _ in range(3)]  # in the child's memory
        weights[0] = 7
        return [float(t.sum()) for t in (weights, own, small, data, *made)]

    result = of_child(seen)
    for t in (weights, own, small, data):
        t.fill_(100)
    given = eval(result())
    dist.all_reduce(weights)
    dist.all_reduce(own)
    return are_shared, given, [t.unique().tolist() for t in (weights, own)], _c10d.is_shared(own)


def destroys(rank):
    """A child destroys the groups that it has copies of, and this process goes on with its own."""
    for group in (None, dist.new_group([0, 1])):
        dist.all_reduce(torch.ones(1), group=group, async_op=True).wait()

    def seen():
        signal.alarm(20)
        dist.destroy_process_group()
        return gc.collect() >= 0

    given = of_child(seen)()
    dist.barrier()
    return given


def parts(rank):
    """Parts of a tensor, whose rest another thread may write: right, though not shared in place."""
    x = torch.zeros(1 << 20)
    middle, rest = x[1000:300_000], x[300_000:]
    middle.fill_(rank + 1)
    dist.all_reduce(middle)
    rest.fill_(5)
    first = x[:1000].clone(), x[1000:300_000].clone(), x[300_000:].clone(), _c10d.is_shared(x)
    dist.broadcast(x, 1)
    dist.all_reduce(middle)
    again = x[:1000].clone(), x[1000:300_000].clone(), x[300_000:].clone(), _c10d.is_shared(x)
    from_numpy = torch.from_numpy(torch.ones(1 << 20).numpy()[5000:])
    dist.all_reduce(from_numpy)
    return [[t.unique().tolist() for t in given[:3]] + [given[3]] for given in (first, again)], from_numpy.unique().tolist()


def loader(rank):
    data = torch.arange(1 << 20, dtype=torch.float32).view(-1, 1024)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1024, 512))
    batches = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(data), batch_size=64, num_workers=2, multiprocessing_context="fork")
    total = 0.0
    for (batch,) in batches:
        model(batch / (1 << 20)).mean().backward()
        total += batch.double().sum().item()
    gradient = model.module.weight.grad.clone()
    dist.broadcast(gradient, 0)
    return total, torch.equal(gradient, model.module.weight.grad)


@alone
class Fork(unittest.TestCase):
    def test_a_fork_has_its_own_values(self):
        for are_shared, child, values, own_is_shared in (given for (given,) in on_ranks(forks)):
            self.assertEqual(are_shared, [True, True, False, False])
            self.assertEqual(child, [2.0 * (1 << 20) + 5, 3.0 * (1 << 22), 20.0, 3.0 * (1 << 22), *[6.0 * (1 << 18)] * 3])
            self.assertEqual(values, [[200.0], [200.0]])
            self.assertTrue(own_is_shared)

    def test_a_fork_destroys_its_groups(self):
        self.assertEqual(on_ranks(destroys), [["True"]] * 2)

    def test_parts_of_a_tensor(self):
        for rank, ((both, from_numpy),) in enumerate(on_ranks(parts)):
            self.assertEqual(both[0], [[0.0], [3.0], [5.0], False])
            self.assertEqual(both[1], [[0.0], [6.0], [5.0], True])
            self.assertEqual(from_numpy, [2.0])

    def test_data_loader(self):
        n = 1 << 20
        for ((total, is_equal),) in on_ranks(loader):
            self.assertEqual(total, n * (n - 1) / 2)
            self.assertTrue(is_equal)


if __name__ == "__main__":
    unittest.main()
