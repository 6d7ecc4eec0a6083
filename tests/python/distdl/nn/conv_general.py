from distdl.nn.conv_base import Conv


class DistributedGeneralConv1d(Conv):
    """Cut over channels and space: of the workers that share a part of the weight the first has it."""

    space = 1


class DistributedGeneralConv2d(Conv):
    space = 2


class DistributedGeneralConv3d(Conv):
    space = 3
