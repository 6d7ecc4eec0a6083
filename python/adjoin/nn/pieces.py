"""Which pieces of global tensors a module has."""

import torch

from .. import _adjoin
from .._errors import InvalidArgument


def parameters_of(module, grid=None, replicated=()):
    """All parameters and buffers of a module and its children as pieces of global tensors, each once, under its first name.

    Those of layers of adjoin.nn lie as the layers say; others are copied along every axis of `grid`, but for those that are
    `replicated`. Raises InvalidArgument for another where no grid is given.
    """
    from .layer import Layer

    found, known = [], set()
    layouts = {}  # of the layers' own tensors, by full name
    for prefix, child in module.named_modules(remove_duplicate=False):
        if isinstance(child, Layer):
            start = prefix + "." if prefix else ""
            layouts.update({start + piece.name: piece for piece in child.own_pieces()})
    tensors = [(name, t, False) for name, t in module.named_parameters(remove_duplicate=False)]
    tensors += [(name, t, True) for name, t in module.named_buffers(remove_duplicate=False)]
    for name, tensor, is_buffer in tensors:
        if id(tensor) in known:
            continue
        known.add(id(tensor))
        if name in layouts:
            found.append(layouts[name].named(name, tensor))
        elif grid is not None:
            layout = _adjoin.copied_on(grid, list(tensor.shape), list(replicated))
            found.append(_adjoin.Piece(name, tensor, layout, grid, is_buffer))
        else:
            raise InvalidArgument(
                f"parameters_of: '{name}' has no layout, as no layer of adjoin.nn owns it; name the grid along whose axes "
                "such tensors are copied: parameters_of(module, grid)"
            )
    return found


def pieces_of(of):
    """The pieces of a module, or the list of pieces that was given."""
    return parameters_of(of) if isinstance(of, torch.nn.Module) else list(of)


def initialize(of, seed):
    """Fills what the layers of adjoin.nn own; the same seed gives the same global tensors in every layout."""
    _adjoin.initialize([p for p in _with_layers_only(of)], seed)


def _with_layers_only(of):
    if not isinstance(of, torch.nn.Module):
        return list(of)
    from .layer import Layer

    pieces, known = [], set()
    for prefix, child in of.named_modules():
        if not isinstance(child, Layer):
            continue
        start = prefix + "." if prefix else ""
        for piece in child.own_pieces():
            if id(piece.tensor) not in known:
                known.add(id(piece.tensor))
                pieces.append(piece.named(start + piece.name, piece.tensor))
    return pieces


def gather_state(of, rank=0):
    """What pieces hold, of a module or a list of them, as global tensors by name on one rank; an empty dict elsewhere."""
    return _adjoin.gather_state(pieces_of(of), rank)


def scatter_state(state, of, rank=0):
    """Fills pieces, on whatever layouts, with what one rank holds as global tensors by name.

    Raises InvalidArgument on all workers where a tensor lacks, is none of the pieces, or has another shape.
    """
    _adjoin.scatter_state(dict(state), pieces_of(of), rank)
