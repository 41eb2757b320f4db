"""Which layer gives which value of the exported torch graph, and which layers it is given."""

from tt_cnn.bringup.comparison import Point
from tt_cnn.models.brought_up import TorchShape

POINTS = {
    "downs.0.0": Point("relu_", TorchShape((1, 8, 64, 64)), reads=()),
    "downs.0.3": Point("relu__1", TorchShape((1, 8, 64, 64)), reads=("downs.0.0",)),
    "pool": Point("max_pool2d", TorchShape((1, 8, 32, 32)), reads=("downs.0.3",)),
    "downs.1.0": Point("relu__2", TorchShape((1, 16, 32, 32)), reads=("pool",)),
    "downs.1.3": Point("relu__3", TorchShape((1, 16, 32, 32)), reads=("downs.1.0",)),
    "pool_2": Point("max_pool2d_1", TorchShape((1, 16, 16, 16)), reads=("downs.1.3",)),
    "bottleneck.0": Point("relu__4", TorchShape((1, 16, 16, 16)), reads=("pool_2",)),
    "bottleneck.3": Point("relu__5", TorchShape((1, 16, 16, 16)), reads=("bottleneck.0",)),
    "ups.0": Point("conv_transpose2d", TorchShape((1, 16, 32, 32)), reads=("bottleneck.3",)),
    "decoders.0.0": Point("relu__6", TorchShape((1, 16, 32, 32)), reads=("downs.1.3", "ups.0")),
    "decoders.0.3": Point("relu__7", TorchShape((1, 16, 32, 32)), reads=("decoders.0.0",)),
    "ups.1": Point("conv_transpose2d_1", TorchShape((1, 8, 64, 64)), reads=("decoders.0.3",)),
    "decoders.1.0": Point("relu__8", TorchShape((1, 8, 64, 64)), reads=("downs.0.3", "ups.1")),
    "decoders.1.3": Point("relu__9", TorchShape((1, 8, 64, 64)), reads=("decoders.1.0",)),
    "final": Point("conv2d_10", TorchShape((1, 2, 64, 64)), reads=("decoders.1.3",)),
}
