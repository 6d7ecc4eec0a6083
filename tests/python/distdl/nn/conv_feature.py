from distdl.nn.conv_base import Conv


class FeatureConv(Conv):
    """Cut over space alone: the first worker of P_x has the weight."""

    cuts = {}

    def __init__(self, P_x, *args, **kwargs):
        super().__init__(P_x, P_x, P_x, *args, **kwargs)


class DistributedFeatureConv1d(FeatureConv):
    space = 1


class DistributedFeatureConv2d(FeatureConv):
    space = 2


class DistributedFeatureConv3d(FeatureConv):
    space = 3
