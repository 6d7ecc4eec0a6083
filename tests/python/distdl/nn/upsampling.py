import adjoin
from distdl.nn.module import Layer


def of_dims(mode, align_corners, dims):
    """A mode and its corners as torch.nn.Upsample names them for so many dims of space."""
    if mode == "nearest":
        return {"mode": mode}
    return {"mode": {1: "linear", 2: "bilinear", 3: "trilinear"}[dims], "align_corners": align_corners}


class DistributedUpsample(Layer):
    """Upsampling of P_x, "nearest" or "linear", to a size (of all dims, batch and channels too) or by a factor."""

    def __init__(self, P_x, buffer_manager=None, size=None, scale_factor=None, mode="linear", align_corners=False):
        super().__init__(P_x)
        size = None if size is None else [int(n) for n in size[2:]]
        self.hide(adjoin.nn.Upsample(size=size, scale_factor=scale_factor, **of_dims(mode, align_corners, P_x.dim - 2),
                                     **self.where()))
