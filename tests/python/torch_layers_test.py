import tempfile
import unittest

import torch
import torch.distributed as dist
from ranks import alone, on_both
from torch import nn

ROUNDED = dict(rtol=1e-12, atol=1e-12)


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 17), nn.ReLU(), nn.Linear(17, 4)).double()


def batch(rank, step):
    drawn = torch.Generator().manual_seed(100 * step + rank)
    return torch.randn(8, 16, generator=drawn, dtype=torch.float64), torch.randn(8, 4, generator=drawn, dtype=torch.float64)


def losses(model, rank, steps=4, optimizer=None):
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), lr=0.01)
    given = []
    for step in range(steps):
        x, y = batch(rank, step)
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        given.append(loss.detach())
    return given


def mesh():
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh("cpu", (dist.get_world_size(),))


def full(parameters):
    return [p.full_tensor().detach() if hasattr(p, "full_tensor") else p.detach().clone() for p in parameters]


def data_parallel(rank):
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
    from torch.distributed.algorithms.join import Join
    from torch.distributed.optim import ZeroRedundancyOptimizer

    given = []
    for options in ({}, {"find_unused_parameters": True}, {"static_graph": True}, {"bucket_cap_mb": 0.001}):
        given.append(losses(nn.parallel.DistributedDataParallel(network(), **options), rank))
    if dist.get_world_size() == 2:  # gloo rounds a sum of more float16 several times
        hooked = nn.parallel.DistributedDataParallel(network())
        hooked.register_comm_hook(None, default_hooks.fp16_compress_hook)
        given.append(losses(hooked, rank))
    model = nn.parallel.DistributedDataParallel(network())
    given.append(losses(model, rank, optimizer=ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)))
    given.append(full(model.parameters()))
    model = nn.parallel.DistributedDataParallel(network())
    with model.no_sync():
        ((model(batch(rank, 0)[0])) ** 2).mean().backward()
    ((model(batch(rank, 1)[0])) ** 2).mean().backward()
    given.append([p.grad.clone() for p in model.parameters()])
    joined = nn.parallel.DistributedDataParallel(network())
    with Join([joined]):
        losses(joined, rank, steps=2 + rank)
    given.append(full(joined.parameters()))
    return given


def sharded(rank):
    from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard

    model, of = network(), mesh()
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=of)
    fully_shard(model, mesh=of)
    given = [losses(model, rank), full(model.parameters())]
    return [*given, losses(FullyShardedDataParallel(network(), device_id=torch.device("cpu")), rank)]


def distributed_tensors(rank):
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    x = distribute_tensor(torch.arange(21.0, dtype=torch.float64).view(7, 3), mesh(), [Shard(0)])
    moved = x.redistribute(placements=[Shard(1)])
    given = [moved.to_local(), moved.redistribute(placements=[Replicate()]).to_local(), x.full_tensor(), (x.t() @ x).full_tensor(), x.sum().full_tensor()]
    if dist.get_world_size() == 2:
        model = parallelize_module(network(), mesh(), {"0": ColwiseParallel(), "2": RowwiseParallel()})
        given += [losses(model, 0), full(model.parameters())]
    return [t.to_local() if hasattr(t, "to_local") else t for t in given]


def functional(rank):
    import torch.distributed._functional_collectives as collectives

    world, size = dist.group.WORLD, dist.get_world_size()
    x = torch.arange(4.0) * (rank + 1)
    given = [collectives.all_reduce(x, "sum", world), collectives.all_gather_single(x, 0, world), collectives.broadcast(x, 1, world),
             collectives.reduce_scatter_single(torch.arange(4.0 * size) + rank, "sum", 0, world),
             collectives.all_to_all_single(torch.arange(2.0 * size) + rank, None, None, world),
             *collectives.all_reduce_coalesced([x, x + 1], "max", world), *collectives.all_gather_single_coalesced([x, x + 1], world),
             *collectives.reduce_scatter_single_coalesced([torch.arange(2.0 * size) + rank] * 2, "sum", [0, 0], world)]

    @torch.compile(fullgraph=True, backend="aot_eager")
    def compiled(x):
        return collectives.all_reduce(x * 2, "sum", world) + 1

    xs = [torch.ones(3) * rank, torch.ones(2)]
    with dist._coalescing_manager(async_ops=True) as manager:
        for one in xs:
            dist.all_reduce(one)
    manager.wait()
    return [t + 0 for t in given] + [compiled(x) + 0, *xs]


