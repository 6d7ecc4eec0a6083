import torch


def zero_volume_tensor(b=None, dtype=None, requires_grad=False, device=None):
    """A tensor of no elements: [0], or with a batch size [b, 0]."""
    shape = (0,) if b is None else (int(b), 0)
    return torch.empty(shape, dtype=dtype, requires_grad=requires_grad, device=device)


def distdl_padding_to_torch_padding(pad):
    """[[left, right] of each dim] as torch.nn.functional.pad wants it: the last dim first, in one row."""
    return tuple(int(size) for sides in reversed(list(pad)) for size in sides)
