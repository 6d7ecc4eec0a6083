import adjoin


class ConvMixin:
    """The windows of a convolution."""

    def _window(self, kernel_size, stride, padding, dilation):
        return adjoin.Window(kernel=kernel_size, stride=stride, dilation=dilation, before=padding, after=padding)
