# SPDX-License-Identifier: Apache-2.0
"""`ttnn.conv_transpose2d`: its arguments, its plan, what it returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor as Values

from tt_cnn.virtual.devices.device import MeshDevice
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.conv2d.config import Conv2dConfig, Op2DSliceConfig
from tt_cnn.virtual.ops.conv2d.conv2d import Conv2d
from tt_cnn.virtual.ops.conv2d.operands import ConvolutionCall, values_of_call
from tt_cnn.virtual.ops.conv_transpose2d.numbers import spread_context, spread_operands, transposed_natively
from tt_cnn.virtual.ops.conv_transpose2d.plan import plan_in_l1
from tt_cnn.virtual.ops.conv_transpose2d.problem import TransposedConvolution
from tt_cnn.virtual.ops.conv_transpose2d.slicing import plan_from_dram
from tt_cnn.virtual.ops.operation import Call, op
from tt_cnn.virtual.tensors.conversion import unpad
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.compute_config import WormholeComputeKernelConfig
from tt_cnn.virtual.types.enums import DataType
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec


@op("conv_transpose2d")
class ConvTranspose2d(Conv2d):
    """A transposed 2D convolution; weights are (in, out / groups, height, width)."""

    _plan_in_l1 = staticmethod(plan_in_l1)
    _plan_from_dram = staticmethod(plan_from_dram)

    def arguments(  # type: ignore[override]
        self,
        *,
        input_tensor: Tensor,
        weight_tensor: Tensor,
        device: MeshDevice,
        in_channels: int,
        out_channels: int,
        batch_size: int,
        input_height: int,
        input_width: int,
        kernel_size: Sequence[int],
        stride: Sequence[int] = (1, 1),
        padding: Sequence[int] = (0, 0),
        output_padding: Sequence[int] = (0, 0),
        dilation: Sequence[int] = (1, 1),
        groups: int = 1,
        dtype: DataType | None = None,
        bias_tensor: Tensor | None = None,
        conv_config: Conv2dConfig | None = None,
        compute_config: WormholeComputeKernelConfig | None = None,
        memory_config: MemoryConfig | None = None,
        dram_slice_config: Op2DSliceConfig | None = None,
        mirror_kernel: bool = True,
        return_output_dim: bool = False,
        return_weights_and_bias: bool = False,
    ) -> Call:
        given = dict(locals())
        del given["self"]
        return self.make_call(**given)

    def make_call(  # type: ignore[override]
        self, *, dram_slice_config: Op2DSliceConfig | None, mirror_kernel: bool, **given: Any
    ) -> ConvolutionCall:
        call = super().make_call(slice_config=dram_slice_config, **given)
        call.attributes["mirror"] = mirror_kernel
        return call

    def _problem(self, given: dict[str, Any]) -> TransposedConvolution:
        return ConvolutionCall.problem(TransposedConvolution, given)

    def _computed(self, device: MeshDevice, call: ConvolutionCall, specs: list[Spec]) -> Any:
        """By the convolution over the spread input, with the weights turned round."""
        assert call.preparing is not None
        preparing, asked = call.preparing, call.attributes  # and not the call, which has tensors
        mirror, conv = asked["mirror"], asked["conv"]
        attributes = {**asked, "conv": conv.direct().but(groups=1)}
        context, own = spread_context(device, call, specs), [tensor.spec for tensor in call.tensors]
        natively = device.engine.numerics == "native" and not preparing.names

        def computed(values: tuple[Values, ...], host: dict[str, Values]) -> list[Values]:
            if natively:
                plain = [unpad(value, spec.shape) for value, spec in zip(values, own, strict=True)]
                return [transposed_natively(context, preparing, asked, values, plain, host)]
            given = spread_operands(asked, own, values, host, conv, mirror)
            return values_of_call(context, preparing, *given, attributes)

        return computed

    @staticmethod
    def _check_sizes(conv: TransposedConvolution) -> None:  # type: ignore[override]
        """Sizes for which the real library computes with wrapped-around numbers and fails somewhere, or crashes."""
        sizes = (conv.batch, conv.height, conv.width, conv.in_channels, conv.out_channels, conv.groups)
        fatal(
            min(*sizes, *conv.kernel, *conv.stride, *conv.dilation) > 0 and min(conv.output_hw) > 0,
            "conv_transpose2d takes sizes, channels, kernel, stride, dilation and groups of 1 or more, and padding "
            "that leaves something of the output.",
        )
