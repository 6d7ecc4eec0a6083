from distdl.nn.repartition import Repartition

DistributedTranspose = Repartition
