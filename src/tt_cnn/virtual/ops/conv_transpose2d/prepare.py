"""`ttnn.prepare_conv_transpose2d_weights` and `..._bias`: what a transposed convolution would prepare itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor as Values

from tt_cnn.virtual.devices.device import MeshDevice
from tt_cnn.virtual.errors.card_error import CardError, fatal
from tt_cnn.virtual.ops.conv2d.blocks import Compute
from tt_cnn.virtual.ops.conv2d.config import Conv2dConfig, Op2DSliceConfig, Settings, SliceTypeEnum, Slicing
from tt_cnn.virtual.ops.conv2d.conv2d import pair, runs_in_l1
from tt_cnn.virtual.ops.conv2d.operands import ConvolutionCall
from tt_cnn.virtual.ops.conv2d.parameters import Parameters
from tt_cnn.virtual.ops.conv2d.prepare import (
    PrepareConvBias,
    PrepareConvWeights,
    check_sizes,
    compute_of,
    input_of,
    refuse_block_formats,
)
from tt_cnn.virtual.ops.conv2d.problem import Request
from tt_cnn.virtual.ops.conv_transpose2d.numbers import turned
from tt_cnn.virtual.ops.conv_transpose2d.plan import plan_in_l1
from tt_cnn.virtual.ops.conv_transpose2d.problem import TransposedConvolution
from tt_cnn.virtual.ops.conv_transpose2d.slicing import plan_from_dram
from tt_cnn.virtual.ops.operation import op
from tt_cnn.virtual.ops.sliding_window.window import four_paddings
from tt_cnn.virtual.planning.plan import Planner
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.compute_config import WormholeComputeKernelConfig
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import Shape
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec


class _TurnedCall(ConvolutionCall):
    """Weights (in, out / groups, ...) come to the preparation as those of the convolution over the spread input."""

    def values(self, device: MeshDevice) -> list[dict[str, Values]]:
        groups, mirror = self.attributes["conv"].groups, self.attributes["mirror"]
        return [{"given": turned(chip["given"], groups, mirror)} for chip in super().values(device)]


@op("prepare_conv_transpose2d_weights")
class PrepareConvTranspose2dWeights(PrepareConvWeights):
    """Weights (in, out / groups, height, width) as the matrix that the transposed convolution reads."""

    def arguments(  # type: ignore[override]
        self,
        *,
        weight_tensor: Tensor,
        input_memory_config: MemoryConfig,
        input_layout: Layout,
        weights_format: str,
        in_channels: int,
        out_channels: int,
        batch_size: int,
        input_height: int,
        input_width: int,
        kernel_size: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        has_bias: bool,
        groups: int,
        device: MeshDevice,
        input_dtype: DataType,
        output_dtype: DataType | None = None,
        conv_config: Conv2dConfig | None = None,
        compute_config: WormholeComputeKernelConfig | None = None,
        dram_slice_config: Op2DSliceConfig | None = None,
        mirror_kernel: bool = True,
        output_padding: Sequence[int] = (0, 0),
    ) -> ConvolutionCall:
        image = batch_size, input_height, input_width, in_channels, out_channels
        settings = (conv_config or Conv2dConfig()).frozen()
        weights = weight_tensor.cpu()
        bias = Spec(Shape((1, 1, 1, out_channels)), weights.dtype, Layout.ROW_MAJOR) if has_bias else None
        return _TurnedCall(
            device,
            {"given": weights},
            conv=_convolution(image, (kernel_size, stride, padding, dilation, groups), output_padding),
            source=input_of(image, input_dtype, input_layout, input_memory_config),
            settings=settings,
            compute=compute_of(compute_config, input_dtype, settings.weights_dtype or weights.dtype),
            dtype=output_dtype or input_dtype,
            slicing=dram_slice_config.frozen() if dram_slice_config is not None else None,
            parameters=(weights.spec, bias),
            mirror=mirror_kernel,
        )

    def planned(self, planner: Planner, **attributes: Any) -> Parameters:
        source, slicing = attributes["source"], attributes["slicing"]
        if not (source.memory_config.is_l1() if slicing is None else slicing.kind is SliceTypeEnum.L1Full):
            _check_shard_layout(attributes["settings"])
        return _planned(planner, **attributes)


@op("prepare_conv_transpose2d_bias")
class PrepareConvTranspose2dBias(PrepareConvBias):
    """A bias (1, 1, 1, out) as the transposed convolution adds it. It has the weights' dtype."""

    def arguments(  # type: ignore[override]
        self,
        *,
        bias_tensor: Tensor,
        input_memory_config: MemoryConfig,
        input_layout: Layout,
        in_channels: int,
        out_channels: int,
        batch_size: int,
        input_height: int,
        input_width: int,
        kernel_size: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        groups: int,
        device: MeshDevice,
        input_dtype: DataType,
        output_dtype: DataType | None = None,
        conv_config: Conv2dConfig | None = None,
        compute_config: WormholeComputeKernelConfig | None = None,
        dram_slice_config: Op2DSliceConfig | None = None,
    ) -> ConvolutionCall:
        image = batch_size, input_height, input_width, in_channels, out_channels
        settings = (conv_config or Conv2dConfig()).frozen()
        dtype = settings.weights_dtype
        fatal(dtype is not None, "bad optional access")
        assert dtype is not None
        conv = _convolution(image, (kernel_size, stride, padding, dilation, groups), (0, 0))
        shape = Shape((in_channels, max(1, out_channels // max(1, groups)), *conv.kernel))
        return ConvolutionCall(
            device,
            {"given": bias_tensor.cpu()},
            conv=conv,
            source=input_of(image, input_dtype, input_layout, input_memory_config),
            settings=settings,
            compute=compute_of(compute_config, input_dtype, dtype),
            dtype=output_dtype or input_dtype,
            slicing=None,  # the real library does not look at the slice configuration here
            parameters=(Spec(shape, DataType.BFLOAT16, Layout.ROW_MAJOR), bias_tensor.spec),
        )

    def planned(self, planner: Planner, **attributes: Any) -> Parameters:
        conv, settings, source = attributes["conv"].direct(), attributes["settings"], attributes["source"]
        if not source.memory_config.is_l1() and not conv.is_matmul(settings):
            _check_shard_layout(settings)
            refuse_block_formats(conv, source, settings)
        return _planned(planner, **attributes)


def _check_shard_layout(settings: Settings) -> None:
    """What happens to sharded slices of an input when they may be resharded, but nothing says to what."""
    fatal(settings.shard_layout is not None or not settings.reshard_if_not_optimal, "bad optional access")


def _planned(
    planner: Planner,
    conv: TransposedConvolution,
    source: Spec,
    settings: Settings,
    compute: Compute,
    dtype: DataType,
    slicing: Slicing | None,
    parameters: tuple[Spec, Spec | None],
    **_: Any,
) -> Parameters:
    """Weights and bias of this transposed convolution after it was planned."""
    image = planner.allocate(source)
    prepared, request = Parameters(*parameters), Request(settings, compute, dtype)
    try:
        if runs_in_l1(image, slicing):
            plan_in_l1(planner, image, None, conv, prepared, request)
        else:
            plan_from_dram(planner, image, None, conv, prepared, request, slicing)
    except CardError:
        if prepared.layout is None:  # what fails behind the weights is the convolution's own affair
            raise
    return prepared


def _convolution(image: Sequence[int], window: Sequence[Any], output_padding: Sequence[int]) -> TransposedConvolution:
    check_sizes(image)
    batch, height, width, in_channels, out_channels = image
    kernel, stride, padding, dilation, groups = window
    return TransposedConvolution(
        batch,
        height,
        width,
        in_channels,
        out_channels,
        pair(kernel, "kernel_size"),
        pair(stride, "stride"),
        four_paddings(padding),
        pair(dilation, "dilation"),
        groups,
        pair(output_padding, "output_padding"),
    )
