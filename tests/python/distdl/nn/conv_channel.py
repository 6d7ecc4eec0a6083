from distdl.nn.conv_base import Conv


class ChannelConv(Conv):
    """Cut over channels alone: each worker of P_w has its part of the weight, in adjoin's layer `conv_layer`."""

    def keep(self, layer):
        self.conv_layer = layer
        self.stores_bias = "bias" in layer.pieces and layer.bias.numel() > 0

    def forward(self, x):
        return self.given(self.conv_layer(self.place(x)).local)


class DistributedChannelConv1d(ChannelConv):
    space = 1


class DistributedChannelConv2d(ChannelConv):
    space = 2


class DistributedChannelConv3d(ChannelConv):
    space = 3
