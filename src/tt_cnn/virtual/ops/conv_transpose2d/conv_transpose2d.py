"""`ttnn.conv_transpose2d`: its arguments, its plan, what it returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tt_cnn.virtual.device import MeshDevice
from tt_cnn.virtual.errors import fatal
from tt_cnn.virtual.ops.conv2d.config import Conv2dConfig, Op2DSliceConfig, Settings, Slicing
from tt_cnn.virtual.ops.conv2d.conv2d import (
    ComputeChoice,
    Conv2d,
    compute_choice,
    given_operand,
    pair,
    runs_in_l1,
)
from tt_cnn.virtual.ops.conv2d.operands import ConvolutionCall, Operand, values_of_call
from tt_cnn.virtual.ops.conv2d.parameters import Parameters
from tt_cnn.virtual.ops.conv2d.problem import Request
from tt_cnn.virtual.ops.conv_transpose2d.numbers import spread_context, spread_operands, transposed_natively
from tt_cnn.virtual.ops.conv_transpose2d.plan import plan_in_l1
from tt_cnn.virtual.ops.conv_transpose2d.problem import TransposedConvolution
from tt_cnn.virtual.ops.conv_transpose2d.slicing import plan_from_dram
from tt_cnn.virtual.ops.operation import Call, op
from tt_cnn.virtual.ops.sliding_window.window import four_paddings
from tt_cnn.virtual.plan import Planner, Slot
from tt_cnn.virtual.tensor import Tensor
from tt_cnn.virtual.types.compute_config import WormholeComputeKernelConfig
from tt_cnn.virtual.types.enums import DataType
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec


@op("conv_transpose2d")
class ConvTranspose2d(Conv2d):
    """A transposed 2D convolution; weights are (in, out / groups, height, width)."""

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
        conv = TransposedConvolution(
            batch_size,
            input_height,
            input_width,
            in_channels,
            out_channels,
            pair(kernel_size, "kernel_size"),
            pair(stride, "stride"),
            four_paddings(padding),
            pair(dilation, "dilation"),
            groups,
            pair(output_padding, "output_padding"),
        )
        settings = (conv_config or Conv2dConfig()).frozen()
        weights_dtype = settings.weights_dtype or weight_tensor.dtype
        return ConvolutionCall(
            device,
            {"input": input_tensor, "weight": weight_tensor, "bias": bias_tensor},
            conv=conv,
            settings=settings,
            compute=compute_choice(compute_config, input_tensor.dtype, weights_dtype),
            dtype=dtype or input_tensor.dtype,
            memory_config=memory_config,
            slicing=dram_slice_config.frozen() if dram_slice_config is not None else None,
            mirror=mirror_kernel,
            returns=(return_output_dim, return_weights_and_bias),
        )

    def plan(  # type: ignore[override]
        self,
        planner: Planner,
        *slots: Slot,
        conv: TransposedConvolution,
        settings: Settings,
        compute: ComputeChoice,
        dtype: DataType,
        memory_config: MemoryConfig | None,
        slicing: Slicing | None,
        input: Operand,
        weight: Operand,
        bias: Operand,
        returns: tuple[bool, bool],
        mirror: bool = True,
    ) -> list[Slot]:
        _check_sizes(conv)
        source, host = given_operand(input, slots)
        weight_slot, host_weight = given_operand(weight, slots)
        bias_slot, host_bias = given_operand(bias, slots)
        parameters = Parameters(host_weight, host_bias, weight_slot, bias_slot)
        request = Request(settings, compute.of_plan, dtype, memory_config)
        if runs_in_l1(source, slicing):
            output = plan_in_l1(planner, source, host, conv, parameters, request)
        else:
            output = plan_from_dram(planner, source, host, conv, parameters, request, slicing)
        made = [p for p in (parameters.weight, parameters.bias) if p is not None and p not in slots]
        return [output, *made]

    def _job(
        self, device: MeshDevice, call: Call, specs: list[Spec], buffers: list[Any], targets: list[Any]
    ) -> Callable[[], None]:
        """That of the convolution over the spread input, with the weights turned round."""
        assert isinstance(call, ConvolutionCall) and call.preparing is not None
        sources = [(buffer.cell, tensor.spec) for buffer, tensor in zip(buffers, call.tensors, strict=True)]
        conv: TransposedConvolution = call.attributes["conv"]
        attributes = {**call.attributes, "conv": conv.direct().but(groups=1)}
        context = spread_context(device.engine, call, specs)
        preparing, host, chips, mirror = call.preparing, call.values(device), device.chips, call.attributes["mirror"]
        natively = device.engine.numerics == "native" and not preparing.names

        def job() -> None:
            values = [cell.read(spec, chips, context.engine.device) for cell, spec in sources]
            results: list[Any] = []
            for chip in range(chips):
                own = [value[chip] for value in values]
                if natively:
                    results.append([transposed_natively(context, call, conv, own, host[chip])])
                    continue
                given = spread_operands(call.attributes, [spec for _, spec in sources], own, host[chip], conv, mirror)
                results.append(values_of_call(context, preparing, *given, attributes))
            for i, (target, spec) in enumerate(zip(targets, specs, strict=True)):
                target.values = [self._check(result[i], spec) for result in results]

        return job


def _check_sizes(conv: TransposedConvolution) -> None:
    """Sizes for which the real library computes with wrapped-around numbers and fails somewhere, or crashes."""
    sizes = (conv.batch, conv.height, conv.width, conv.in_channels, conv.out_channels, conv.groups)
    fatal(
        min(*sizes, *conv.kernel, *conv.stride, *conv.dilation) > 0 and min(conv.output_hw) > 0,
        "conv_transpose2d takes sizes, channels, kernel, stride, dilation and groups of 1 or more, and padding that "
        "leaves something of the output.",
    )
