# SPDX-License-Identifier: Apache-2.0
"""`ttnn.conv1d`: a line of pixels seen as an image of height 1 (TT-NN reshapes, then calls conv2d)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tt_cnn.virtual.devices.device import MeshDevice
from tt_cnn.virtual.ops.conv2d.config import Conv2dConfig, Op2DSliceConfig
from tt_cnn.virtual.ops.conv2d.conv2d import Conv2d
from tt_cnn.virtual.ops.conv2d.operands import ConvolutionCall
from tt_cnn.virtual.ops.operation import Call, op
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.compute_config import WormholeComputeKernelConfig
from tt_cnn.virtual.types.enums import DataType
from tt_cnn.virtual.types.memory_config import MemoryConfig


@op("conv1d")
class Conv1d(Conv2d):
    """A 1D convolution; see TT-NN's `conv1d`."""

    def arguments(  # type: ignore[override]
        self,
        *,
        input_tensor: Tensor,
        weight_tensor: Tensor,
        device: MeshDevice,
        in_channels: int,
        out_channels: int,
        batch_size: int,
        input_length: int,
        kernel_size: int,
        stride: int = 1,
        padding: int | Sequence[int] = 0,
        dilation: int = 1,
        groups: int = 1,
        dtype: DataType | None = None,
        bias_tensor: Tensor | None = None,
        conv_config: Conv2dConfig | None = None,
        compute_config: WormholeComputeKernelConfig | None = None,
        memory_config: MemoryConfig | None = None,
        slice_config: Op2DSliceConfig | None = None,
        return_output_dim: bool = False,
        return_weights_and_bias: bool = False,
    ) -> ConvolutionCall:
        given = dict(locals())
        del given["self"]
        return self.make_call(**given)

    def make_call(  # type: ignore[override]
        self, *, input_tensor: Tensor, weight_tensor: Tensor, input_length: int, **given: Any
    ) -> ConvolutionCall:
        padding, kernel = given["padding"], given["kernel_size"]
        sides = (padding, padding) if isinstance(padding, int) else tuple(padding)
        if len(sides) != 2:
            raise TypeError(f"padding is {padding!r}; conv1d takes a number, or one for each side")
        given["padding"] = (0, 0, *sides)
        for name in ("kernel_size", "stride", "dilation"):
            given[name] = (1, given[name])
        if len(weight_tensor.shape) == 3:
            weight_tensor = weight_tensor.reshape(*list(weight_tensor.shape)[:2], 1, kernel)
        return super().make_call(
            input_tensor=input_tensor.reshape(given["batch_size"], 1, input_length, input_tensor.shape[-1]),
            weight_tensor=weight_tensor,
            input_height=1,
            input_width=input_length,
            **given,
        )

    def results(self, outputs: list[Tensor], call: Call) -> Any:
        """As conv2d's, with a length instead of a height and a width."""
        found = super().results(outputs, call)
        if not call.attributes["returns"][0]:
            return found
        output, (_, length), *rest = found
        return (output, length, *rest)
