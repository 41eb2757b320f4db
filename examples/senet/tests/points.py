"""Which layer gives which value of the exported torch graph, and which layers it is given."""

from tt_cnn.bringup.comparison import Point
from tt_cnn.models.brought_up import TorchShape

POINTS = {
    "stem.0": Point("relu_", TorchShape((1, 16, 64, 64)), reads=()),
    "blocks.0.conv1": Point("relu", TorchShape((1, 16, 64, 64)), reads=("stem.0",)),
    "blocks.0.conv2": Point("batch_norm_2", TorchShape((1, 16, 64, 64)), reads=("blocks.0.conv1",)),
    "blocks.0.add": Point("relu_2", TorchShape((1, 16, 64, 64)), reads=("blocks.0.conv2", "stem.0")),
    "blocks.1.conv1": Point("relu_3", TorchShape((1, 32, 32, 32)), reads=("blocks.0.add",), loss=0.03),
    "blocks.1.conv2": Point("batch_norm_4", TorchShape((1, 32, 32, 32)), reads=("blocks.1.conv1",), loss=0.02),
    "blocks.1.shortcut.0": Point("batch_norm_5", TorchShape((1, 32, 32, 32)), reads=("blocks.0.add",)),
    "blocks.1.add": Point("relu_5", TorchShape((1, 32, 32, 32)), reads=("blocks.1.conv2", "blocks.1.shortcut.0")),
    "blocks.2.conv1": Point("relu_6", TorchShape((1, 48, 16, 16)), reads=("blocks.1.add",), loss=0.03),
    "blocks.2.conv2": Point("batch_norm_7", TorchShape((1, 48, 16, 16)), reads=("blocks.2.conv1",)),
    "blocks.2.shortcut.0": Point("batch_norm_8", TorchShape((1, 48, 16, 16)), reads=("blocks.1.add",)),
    "blocks.2.add": Point("relu_8", TorchShape((1, 48, 16, 16)), reads=("blocks.2.conv2", "blocks.2.shortcut.0")),
    "adaptive_avg_pool2d": Point("adaptive_avg_pool2d_3", TorchShape((1, 48, 1, 1)), reads=("blocks.2.add",)),
    "head": Point("linear", TorchShape((1, 10)), reads=("adaptive_avg_pool2d",)),
}
