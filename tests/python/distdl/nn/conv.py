from distdl.nn import conv_channel, conv_feature, conv_general


class ConvSelector:
    """The convolution that suits the partitions: over space where P_x is the only one, over channels where nothing cuts
    space, else the general one."""

    space = None

    def __new__(cls, P_x, P_y=None, P_w=None, **kwargs):
        """Raises: ValueError where only one of P_y and P_w is given"""
        if (P_y is None) != (P_w is None):
            raise ValueError("expected both P_y and P_w, or neither")
        if P_y is None:
            return getattr(conv_feature, f"DistributedFeatureConv{cls.space}d")(P_x, **kwargs)
        cuts_space = any(size > 1 for P in (P_x, P_y) for size in P.shape[2:])
        kind, module = ("General", conv_general) if cuts_space else ("Channel", conv_channel)
        return getattr(module, f"Distributed{kind}Conv{cls.space}d")(P_x, P_y, P_w, **kwargs)


class DistributedConv1d(ConvSelector):
    space = 1


class DistributedConv2d(ConvSelector):
    space = 2


class DistributedConv3d(ConvSelector):
    space = 3
