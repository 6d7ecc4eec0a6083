"""Which pieces of global tensors a module has."""

import torch

from .. import _adjoin
from .._errors import InvalidArgument


def _tensors_of(module):
    """Each parameter and buffer once, under its first name: name, tensor, whether it is a buffer, its piece if a layer has it."""
    from .layer import Layer

    pieces, known = {}, set()
    for prefix, child in module.named_modules(remove_duplicate=False):
        if isinstance(child, Layer):
            pieces.update({f"{prefix}.{piece.name}".removeprefix("."): piece for piece in child.own_pieces()})
    for items, is_buffer in ((module.named_parameters, False), (module.named_buffers, True)):
        for name, tensor in items(remove_duplicate=False):
            if id(tensor) not in known:
                known.add(id(tensor))
                yield name, tensor, is_buffer, pieces.get(name)


# Layers of PyTorch whose weights are matrices (Piece.matrices).
_WITH_MATRICES = (torch.nn.Linear, torch.nn.modules.conv._ConvNd)


def parameters_of(module, grid=None, replicated=()):
    """All parameters and buffers of a module and its children as pieces of global tensors, each once, under its first name.

    Those of layers of adjoin.nn and those that adjoin.distribute laid out lie as these say; others are copied along every axis of `grid`, but for those that are
    `replicated`. Raises InvalidArgument for another where no grid is given.
    """
    found = []
    weights = {id(child.weight) for child in module.modules() if isinstance(child, _WITH_MATRICES)}
    weights -= {id(child.weight) for child in module.modules() if isinstance(child, torch.nn.Embedding)}
    for name, tensor, is_buffer, piece in _tensors_of(module):
        if piece is not None:
            found.append(piece.named(name, tensor))
        elif _adjoin.is_global(tensor):
            found.append(_adjoin.piece_of(name, tensor, is_buffer))
        elif grid is not None:
            layout = _adjoin.copied_on(grid, list(tensor.shape), list(replicated))
            matrices = [tensor.shape[0]] if id(tensor) in weights else []
            found.append(_adjoin.Piece(name, tensor, layout, grid, is_buffer, matrices))
        else:
            raise InvalidArgument(
                f"parameters_of: '{name}' has no layout, because no layer of adjoin.nn owns it; give the grid on which "
                "such tensors are copied: parameters_of(module, grid)"
            )
    return found


def pieces_of(of):
    """The pieces of a module, or the list of pieces that was given."""
    return parameters_of(of) if isinstance(of, torch.nn.Module) else list(of)


def initialize(of, seed):
    """Fills what the layers of adjoin.nn own; the same seed gives the same global tensors in every layout."""
    if isinstance(of, torch.nn.Module):
        of = [piece.named(name, tensor) for name, tensor, _, piece in _tensors_of(of) if piece is not None]
    _adjoin.initialize(list(of), seed)


def gather_state(of, rank=0):
    """What pieces hold, of a module or a list of them, as global tensors by name on one rank; an empty dict elsewhere."""
    return _adjoin.gather_state(pieces_of(of), rank)


def scatter_state(state, of, rank=0):
    """Fills pieces, on whatever layouts, with what one rank holds as global tensors by name.

    Raises InvalidArgument on all workers where a tensor lacks, is none of the pieces, or has another shape.
    """
    _adjoin.scatter_state(dict(state), pieces_of(of), rank)
