"""`ttnn.prepare_conv_weights` and `ttnn.prepare_conv_bias`: what a convolution would prepare itself, made ahead."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor as Values

from tt_cnn.virtual.devices.device import MeshDevice
from tt_cnn.virtual.errors.card_error import CardError, fatal
from tt_cnn.virtual.ops.conv2d.blocks import Compute
from tt_cnn.virtual.ops.conv2d.config import Conv2dConfig, Op2DSliceConfig, Settings, SliceTypeEnum, Slicing
from tt_cnn.virtual.ops.conv2d.conv2d import compute_choice
from tt_cnn.virtual.ops.conv2d.folding import folded, folds
from tt_cnn.virtual.ops.conv2d.operands import ConvolutionCall
from tt_cnn.virtual.ops.conv2d.parameters import Parameters
from tt_cnn.virtual.ops.conv2d.plan import plan_in_l1
from tt_cnn.virtual.ops.conv2d.preparation import prepared_weights
from tt_cnn.virtual.ops.conv2d.problem import Convolution, Request
from tt_cnn.virtual.ops.conv2d.slicing import plan_from_dram
from tt_cnn.virtual.ops.eltwise.calls import arguments_like
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.planning.plan import FreeMemory, Planner, Slot
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

    _convolution: type[Convolution] = Convolution
    _plan_in_l1: Callable[..., Slot] = staticmethod(plan_in_l1)
    _plan_from_dram: Callable[..., Slot] = staticmethod(functools.partial(plan_from_dram, folds_weights=True))

    def _problem(self, given: dict[str, Any]) -> Convolution:
        """TT-NN prepares parameters of convolutions that it then refuses."""
        for name in ("batch_size", "input_height", "input_width", "in_channels", "out_channels"):
            fatal(given[name] > 0, f"{name} must be greater than 0, got {given[name]}")
        return ConvolutionCall.problem(self._convolution, given)

    def _call(
        self,
        given: dict[str, Any],
        tensor: Tensor,
        conv: Convolution,
        settings: Settings,
        parameters: tuple[Spec, Spec | None],
        slicing: Op2DSliceConfig | None = None,
    ) -> ConvolutionCall:
        """A call that prepares the tensor for a convolution with weights and bias of these specs."""
        shape = Shape((1, 1, conv.batch * conv.height * conv.width, conv.in_channels))
        dtype = given["input_dtype"]
        choice = compute_choice(given["compute_config"], dtype, settings.weights_dtype or parameters[0].dtype)
        return ConvolutionCall(
            given["device"],
            {"given": tensor.cpu()},
            conv=conv,
            source=Spec(shape, dtype, given["input_layout"], given["input_memory_config"]),
            settings=settings,
            compute=Compute(choice.fp32_accumulation, choice.packer_l1),
            dtype=given["output_dtype"] or dtype,
            slicing=slicing.frozen() if slicing is not None else None,
            parameters=parameters,
        )

    def run(self, call: Call) -> Tensor:
        assert isinstance(call, ConvolutionCall)
        device = self._device(call)
        with device.lock:
            queue = device.queue(call.queue)
            device.no_capture(queue, "Writes are not supported during trace capture.")
            parameters = self.planned(Planner(device.card, (), FreeMemory.of(device.memory)), **call.attributes)
            spec = self.spec(parameters)
            buffer = device.allocate(spec, self.name)
            context = Context(device.engine, device.card.arch, (), (spec,))
            host, cell = self.given(call, device), buffer.cell

            def job() -> None:
                cell.values = [context.store(self.prepared(values, parameters)) for values in host]

            command = Command(f"ttnn.{self.name}", queue.index, job, accesses_of([buffer], write=True), writes=[cell])
            device.enqueue(command)
            buffer.will_be_written(queue.index)
        return Tensor.on_device(spec, buffer)

    def planned(
        self,
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
            if not conv.transposed:
                source = Spec(source.shape, source.dtype, source.layout, DRAM_MEMORY_CONFIG)
            self._check_slices(conv, source, settings)
        image = planner.allocate(source)
        keeps_layout = not conv.transposed and not source.is_sharded
        prepared = Parameters(*parameters, input_layout=source.layout if keeps_layout else None)
        request = Request(settings, compute, dtype)
        try:
            if in_l1:
                self._plan_in_l1(planner, image, None, conv, prepared, request)
            else:
                self._plan_from_dram(planner, image, None, conv, prepared, request, slicing)
        except CardError:
            if prepared.layout is None:  # what fails behind the weights is the convolution's own affair
                raise
        return prepared

    @staticmethod
    def _check_slices(conv: Convolution, source: Spec, settings: Settings) -> None:
        """For slices out of DRAM the real library makes a row-major tensor of the weights' dtype: some cannot be."""
        is_matmul = folded(conv)[1] if folds(conv, source, settings) else conv.is_matmul(settings)
        dtype = settings.weights_dtype
        fatal(
            is_matmul or dtype not in _BLOCK_FORMATS,
            f"Only TILE layout is supported for {dtype.name if dtype else None} dtype!",
        )

    def given(self, call: ConvolutionCall, device: MeshDevice) -> list[Values]:
        """What is to be prepared, for each chip."""
        return [values["given"] for values in call.values(device)]

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
        given = dict(locals())
        del given["self"]
        return self.make_call(**given)

    def make_call(
        self,
        *,
        weight_tensor: Tensor,
        has_bias: bool,
        conv_config: Conv2dConfig | None,
        slice_config: Op2DSliceConfig | None,
        **given: Any,
    ) -> ConvolutionCall:
        settings, spec = (conv_config or Conv2dConfig()).frozen(), weight_tensor.spec
        conv = self._problem(given)
        bias = Spec(Shape((1, 1, 1, conv.out_channels)), spec.dtype, Layout.ROW_MAJOR) if has_bias else None
        return self._call(given, weight_tensor, conv, settings, (spec, bias), slice_config)

    def spec(self, parameters: Parameters) -> Spec:
        assert parameters.weight is not None
        return parameters.weight.spec

    def prepared(self, given: Values, parameters: Parameters) -> Values:
        assert parameters.layout is not None
        return prepared_weights(given, parameters.layout)


@op("prepare_conv_bias")
class PrepareConvBias(Preparation):
    """A bias (1, 1, 1, out) as the convolution with these arguments adds it. It has the weights' dtype."""

    arguments = arguments_like(
        PrepareConvWeights.arguments,
        renamed={"weight_tensor": "bias_tensor"},
        without=("weights_format", "has_bias"),
    )

    def make_call(self, *, bias_tensor: Tensor, conv_config: Conv2dConfig | None, **given: Any) -> ConvolutionCall:
        """The real library does not look at the slice configuration here."""
        settings = (conv_config or Conv2dConfig()).frozen()
        fatal(settings.weights_dtype is not None, "bad optional access")
        conv = self._problem(given)
        channels = (conv.in_channels, conv.out_channels) if conv.transposed else (conv.out_channels, conv.in_channels)
        shape = Shape((channels[0], max(1, channels[1] // max(1, conv.groups)), *conv.kernel))
        weights = Spec(shape, DataType.BFLOAT16, Layout.ROW_MAJOR)
        return self._call(given, bias_tensor, conv, settings, (weights, bias_tensor.spec))

    def spec(self, parameters: Parameters) -> Spec:
        assert parameters.bias is not None
        return parameters.bias.spec

    def prepared(self, given: Values, parameters: Parameters) -> Values:
        return given.float()
