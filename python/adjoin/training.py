"""What updates parameters: optimizers, sums of gradients, data parallelism, and whole trainings."""

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


class DataParallel:
    """Trains one module with a batch that is split over the ranks of a group: any torch.nn.Module, by any optimizer.

    Gives all ranks the parameters and buffers of rank 0. The tensors of the module stay what they are: write into them.
    `overlap` is "automatic", "on" or "off", `wire` the dtype in which gradients travel.
    """

    def __init__(self, module, group, *, overlap="automatic", wire=None, bucket_bytes=4 << 20):
        tensors = [(name, tensor, False) for name, tensor in module.named_parameters()]
        tensors += [(name, tensor, True) for name, tensor in module.named_buffers()]
        self.module = module
        self._parallel = _adjoin.DataParallel(tensors, group, overlap, wire, bucket_bytes)

    def backward(self, mean_loss, samples, *, last=True, retain_graph=False):
        """Adds to each .grad the gradient of the mean loss over all samples of all ranks, and returns that mean.

        A rank without samples gives None. `last`: an update follows; else gradients only add up here.
        """
        return self._parallel.backward(mean_loss, samples, last, retain_graph)

    def any(self, here):
        """Whether it is so on any rank."""
        return self._parallel.any(here)


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
