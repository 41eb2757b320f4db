# SPDX-License-Identifier: Apache-2.0
"""`ttnn.conv2d`: its arguments, its plan, what it returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from torch import Tensor as Values

from tt_cnn.virtual.devices.device import MeshDevice
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.conv2d.alternatives import alternatives, describe
from tt_cnn.virtual.ops.conv2d.blocks import Compute
from tt_cnn.virtual.ops.conv2d.config import Conv2dConfig, Op2DSliceConfig, Settings, SliceTypeEnum, Slicing
from tt_cnn.virtual.ops.conv2d.operands import ConvolutionCall, Operand, values_of_call
from tt_cnn.virtual.ops.conv2d.parameters import Parameters
from tt_cnn.virtual.ops.conv2d.plan import plan_in_l1
from tt_cnn.virtual.ops.conv2d.problem import Convolution, HostOperand, Request
from tt_cnn.virtual.ops.conv2d.slicing import plan_from_dram
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.ops.sliding_window.window import whole
from tt_cnn.virtual.planning.alternatives import Alternative, CallSite
from tt_cnn.virtual.planning.plan import Plan, Planner, Slot
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.compute_config import WormholeComputeKernelConfig
from tt_cnn.virtual.types.enums import DataType, MathFidelity
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

_Computed = Callable[[tuple[Values, ...], dict[str, Values]], list[Values]]
_MOST_ROWS, _MOST_PIXELS = 2**20, 2**27
"""Above any image that fits into a card's DRAM. The real library counts in 32 bits and wraps around."""


