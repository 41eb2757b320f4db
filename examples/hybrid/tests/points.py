"""Which layer gives which value of the exported torch graph, and which layers it is given."""

from tt_cnn.bringup.comparison import Point
from tt_cnn.models.brought_up import TorchShape

POINTS = {
    "stem.0": Point("silu", TorchShape((1, 32, 32, 32)), reads=()),
    "stem.3": Point("silu_1", TorchShape((1, 32, 16, 16)), reads=("stem.0",)),
    "stem.6": Point("batch_norm_2", TorchShape((1, 64, 16, 16)), reads=("stem.3",)),
    "pos": Point("conv2d_3", TorchShape((1, 64, 16, 16)), reads=("stem.6",)),
    "add": Point("add", TorchShape((1, 64, 16, 16)), reads=("stem.6", "pos")),
    "blocks.0.norm1": Point("layer_norm", TorchShape((1, 256, 64)), reads=("add",)),
    "blocks.0.attn.qkv": Point("linear", TorchShape((1, 256, 192)), reads=("blocks.0.norm1",)),
    "blocks.0.attn.proj": Point("linear_1", TorchShape((1, 256, 64)), reads=("blocks.0.attn.qkv",)),
    "blocks.0.add": Point("add_1", TorchShape((1, 256, 64)), reads=("add", "blocks.0.attn.proj")),
    "blocks.0.norm2": Point("layer_norm_1", TorchShape((1, 256, 64)), reads=("blocks.0.add",)),
    "blocks.0.mlp.fc1": Point("gelu", TorchShape((1, 256, 128)), reads=("blocks.0.norm2",)),
    "blocks.0.mlp.fc2": Point("linear_3", TorchShape((1, 256, 64)), reads=("blocks.0.mlp.fc1",)),
    "blocks.0.add_2": Point("add_2", TorchShape((1, 256, 64)), reads=("blocks.0.add", "blocks.0.mlp.fc2")),
    "blocks.1.norm1": Point("layer_norm_2", TorchShape((1, 256, 64)), reads=("blocks.0.add_2",)),
    "blocks.1.attn.qkv": Point("linear_4", TorchShape((1, 256, 192)), reads=("blocks.1.norm1",)),
    "blocks.1.attn.proj": Point("linear_5", TorchShape((1, 256, 64)), reads=("blocks.1.attn.qkv",)),
    "blocks.1.add": Point("add_3", TorchShape((1, 256, 64)), reads=("blocks.0.add_2", "blocks.1.attn.proj")),
    "blocks.1.norm2": Point("layer_norm_3", TorchShape((1, 256, 64)), reads=("blocks.1.add",)),
    "blocks.1.mlp.fc1": Point("gelu_1", TorchShape((1, 256, 128)), reads=("blocks.1.norm2",)),
    "blocks.1.mlp.fc2": Point("linear_7", TorchShape((1, 256, 64)), reads=("blocks.1.mlp.fc1",)),
    "blocks.1.add_2": Point("add_4", TorchShape((1, 256, 64)), reads=("blocks.1.add", "blocks.1.mlp.fc2")),
    "norm": Point("layer_norm_4", TorchShape((1, 256, 64)), reads=("blocks.1.add_2",)),
    "mean": Point("mean", TorchShape((1, 64)), reads=("norm",)),
    "head": Point("linear_8", TorchShape((1, 10)), reads=("mean",)),
}
