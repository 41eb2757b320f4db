# SPDX-License-Identifier: Apache-2.0
"""`ttnn.prepare_conv_weights` and `ttnn.prepare_conv_bias`: what a convolution would prepare itself, made ahead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor as Values

from tt_cnn.virtual.arch import Card
from tt_cnn.virtual.devices.device import MeshDevice
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.numerics.formats import as_floats
from tt_cnn.virtual.ops.conv2d.ahead import Announced, Arrangement, arrangement
from tt_cnn.virtual.ops.conv2d.blocks import Compute
from tt_cnn.virtual.ops.conv2d.config import Conv2dConfig, Op2DSliceConfig, Settings, Slicing
from tt_cnn.virtual.ops.conv2d.conv2d import compute_choice
from tt_cnn.virtual.ops.conv2d.operands import ConvolutionCall
from tt_cnn.virtual.ops.conv2d.parameters import Parameters, check_host_bias, check_host_weight
from tt_cnn.virtual.ops.conv2d.preparation import prepared_weights
from tt_cnn.virtual.ops.conv2d.problem import Convolution, Request
from tt_cnn.virtual.ops.conv2d.weights import bias_spec, weight_layout
from tt_cnn.virtual.ops.eltwise.calls import arguments_like
from tt_cnn.virtual.ops.matmul.weight_layout import WeightLayout
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.planning.plan import FreeMemory
from tt_cnn.virtual.queues.accesses import accesses_of
from tt_cnn.virtual.queues.queue import Command
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.compute_config import WormholeComputeKernelConfig
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec


@dataclass(frozen=True)
class Prepared:
    """The prepared tensor, and how weights stand in it."""

    spec: Spec
    layout: WeightLayout | None = None


class Preparation(Operation):
    """Works out how the convolution takes its weights and bias, and makes one of them so."""

    _convolution: type[Convolution] = Convolution

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
        has_bias: bool,
        slicing: Op2DSliceConfig | None = None,
    ) -> ConvolutionCall:
        """A call that prepares the tensor for this convolution."""
        dtype = given["input_dtype"]
        weights_dtype = settings.weights_dtype or tensor.dtype
        settings = settings.but(weights_dtype=weights_dtype)
        choice = compute_choice(given["compute_config"], dtype, weights_dtype)
        return ConvolutionCall(
            given["device"],
            {"given": tensor.cpu()},
            conv=conv,
            config=given["input_memory_config"],
            layout=given["input_layout"],
            dtype=dtype,
            request=Request(
                settings, Compute(choice.fp32_accumulation, choice.packer_l1), given["output_dtype"] or dtype
            ),
            has_bias=has_bias,
            slicing=slicing.frozen() if slicing is not None else None,
        )

    def run(self, call: Call) -> Tensor:
        assert isinstance(call, ConvolutionCall)
        device = self._device(call)
        with device.lock:
            queue = device.queue(call.queue)
            device.no_capture(queue, "Writes are not supported during trace capture.")
            prepared = self.planned(device.card, FreeMemory.of(device.memory).l1, **call.attributes)
            buffer = device.allocate(prepared.spec, self.name)
            context = Context(device.engine, device.card.arch, (), (prepared.spec,))
            host, cell = self.given(call, device), buffer.cell

            def job() -> None:
                cell.values = [context.store(self.prepared(values, prepared)) for values in host]

            command = Command(f"ttnn.{self.name}", queue.index, job, accesses_of([buffer], write=True), writes=[cell])
            device.enqueue(command)
            buffer.will_be_written(queue.index)
        return Tensor.on_device(prepared.spec, buffer)

    def planned(
        self,
        card: Card,
        free_l1: int,
        conv: Convolution,
        config: MemoryConfig,
        layout: Layout,
        dtype: DataType,
        request: Request,
        has_bias: bool,
        slicing: Slicing | None,
        given: Any,
        **_: Any,
    ) -> Prepared:
        """The tensor of `given`, the host's spec, once it is prepared."""
        said = Announced(card, conv, config, layout, dtype, request, has_bias)
        return self.spec(given.spec, conv, self.arranged(said, slicing, free_l1))

    def arranged(self, said: Announced, slicing: Slicing | None, free_l1: int) -> Arrangement:
        return arrangement(said, slicing, free_l1)

    def given(self, call: ConvolutionCall, device: MeshDevice) -> list[Values]:
        """What is to be prepared, for each chip."""
        return [values["given"] for values in call.values(device)]

    def spec(self, given: Spec, conv: Convolution, arranged: Arrangement) -> Prepared:
        raise NotImplementedError

    def prepared(self, given: Values, prepared: Prepared) -> Values:
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
        settings = (conv_config or Conv2dConfig()).frozen()
        return self._call(given, weight_tensor, self._problem(given), settings, has_bias, slice_config)

    def spec(self, given: Spec, conv: Convolution, arranged: Arrangement) -> Prepared:
        check_host_weight(given)
        settings, blocks = arranged.request.settings, arranged.blocks
        shape = Parameters(given, None).shape_for(
            conv if conv.transposed else arranged.conv, arranged.fold, settings.weights_dtype
        )
        layout = weight_layout(
            shape,
            arranged.alignment,
            arranged.inputs,
            arranged.outputs,
            blocks,
            settings,
            arranged.interleaved_matmul,
            arranged.own_form,
        )
        return Prepared(layout.spec(settings.weights_dtype or given.dtype), layout)

    def prepared(self, given: Values, prepared: Prepared) -> Values:
        assert prepared.layout is not None
        return prepared_weights(given, prepared.layout)


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
        return self._call(given, bias_tensor, self._problem(given), settings, has_bias=True)

    def spec(self, given: Spec, conv: Convolution, arranged: Arrangement) -> Prepared:
        check_host_bias(given, conv.out_channels)
        dtype = arranged.request.settings.weights_dtype or given.dtype
        return Prepared(bias_spec(conv.out_channels, arranged.bias_columns, arranged.blocks, dtype))

    def prepared(self, given: Values, prepared: Prepared) -> Values:
        return as_floats(given)
