from distdl.nn.mixins.conv_mixin import ConvMixin


class PoolingMixin(ConvMixin):
    """The windows of a pooling, which lie as a convolution's do."""
