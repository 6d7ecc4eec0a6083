import adjoin
from distdl.nn.conv_base import per_dim
from distdl.nn.module import Layer


class Pool(Layer):
    """A pooling of P_x, of whatever its twin of torch.nn takes."""

    twin = None

    def __init__(self, P_x, kernel_size, stride=None, padding=0, buffer_manager=None, **options):
        super().__init__(P_x)
        sizes = {"kernel_size": kernel_size, "stride": kernel_size if stride is None else stride, "padding": padding}
        sizes = {name: per_dim(size, int(self.twin[-2])) for name, size in (sizes | options).items()}
        self.hide(getattr(adjoin.nn, self.twin)(**sizes, **self.where()))


class DistributedAvgPool1d(Pool):
    twin = "AvgPool1d"


class DistributedAvgPool2d(Pool):
    twin = "AvgPool2d"


class DistributedAvgPool3d(Pool):
    twin = "AvgPool3d"


class DistributedMaxPool1d(Pool):
    twin = "MaxPool1d"


class DistributedMaxPool2d(Pool):
    twin = "MaxPool2d"


class DistributedMaxPool3d(Pool):
    twin = "MaxPool3d"
