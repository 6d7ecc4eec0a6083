from distdl.nn.all_sum_reduce import AllSumReduce
from distdl.nn.batchnorm import DistributedBatchNorm
from distdl.nn.broadcast import Broadcast
from distdl.nn.conv import DistributedConv1d, DistributedConv2d, DistributedConv3d
from distdl.nn.conv_channel import DistributedChannelConv1d, DistributedChannelConv2d, DistributedChannelConv3d
from distdl.nn.conv_feature import DistributedFeatureConv1d, DistributedFeatureConv2d, DistributedFeatureConv3d
from distdl.nn.conv_general import DistributedGeneralConv1d, DistributedGeneralConv2d, DistributedGeneralConv3d
from distdl.nn.halo_exchange import HaloExchange
from distdl.nn.interpolate import Interpolate
from distdl.nn.linear import DistributedLinear
from distdl.nn.loss import (DistributedBCELoss, DistributedBCEWithLogitsLoss, DistributedKLDivLoss, DistributedL1Loss,
                            DistributedMSELoss, DistributedPoissonNLLLoss)
from distdl.nn.module import Module
from distdl.nn.pooling import (DistributedAvgPool1d, DistributedAvgPool2d, DistributedAvgPool3d, DistributedMaxPool1d,
                               DistributedMaxPool2d, DistributedMaxPool3d)
from distdl.nn.repartition import Repartition
from distdl.nn.sum_reduce import SumReduce
from distdl.nn.transpose import DistributedTranspose
from distdl.nn.upsampling import DistributedUpsample

__all__ = [name for name in dir() if name[0].isupper()]