def objects(rank):
    size = dist.get_world_size()
    sent = [{"rank": rank, 3: "text"}] if rank == 0 else [None]
    dist.broadcast_object_list(sent, 0)
    listed = [None] * size
    dist.all_gather_object(listed, "x" * (10 * rank + 1))
    gathered = [None] * size if rank == 1 else None
    dist.gather_object((rank, [rank]), gathered, 1)
    scattered = [None]
    dist.scatter_object_list(scattered, [f"for {r}" for r in range(size)] if rank == 0 else None, 0)
    received = [None]
    if rank == 0:
        dist.send_object_list([{1, 2}], 1)
    elif rank == 1:
        dist.recv_object_list(received, 0)
    return [sent, listed, gathered, scattered, received]


def checkpoint(rank):
    import torch.distributed.checkpoint as saved
    from torch.distributed.fsdp import fully_shard

    folder = [tempfile.mkdtemp()] if rank == 0 else [None]
    dist.broadcast_object_list(folder, 0)
    model = network()
    fully_shard(model, mesh=mesh())
    losses(model, rank, 2)
    saved.save({"model": model.state_dict()}, checkpoint_id=folder[0])
    torch.manual_seed(1)
    other = nn.Sequential(*[nn.Linear(m.in_features, m.out_features) if isinstance(m, nn.Linear) else nn.ReLU() for m in network()]).double()
    fully_shard(other, mesh=mesh())
    state = {"model": other.state_dict()}
    saved.load(state, checkpoint_id=folder[0])
    other.load_state_dict(state["model"])
    return full(other.parameters())


def pipeline(rank):
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    torch.manual_seed(0)
    parts = [nn.Linear(16, 16).double(), nn.Linear(16, 4).double()]
    stage = PipelineStage(parts[rank], rank, 2, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, 4, loss_fn=lambda out, target: ((out - target) ** 2).mean())
    x, y = batch(0, 0)
    of_step = []
    schedule.step(x) if rank == 0 else schedule.step(target=y, losses=of_step)
    return [[loss.detach() for loss in of_step], [p.grad for p in parts[rank].parameters()]]


def transformer(rank):
    """A small BERT, whole on each rank with its gradients summed, and cut into shards."""
    from torch.distributed.fsdp import fully_shard
    from transformers import BertConfig, BertForSequenceClassification

    def made():
        torch.manual_seed(0)
        sizes = dict(vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32)
        return BertForSequenceClassification(BertConfig(**sizes, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)).double()

    shards = made()
    for layer in shards.bert.encoder.layer:
        fully_shard(layer, mesh=mesh())
    fully_shard(shards, mesh=mesh())
    given = []
    for model in (nn.parallel.DistributedDataParallel(made(), find_unused_parameters=True), shards):
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        for step in range(2):
            drawn = torch.Generator().manual_seed(10 * step + rank)
            loss = model(torch.randint(50, (4, 12), generator=drawn), labels=torch.randint(2, (4,), generator=drawn)).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            given.append(loss.detach())
    return given


@alone
class Layers(unittest.TestCase):
    """What PyTorch builds on torch.distributed computes what it computes on gloo."""

    def compare(self, work, sizes=(2,)):
        for size in sizes:
            expected, given = on_both(work, size)
            for rank in range(size):
                torch.testing.assert_close(given[rank], expected[rank], **(dict(rtol=0, atol=0) if size == 2 else ROUNDED))

    def test_data_parallel(self):
        self.compare(data_parallel, (2, 3))

    def test_sharded(self):
        self.compare(sharded, (2, 3))

    def test_distributed_tensors(self):
        self.compare(distributed_tensors, (2, 3))

    def test_functional(self):
        self.compare(functional)

    def test_objects(self):
        expected, given = on_both(objects, 2)
        self.assertEqual(given, expected)

    def test_checkpoint(self):
        self.compare(checkpoint)

    def test_pipeline(self):
        self.compare(pipeline)

    def test_transformer(self):
        self.compare(transformer)


if __name__ == "__main__":
    unittest.main()
