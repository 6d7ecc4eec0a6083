"""What updates parameters: optimizers, sums of gradients, data parallelism, and whole trainings."""

import torch as _torch

from . import _adjoin
from ._errors import InvalidArgument
from .nn.pieces import pieces_of


class Optimizer(_adjoin.Optimizer):
    """Updates parameters that lie on any layouts: sums gradients over copies, each worker updates its shard (ZeRO stage 1).

    Made by all workers. `of` is a module or a list of pieces; `rule` is adjoin.adamw(...), adjoin.sgd(...),
    adjoin.muon(...) or their names.
    Raises InvalidArgument for parameters of several types or on several sets of ranks.
    """

    def __init__(self, of, rule="adamw", *, weight_decay=0.0, clip=0.0):
        rules = {"adamw": _adjoin.adamw, "sgd": _adjoin.sgd, "muon": _adjoin.muon}
        if isinstance(rule, str):
            if rule not in rules:
                raise InvalidArgument(f"Optimizer: expected the rule adamw, sgd or muon, got '{rule}'")
            rule = rules[rule]()
        super().__init__(pieces_of(of), rule, weight_decay=weight_decay, clip=clip)


def sum_gradients(of):
    """Sums each parameter's gradient over the workers that hold copies of it; called by all after backward.

    `of` is a module or a list of pieces. A gradient that is missing counts as zeros. The first call compares the copies and
    raises InvalidArgument where they differ.
    """
    _adjoin.sum_gradients(pieces_of(of))


class Weights:
    """The weights of any torch.nn.Module that is trained with a batch that is split over the ranks of a group.

    Gives all ranks the parameters and buffers of rank 0. `zero`: what each rank keeps of its shard only: 0 nothing, 1 an
    optimizer's moments, 2 also gradients, 3 also the weights, which are whole while an operation reads them. `overlap` is
    "automatic", "on" or "off", `wire` the dtype in which gradients travel.

        weights = adjoin.Weights(module, world, zero=3)
        optimizer = torch.optim.AdamW(weights.parts())
        loss = weights.backward(loss_of(module(x), y), len(x))
        weights.step(optimizer, clip=1)
    """

    def __init__(self, module, group, *, zero=1, overlap="automatic", wire=None, bucket_bytes=4 << 20, unit_bytes=1 << 20):
        tensors = [(name, tensor, False) for name, tensor in module.named_parameters()]
        tensors += [(name, tensor, True) for name, tensor in module.named_buffers()]
        self.module = module
        self._known = {name: tensor for name, tensor, _ in tensors}
        self._weights = _adjoin.Weights(tensors, group, zero, overlap, wire, bucket_bytes, unit_bytes)

    def backward(self, mean_loss, samples, *, last=True, retain_graph=False):
        """Adds to the .grad of parts() the gradient of the mean loss over all samples of all ranks, and returns that mean.

        A rank without samples gives None. `last`: an update follows; else gradients only add up here.
        """
        now, who = {**dict(self.module.named_parameters()), **dict(self.module.named_buffers())}, type(self).__name__
        if now.keys() != self._known.keys():
            raise InvalidArgument(f"{who}: the module has other parameters or buffers than when {who} was made: make a new one")
        for name, tensor in now.items():
            if tensor is not self._known[name]:
                raise InvalidArgument(f"{who}: '{name}' is another tensor than when {who} was made: change it in place, or make a new {who}")
        return self._weights.backward(mean_loss, samples, last, retain_graph)

    def step(self, optimizer, clip=0.0):
        """Clips the gradients of the optimizer's parts by their norm over all ranks, and lets it update them.

        Gives all ranks what has changed, and makes the gradients None. Where the norm is not finite, no rank updates anything.
        The optimizer must work element by element, as those of torch.optim do except LBFGS.
        """
        if isinstance(optimizer, _torch.optim.LBFGS):
            raise InvalidArgument("step: expected an optimizer that works element by element, got LBFGS")
        parts = [part for group in optimizer.param_groups for part in group["params"]]
        return self._weights.step(parts, lambda: optimizer.step() and None, clip)

    def any(self, here):
        """Whether it is so on any rank."""
        return self._weights.any(here)

    def parts(self):
        """What an optimizer of this rank updates: a tensor for each trained parameter, with zero=0 the parameter itself."""
        return self._weights.parts()

    def trained(self):
        """The parts as pieces of global tensors."""
        return self._weights.trained()

    def parameters(self):
        """All parameters and buffers as pieces of global tensors, for a checkpoint that any number of ranks reads."""
        return self._weights.parameters()

    def use(self, weight):
        """Returns a weight after it was made whole until the next backward, step or any: for code that reads its memory itself."""
        return self._weights.use(weight)

    def while_whole(self, work):
        """Runs work() while the module has all of its weights, which it may change alike on all ranks; called by all."""
        self._weights.while_whole(work)


class DataParallel(Weights):
    """The weights of a module of which each rank keeps all: an optimizer of module.parameters() updates them by its own step."""

    def __init__(self, module, group, *, overlap="automatic", wire=None, bucket_bytes=4 << 20):
        super().__init__(module, group, zero=0, overlap=overlap, wire=wire, bucket_bytes=bucket_bytes)


def train(config):
    """Trains as `adjoin train` does, on threads or, under mpirun, as this process's rank.

    `config` has the options of the program by their names, with _ or -: {"data": "sample", "preset": "tiny", "out": "runs/a"}.
    Raises InvalidArgument for options that do not fit, before anything is written.
    """
    arguments = ["train"]
    for name, value in config.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            arguments.append(option)
        elif value is not False and value is not None:
            arguments += [option, str(value)]
    _adjoin.train(arguments)
