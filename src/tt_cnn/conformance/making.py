# SPDX-License-Identifier: Apache-2.0
"""Making what a recorded call was given: memory configs, zero tensors, compute configurations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tt_cnn.conformance.answer import NotThere
from tt_cnn.conformance.planning_card import PlanningCard
from tt_cnn.virtual import ttnn
from tt_cnn.virtual.devices.device import MeshDevice
from tt_cnn.virtual.tensors.storage import CARRIER, HostStorage
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types import (
    DRAM_MEMORY_CONFIG,
    L1_MEMORY_CONFIG,
    CoreGrid,
    DataType,
    Layout,
    MathFidelity,
    MemoryConfig,
    Shape,
    ShardOrientation,
    ShardStrategy,
    Spec,
    TensorMemoryLayout,
    create_sharded_memory_config,
    init_device_compute_kernel_config,
)

INTERLEAVED = {"dram": DRAM_MEMORY_CONFIG, "l1": L1_MEMORY_CONFIG}
_STRATEGIES = {"height": ShardStrategy.HEIGHT, "width": ShardStrategy.WIDTH, "block": ShardStrategy.BLOCK}
SHARD_LAYOUTS = {
    "height": TensorMemoryLayout.HEIGHT_SHARDED,
    "width": TensorMemoryLayout.WIDTH_SHARDED,
    "block": TensorMemoryLayout.BLOCK_SHARDED,
}
"""By the words of recordings."""


def look_up(name: str) -> Any:
    """A name of the virtual TT-NN; what is not there yet is counted apart."""
    found: Any = ttnn
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise NotThere(f"ttnn.{name}") from None
    return found


def dtype(name: str) -> DataType:
    return DataType[name.upper()]


def flipped(layout: Layout) -> Layout:
    return Layout.TILE if layout is Layout.ROW_MAJOR else Layout.ROW_MAJOR


def memory_config(memory: dict[str, Any], shape: Sequence[int], shard_width: int | None = None) -> MemoryConfig:
    """A recorded `memory` for a tensor; `shard_width` replaces the width of a shard that is given."""
    kind = memory["kind"]
    if kind in INTERLEAVED:
        return INTERLEAVED[kind]
    shard = memory.get("shard")
    if shard is not None and shard_width is not None:
        shard = [shard[0], shard_width]
    x, y = memory["grid"]
    return create_sharded_memory_config(
        shape if shard is None else shard,
        CoreGrid(x=x, y=y),
        _STRATEGIES[kind],
        ShardOrientation.ROW_MAJOR,
        use_height_and_width_as_shard_shape=shard is not None,
    )


def zeros(
    card: PlanningCard, shape: Sequence[int], kind: DataType, layout: Layout, config: MemoryConfig = DRAM_MEMORY_CONFIG
) -> Tensor:
    """A device tensor given to a call, without any values being made."""
    spec = Spec(Shape(shape), kind, layout, config)
    return Tensor.on_device(spec, card.give(spec))


def host_zeros(shape: Sequence[int], kind: DataType = DataType.FLOAT32, layout: Layout = Layout.ROW_MAJOR) -> Tensor:
    """A host tensor of one zero seen many times: weights of a plan may be large and are never read."""
    spec = Spec(Shape(shape), kind, layout)
    return Tensor.on_host(spec, HostStorage([torch.zeros((), dtype=CARRIER[kind]).expand(tuple(shape))]))


def compute_config(card: MeshDevice, options: dict[str, Any]) -> Any:
    return init_device_compute_kernel_config(
        card.arch(),
        math_fidelity=MathFidelity[options["math_fidelity"]],
        math_approx_mode=True,
        fp32_dest_acc_en=options.get("fp32_dest_acc_en", False),
        packer_l1_acc=options.get("packer_l1_acc", False),
    )


def pool(name: str, x: Tensor, image: Sequence[int], kernel: int, stride: int, padding: int, **options: Any) -> Tensor:
    """A pool of square windows over an image of n, h, w, c."""
    n, h, w, c = image
    dilation = {"dilation": [1, 1]} if name == "max_pool2d" else {}
    return look_up(name)(
        input_tensor=x,
        batch_size=n,
        input_h=h,
        input_w=w,
        channels=c,
        kernel_size=[kernel, kernel],
        stride=[stride, stride],
        padding=[padding, padding],
        **dilation,
        **options,
    )


def fused(name: str | None) -> Any:
    """A convolution's fused activation by its recorded name."""
    unary = look_up("UnaryWithParam")
    return None if not name else unary(look_up("UnaryOpType")[name.upper()])
