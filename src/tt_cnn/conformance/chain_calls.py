# SPDX-License-Identifier: Apache-2.0
"""Short networks step by step: each takes outputs of earlier ones, and frees what is named after it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from tt_cnn.conformance.answer import Answer, answer
from tt_cnn.conformance.convolution_calls import conv2d_call
from tt_cnn.conformance.making import flipped, host_zeros, look_up, pool, zeros
from tt_cnn.conformance.planning_card import PlanningCard
from tt_cnn.virtual.devices.device import MeshDevice
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types import (
    DRAM_MEMORY_CONFIG,
    L1_MEMORY_CONFIG,
    BufferType,
    DataType,
    Layout,
    MemoryConfig,
    ShardSpec,
)

Image = tuple[int, int, int, int]
Step = dict[str, Any]
Parameters = Callable[[Step, int], tuple[Tensor, Tensor]]
"""Weight and bias of a convolution step, given its input channels."""


class Tensors:
    """The tensors of a chain by their ids, with the image (n, h, w, c) that each holds."""

    def __init__(self, first: Tensor, image: Image) -> None:
        self.tensors: dict[int, Tensor] = {0: first}
        self.images: dict[int, Image] = {0: image}

    def finish(self, step: Step, output: Tensor) -> None:
        self.tensors[step["out"]] = output
        self.images[step["out"]] = image_after(step, [self.images[i] for i in step["in"]])
        for unused in step["free"]:
            look_up("deallocate")(self.tensors.pop(unused), force=True)


def image_after(step: Step, images: list[Image]) -> Image:
    n, h, w, c = images[0]
    options = step["args"]
    if step["op"] == "conv2d":
        padding, kernel, stride = options["kernel"] // 2, options["kernel"], options["stride"]
        c = options["out_channels"]
    elif step["op"] == "max_pool2d":
        kernel, stride, padding = pool_window(options)
    elif step["op"] == "concat":
        return n, h, w, sum(image[3] for image in images)
    else:
        return images[0]
    return n, (h + 2 * padding - kernel) // stride + 1, (w + 2 * padding - kernel) // stride + 1, c


def pool_window(options: dict[str, Any]) -> tuple[int, int, int]:
    """Kernel, stride, padding; the pools of networks are 2x2 with stride 2 and say nothing."""
    return options.get("kernel", 2), options.get("stride", 2), options.get("padding", 0)


def run_step(card: MeshDevice, step: Step, inputs: list[Tensor], images: list[Image], parameters: Parameters) -> Tensor:
    """One step of a chain or network on tensors."""
    name, options, x = step["op"], step["args"], inputs[0]
    if name == "conv2d":
        look_up("conv2d")
        weight, bias = parameters(step, images[0][3])
        return conv2d_call(card, x, weight, bias, images[0], options)
    if name == "max_pool2d":
        return pool(name, x, images[0], *pool_window(options))
    if name == "concat":
        return _concat(inputs, images)
    if name == "to_dram":
        return look_up("to_memory_config")(x, DRAM_MEMORY_CONFIG)
    if name == "to_layout":
        return look_up("to_layout")(x, flipped(x.layout))
    return look_up(name)(*inputs)


def _concat(inputs: list[Tensor], images: list[Image]) -> Tensor:
    """A sharded first tensor decides: the second is moved beside it, on the same cores."""
    concat = look_up("concat")
    first, second = inputs
    config = first.memory_config()
    shard = config.shard_spec
    if shard is None:
        return concat([first, second], 3, memory_config=L1_MEMORY_CONFIG)

    def sharded(width: int) -> MemoryConfig:
        spec = ShardSpec(shard.grid, [shard.shape[0], width], shard.orientation)
        return MemoryConfig(config.memory_layout, BufferType.L1, spec)

    second_width = images[1][3]
    moved = look_up("to_memory_config")(second, sharded(second_width))
    return concat([first, moved], 3, memory_config=sharded(shard.shape[1] + second_width))


def replay_chain(card: PlanningCard, case: dict[str, Any]) -> Iterator[Answer]:
    """The answers of a chain's steps, up to the first refusal."""
    n, h, w, c = case["input"]
    first = zeros(card, [1, 1, n * h * w, c], DataType.BFLOAT16, Layout.ROW_MAJOR)
    state = Tensors(first, (n, h, w, c))
    for step in case["steps"]:
        found = answer(card, functools.partial(_plan_step, card, step, state))
        yield found
        if found.tensor is None:
            return
        state.finish(step, found.tensor)
        found.tensor = found.returned = None


def _plan_step(card: PlanningCard, step: Step, state: Tensors) -> Tensor:
    inputs, images = [state.tensors[i] for i in step["in"]], [state.images[i] for i in step["in"]]
    return run_step(card, step, inputs, images, _zero_parameters)


def _zero_parameters(step: Step, channels: int) -> tuple[Tensor, Tensor]:
    options = step["args"]
    kernel, out = options["kernel"], options["out_channels"]
    return host_zeros([out, channels, kernel, kernel]), host_zeros([1, 1, 1, out])