@op("conv2d")
class Conv2d(Operation):
    """A 2D convolution; see TT-NN's `conv2d`."""

    _plan_in_l1: Callable[..., Slot] = staticmethod(plan_in_l1)
    _plan_from_dram: Callable[..., Slot] = staticmethod(plan_from_dram)

    def arguments(
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
        dilation: Sequence[int] = (1, 1),
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

    def make_call(
        self,
        *,
        input_tensor: Tensor,
        weight_tensor: Tensor,
        bias_tensor: Tensor | None,
        device: MeshDevice,
        dtype: DataType | None,
        conv_config: Conv2dConfig | None,
        compute_config: WormholeComputeKernelConfig | None,
        memory_config: MemoryConfig | None,
        slice_config: Op2DSliceConfig | None,
        return_output_dim: bool,
        return_weights_and_bias: bool,
        **given: Any,
    ) -> ConvolutionCall:
        settings = (conv_config or Conv2dConfig()).frozen()
        weights_dtype = settings.weights_dtype or weight_tensor.dtype
        return ConvolutionCall(
            device,
            {"input": input_tensor, "weight": weight_tensor, "bias": bias_tensor},
            conv=self._problem(given),
            settings=settings,
            compute=compute_choice(compute_config, input_tensor.dtype, weights_dtype),
            dtype=dtype or input_tensor.dtype,
            memory_config=memory_config,
            slicing=slice_config.frozen() if slice_config is not None else None,
            returns=(return_output_dim, return_weights_and_bias),
        )

    def _problem(self, given: dict[str, Any]) -> Convolution:
        for name in ("batch_size", "input_height", "input_width", "in_channels", "out_channels", "groups"):
            given[name] = whole(given[name], name)
        return ConvolutionCall.problem(Convolution, given)

    def plan(
        self,
        planner: Planner,
        *slots: Slot,
        conv: Convolution,
        settings: Settings,
        compute: ComputeChoice,
        dtype: DataType,
        memory_config: MemoryConfig | None,
        slicing: Slicing | None,
        input: Operand,
        weight: Operand,
        bias: Operand,
        **_: Any,
    ) -> list[Slot]:
        self._check_sizes(conv)
        source, host = given_operand(input, slots)
        weight_slot, host_weight = given_operand(weight, slots)
        bias_slot, host_bias = given_operand(bias, slots)
        parameters = Parameters(host_weight, host_bias, weight_slot, bias_slot)
        request = Request(settings, compute.of_plan, dtype, memory_config)
        if runs_in_l1(source, slicing):
            output = self._plan_in_l1(planner, source, host, conv, parameters, request)
        else:
            output = self._plan_from_dram(planner, source, host, conv, parameters, request, slicing)
        made = [p for p in (parameters.weight, parameters.bias) if p is not None and p not in slots]
        return [output, *made]

    @staticmethod
    def _check_sizes(conv: Convolution) -> None:
        """Sizes for which the real library computes with wrapped-around numbers and fails somewhere, or crashes."""
        sizes = (conv.batch, conv.height, conv.width, conv.in_channels, conv.out_channels, conv.groups)
        fatal(
            min(*sizes, *conv.kernel, *conv.stride, *conv.dilation) > 0,
            "conv2d takes sizes, channels, kernel, stride, dilation and groups of 1 or more.",
        )
        fatal(
            conv.out_channels >= conv.groups,
            f"conv2d was asked for {conv.groups} groups, but has {conv.out_channels} output channels for them.",
            "  TT-NN divides by zero here and ends the process",
        )
        height, width = conv.window.dilated
        fatal(
            conv.height + conv.window.pad_h >= height and conv.width + conv.window.pad_w >= width,
            f"The kernel covers {height}x{width} pixels; the input has {conv.height + conv.window.pad_h}x"
            f"{conv.width + conv.window.pad_w} with its padding.",
        )
        rows, columns = conv.batch * (conv.height + conv.window.pad_h), conv.width + conv.window.pad_w
        fatal(
            rows <= _MOST_ROWS and rows * columns <= _MOST_PIXELS,
            f"conv2d was asked for {rows} rows of {columns} pixels with their padding; no card holds that many.",
        )

    def describe(self, call: Call) -> str:
        return describe(call, self.name)

    def alternatives(self, site: CallSite) -> Iterator[Alternative]:
        return alternatives(site)

    def run(self, call: Call) -> Any:
        assert isinstance(call, ConvolutionCall)
        if call.host:
            device = self._device(call)
            device.no_capture(device.queue(call.queue), "Writes are not supported during trace capture.")
        return super().run(call)

    def _enqueue(
        self, device: MeshDevice, queue: int, call: Call, plan: Plan, outputs: list[Tensor], *rest: Any
    ) -> None:
        assert isinstance(call, ConvolutionCall)
        call.settle(plan)
        super()._enqueue(device, queue, call, plan, outputs, *rest)

    def _job(
        self, device: MeshDevice, call: Call, plan: Plan, specs: list[Spec], buffers: list[Any], targets: list[Any]
    ) -> Callable[[], None]:
        """Like any op's, with the values of host tensors beside those of the card."""
        assert isinstance(call, ConvolutionCall)
        sources = [(buffer.cell, tensor.spec) for buffer, tensor in zip(buffers, call.tensors, strict=True)]
        computed, host = self._computed(device, call, specs), call.values(device)
        engine, chips = device.engine, device.chips

        def job() -> None:
            values = [cell.read(spec, chips, engine.device) for cell, spec in sources]
            results = [computed(tuple(v[chip] for v in values), host[chip]) for chip in range(chips)]
            for i, (target, spec) in enumerate(zip(targets, specs, strict=True)):
                target.values = [self._check(result[i], spec) for result in results]

        return job

    def _computed(self, device: MeshDevice, call: ConvolutionCall, specs: list[Spec]) -> _Computed:
        """What computes the outputs on one chip from the values of the card and those of the host."""
        assert call.preparing is not None
        context = Context(device.engine, device.card.arch, tuple(t.spec for t in call.tensors), tuple(specs))
        preparing, attributes = call.preparing, call.attributes
        return lambda values, host: values_of_call(context, preparing, values, host, attributes)

    def results(self, outputs: list[Tensor], call: Call) -> Any:
        assert isinstance(call, ConvolutionCall) and call.preparing is not None
        made = dict(zip(call.preparing.names, outputs[1:], strict=True))
        for name in ("weight", "bias"):
            given = call.attributes[name]
            if isinstance(given, int):
                made.setdefault(name, call.tensors[given])
        return _returned(outputs[0], call.attributes["conv"], made, *call.attributes["returns"])


def _returned(
    output: Tensor, conv: Convolution, parameters: dict[str, Tensor], with_size: bool, with_parameters: bool
) -> Any:
    """The four forms that `conv2d` returns."""
    both = parameters["weight"], parameters.get("bias")
    if with_size and with_parameters:
        return output, conv.output_hw, both
    if with_size:
        return output, conv.output_hw
    return (output, both) if with_parameters else output


class ComputeChoice(NamedTuple):
    """How to multiply and to add up, as asked for or by default."""

    fidelity: MathFidelity
    approximates: bool
    fp32_accumulation: bool
    packer_l1: bool

    @property
    def of_plan(self) -> Compute:
        """The same as steps carry it."""
        return Compute(self.fp32_accumulation, self.packer_l1, self.fidelity, self.approximates)


def compute_choice(config: WormholeComputeKernelConfig | None, inputs: DataType, weights: DataType) -> ComputeChoice:
    """The given choice, or the convolution's default: HiFi4, float32 accumulation for float32 operands."""
    if config is None:
        both = inputs is DataType.FLOAT32 and weights is DataType.FLOAT32
        return ComputeChoice(MathFidelity.HiFi4, True, both, False)
    return ComputeChoice(config.math_fidelity, config.math_approx_mode, config.fp32_dest_acc_en, config.packer_l1_acc)


def given_operand(operand: Operand, slots: Sequence[Slot]) -> tuple[Slot | None, Spec | None]:
    """An operand on the card, or the spec of one on the host."""
    if isinstance(operand, HostOperand):
        return None, operand.spec
    return (slots[operand] if operand is not None else None), None


def runs_in_l1(source: Slot | None, slicing: Slicing | None) -> bool:
    """`determine_conv2d_execution_path`: slices out of DRAM unless L1 is asked for or the input is there already."""
    if slicing is not None:
        return slicing.kind is SliceTypeEnum.L1Full
    return source is not None and source.spec.memory_config.is_l1()
