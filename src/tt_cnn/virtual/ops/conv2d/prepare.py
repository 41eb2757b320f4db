"""`ttnn.prepare_conv_weights` and `ttnn.prepare_conv_bias`: what a convolution would prepare itself, made ahead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor as Values

from tt_cnn.virtual.devices.device import MeshDevice
from tt_cnn.virtual.errors.card_error import CardError, fatal
from tt_cnn.virtual.ops.conv2d.blocks import Compute
from tt_cnn.virtual.ops.conv2d.config import Conv2dConfig, Op2DSliceConfig, Settings, SliceTypeEnum, Slicing
from tt_cnn.virtual.ops.conv2d.conv2d import compute_choice, pair
from tt_cnn.virtual.ops.conv2d.folding import folded, folds
from tt_cnn.virtual.ops.conv2d.operands import ConvolutionCall
from tt_cnn.virtual.ops.conv2d.parameters import Parameters
from tt_cnn.virtual.ops.conv2d.plan import plan_in_l1
from tt_cnn.virtual.ops.conv2d.preparation import prepared_weights
from tt_cnn.virtual.ops.conv2d.problem import Convolution, Request
from tt_cnn.virtual.ops.conv2d.slicing import plan_from_dram
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.ops.sliding_window.window import four_paddings
from tt_cnn.virtual.planning.plan import Planner
from tt_cnn.virtual.queues.accesses import accesses_of
from tt_cnn.virtual.queues.queue import Command
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.compute_config import WormholeComputeKernelConfig
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import Shape
from tt_cnn.virtual.types.memory_config import DRAM_MEMORY_CONFIG, MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

_BLOCK_FORMATS = (DataType.BFLOAT8_B, DataType.BFLOAT4_B)


class Preparation(Operation):
    """Plans the convolution with a planner of its own and keeps what becomes of its weights and bias."""

    def run(self, call: Call) -> Tensor:
        assert isinstance(call, ConvolutionCall)
        device = self._device(call)
        with device.lock:
            queue = device.queue(call.queue)
            device.no_capture(queue, "Writes are not supported during trace capture.")
            parameters = self.planned(Planner(device.card, (), device.free_memory()), **call.attributes)
            spec = self.spec(parameters)
            buffer = device.allocate(spec, self.name)
            context = Context(device.engine, device.card.arch, (), (spec,))
            host, cell = call.values(device), buffer.cell

            def job() -> None:
                cell.values = [context.store(self.prepared(values["given"], parameters)) for values in host]

            command = Command(f"ttnn.{self.name}", queue.index, job, accesses_of([buffer], write=True), writes=[cell])
            device.enqueue(command)
            buffer.will_be_written(queue.index)
        return Tensor.on_device(spec, buffer)

    def planned(self, planner: Planner, **attributes: Any) -> Parameters:
        return _planned(planner, **attributes)

    def spec(self, parameters: Parameters) -> Spec:
        raise NotImplementedError

    def prepared(self, given: Values, parameters: Parameters) -> Values:
        raise NotImplementedError


@op("prepare_conv_weights")
class PrepareConvWeights(Preparation):
    """Weights (out, in / groups, height, width) as the matrix that the convolution with these arguments reads."""

    def arguments(
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
        slice_config: Op2DSliceConfig | None = None,
    ) -> ConvolutionCall:
        image = batch_size, input_height, input_width, in_channels, out_channels
        window = kernel_size, stride, padding, dilation, groups
        settings = (conv_config or Conv2dConfig()).frozen()
        weights = weight_tensor.cpu()
        bias = Spec(Shape((1, 1, 1, out_channels)), weights.dtype, Layout.ROW_MAJOR) if has_bias else None
        return ConvolutionCall(
            device,
            {"given": weights},
            conv=_convolution(image, window),
            source=input_of(image, input_dtype, input_layout, input_memory_config),
            settings=settings,
            compute=compute_of(compute_config, input_dtype, settings.weights_dtype or weights.dtype),
            dtype=output_dtype or input_dtype,
            slicing=slice_config.frozen() if slice_config is not None else None,
            parameters=(weights.spec, bias),
        )

    def spec(self, parameters: Parameters) -> Spec:
        assert parameters.weight is not None
        return parameters.weight.spec

    def prepared(self, given: Values, parameters: Parameters) -> Values:
        assert parameters.layout is not None
        return prepared_weights(given, parameters.layout)


@op("prepare_conv_bias")
class PrepareConvBias(Preparation):
    """A bias (1, 1, 1, out) as the convolution with these arguments adds it. It has the weights' dtype."""

    def arguments(
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
        slice_config: Op2DSliceConfig | None = None,
    ) -> ConvolutionCall:
        image = batch_size, input_height, input_width, in_channels, out_channels
        window = kernel_size, stride, padding, dilation, groups
        settings = (conv_config or Conv2dConfig()).frozen()
        dtype = settings.weights_dtype
        fatal(dtype is not None, "bad optional access")
        assert dtype is not None
        conv = _convolution(image, window)
        shape = Shape((out_channels, max(1, in_channels // max(1, groups)), *conv.kernel))
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

    def spec(self, parameters: Parameters) -> Spec:
        assert parameters.bias is not None
        return parameters.bias.spec

    def prepared(self, given: Values, parameters: Parameters) -> Values:
        return given.float()


def _planned(
    planner: Planner,
    conv: Convolution,
    source: Spec,
    settings: Settings,
    compute: Compute,
    dtype: DataType,
    slicing: Slicing | None,
    parameters: tuple[Spec, Spec | None],
    **_: Any,
) -> Parameters:
    """Weights and bias of this convolution after it was planned."""
    in_l1 = slicing.kind is SliceTypeEnum.L1Full if slicing is not None else source.memory_config.is_l1()
    if not in_l1:
        source = Spec(source.shape, source.dtype, source.layout, DRAM_MEMORY_CONFIG)
    image = planner.allocate(source)
    prepared = Parameters(*parameters, input_layout=None if source.is_sharded else source.layout)
    request = Request(settings, compute, dtype)
    try:
        if in_l1:
            plan_in_l1(planner, image, None, conv, prepared, request)
        else:
            refuse_block_formats(conv, source, settings)
            plan_from_dram(planner, image, None, conv, prepared, request, slicing, folds_weights=True)
    except CardError:
        if prepared.layout is None:  # what fails behind the weights is the convolution's own affair
            raise
    return prepared


def refuse_block_formats(conv: Convolution, source: Spec, settings: Settings) -> None:
    """For slices out of DRAM the real library makes a row-major tensor of the weights' dtype, which not all can be."""
    is_matmul = folded(conv)[1] if folds(conv, source, settings) else conv.is_matmul(settings)
    dtype = settings.weights_dtype
    fatal(
        is_matmul or dtype not in _BLOCK_FORMATS,
        f"Only TILE layout is supported for {dtype.name if dtype else None} dtype!",
    )


def _convolution(image: Sequence[int], window: Sequence[Any]) -> Convolution:
    check_sizes(image)
    batch, height, width, in_channels, out_channels = image
    kernel, stride, padding, dilation, groups = window
    return Convolution(
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
    )


def check_sizes(image: Sequence[int]) -> None:
    """TT-NN prepares parameters of convolutions that it then refuses."""
    for name, size in zip(_SIZES, image, strict=True):
        fatal(size > 0, f"{name} must be greater than 0, got {size}")


_SIZES = ("batch_size", "input_height", "input_width", "in_channels", "out_channels")


def input_of(image: Sequence[int], dtype: DataType, layout: Layout, config: MemoryConfig) -> Spec:
    batch, height, width, channels, _ = image
    return Spec(Shape((1, 1, batch * height * width, channels)), dtype, layout, config)


def compute_of(config: WormholeComputeKernelConfig | None, inputs: DataType, weights: DataType) -> Compute:
    choice = compute_choice(config, inputs, weights)
    return Compute(choice.fp32_accumulation, choice.packer_l1)
