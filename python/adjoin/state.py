"""What a training keeps: the state of an optimizer of torch.optim, and files of state."""

import os

import torch

from . import _adjoin
from ._errors import InvalidArgument
from .nn.pieces import parameters_of, pieces_of

# The moments of each optimizer of torch.optim, by the name of its class; some it keeps only with an option.
_MOMENTS = {
    "SGD": {"momentum_buffer": "momentum"},
    "Adam": {"exp_avg": None, "exp_avg_sq": None, "max_exp_avg_sq": "amsgrad"},
    "AdamW": {"exp_avg": None, "exp_avg_sq": None, "max_exp_avg_sq": "amsgrad"},
    "Adagrad": {"sum": None},
    "RMSprop": {"square_avg": None, "momentum_buffer": "momentum", "grad_avg": "centered"},
}


def state_of(optimizer, of):
    """The state of an optimizer of torch.optim, as pieces with the layouts of its parameters: exp_avg.NAME, step.NAME, …

    `of` is the module whose parameters it updates, or their pieces. Moments of a parameter that was not updated yet are made,
    as zeros. The optimizer continues with values written into the pieces, as nn.scatter_state and load_state do. Called by all
    ranks. Raises InvalidArgument for other optimizers than SGD, Adam, AdamW, Adagrad and RMSprop, and for SGD with dampening.
    """
    kind = type(optimizer).__name__
    if kind not in _MOMENTS or type(optimizer) is not getattr(torch.optim, kind):
        raise InvalidArgument(f"state_of: expected SGD, Adam, AdamW, Adagrad or RMSprop of torch.optim, got {kind}")
    groups = {id(parameter): group for group in optimizer.param_groups for parameter in group["params"]}
    known = dict(of.named_parameters()) if isinstance(of, torch.nn.Module) else {}
    pieces = []
    for piece in pieces_of(of):
        parameter = known.get(piece.name, piece.tensor)
        group = groups.get(id(parameter))
        if group is not None:
            pieces += _state_of_one(kind, optimizer.state[parameter], group, piece, parameter)
    steps = [piece.tensor for piece in pieces if piece.name.startswith("step.")]
    if steps:  # by the rank that has taken most: one without elements of a parameter takes none
        taken = pieces[0].grid.world.all_reduce(torch.stack(steps), "max")
        for step, most in zip(steps, taken, strict=True):
            step.copy_(most)
    return pieces


def _state_of_one(kind, state, group, piece, parameter):
    if kind == "SGD" and group["momentum"] and group["dampening"]:
        # Its first step uses the gradient without dampening, which it would not do with a moment of zeros.
        raise InvalidArgument("state_of: expected SGD without dampening, as a moment of zeros does not show whether a step was taken")
    found = []
    for name, option in _MOMENTS[kind].items():
        if option is not None and not group[option]:
            continue
        if state.get(name) is None:
            state[name] = torch.zeros_like(parameter, requires_grad=False)
        if _adjoin.is_global(state[name]):
            found.append(_adjoin.piece_of(f"{name}.{piece.name}", state[name]))
        else:
            found.append(_adjoin.Piece(f"{name}.{piece.name}", state[name], piece.layout, piece.grid))
    if kind != "SGD":
        state.setdefault("step", torch.zeros((), dtype=torch.float32))
        found.append(_adjoin.held_by_all(f"step.{piece.name}", state["step"], piece.grid))
    return found


def save_state(path, of, grid, metadata=None):
    """Writes parameters and buffers, or an optimizer's state, as global tensors into one safetensors file; called by all ranks.

    `of` is a module, whose tensors without a layout are copied on `grid`, or a list of pieces. `metadata`: texts by their names.
    Raises IoError on the rank that cannot write.
    """
    pieces = parameters_of(of, grid) if isinstance(of, torch.nn.Module) else list(of)
    _adjoin.save_state(os.fspath(path), pieces, grid, dict(metadata or {}))


def load_state(path, of, grid=None):
    """Fills a module, or pieces, on any layouts from a file of global tensors; called by all ranks, each reads its own pieces.

    Raises InvalidArgument on all ranks where a tensor is missing, is none of the pieces, or has another shape.
    """
    _adjoin.load_state(os.fspath(path), parameters_of(of, grid) if isinstance(of, torch.nn.Module) else list(of))
