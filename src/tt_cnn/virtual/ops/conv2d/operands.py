# SPDX-License-Identifier: Apache-2.0
"""The tensors of a call, on the card or on the host, and how they come to the plan and to the numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from torch import Tensor as Values

from tt_cnn.virtual.devices.device import MeshDevice, values_on
from tt_cnn.virtual.numerics.formats import as_floats
from tt_cnn.virtual.ops.conv2d.numbers import Operands, convolved, image_of, kept_weights, on_card
from tt_cnn.virtual.ops.conv2d.parameters import is_prepared, is_prepared_bias
from tt_cnn.virtual.ops.conv2d.preparation import prepared_weights
from tt_cnn.virtual.ops.conv2d.problem import Convolution, HostOperand
from tt_cnn.virtual.ops.conv2d.program import ConvProgram
from tt_cnn.virtual.ops.conv2d.recipes import multiplying_step
from tt_cnn.virtual.ops.matmul.program import MatmulProgram
from tt_cnn.virtual.ops.matmul.weight_layout import WeightLayout
from tt_cnn.virtual.ops.operation import Call, Context
from tt_cnn.virtual.ops.sliding_window.window import Pair, four_paddings, whole
from tt_cnn.virtual.planning.plan import Plan, Step
from tt_cnn.virtual.tensors.conversion import pad_to, unpad
from tt_cnn.virtual.tensors.tensor import Tensor

_Convolution = TypeVar("_Convolution", bound=Convolution)
Operand = HostOperand | int | None
"""A host tensor, or the number of a device tensor among the call's tensors."""


class Preparing(NamedTuple):
    """What a call makes of its weights and bias."""

    layout: WeightLayout
    names: tuple[str, ...]
    """`weight`, `bias`: those that are prepared by the call. They are outputs behind the result."""
    step: Step
    """That multiplies with them."""


class ConvolutionCall(Call):
    """A call that may bring host tensors along: their specs are attributes (plans depend on them), values are not."""

    def __init__(self, device: MeshDevice, operands: Mapping[str, Tensor | None], **attributes: Any) -> None:
        tensors: list[Tensor] = []
        given: dict[str, Any] = {}
        self.host: dict[str, list[Values]] = {}
        for name, tensor in operands.items():
            if tensor is None:
                given[name] = None
            elif tensor._buffer is None:
                given[name] = HostOperand(tensor.spec)
                self.host[name] = tensor.host_values("conv2d")
            else:
                given[name] = len(tensors)
                tensors.append(tensor)
        super().__init__(tensors, device=device, **attributes, **given)
        self.preparing: Preparing | None = None
        """Known once there is a plan."""

    @staticmethod
    def problem(kind: Callable[..., _Convolution], given: Mapping[str, Any]) -> _Convolution:
        """The convolution that arguments by TT-NN's names ask for."""
        sizes = ("batch_size", "input_height", "input_width", "in_channels", "out_channels")
        further: dict[str, Any] = {}
        if "output_padding" in given:
            further["output_padding"] = pair(given["output_padding"], "output_padding")
        return _made(
            kind,
            *[given[name] for name in sizes],
            pair(given["kernel_size"], "kernel_size"),
            pair(given["stride"], "stride"),
            four_paddings(given["padding"]),
            pair(given["dilation"], "dilation"),
            given["groups"],
            **further,
        )

    def settle(self, plan: Plan) -> None:
        """See from the plan how the weights are to stand, and what is not prepared yet."""
        step = multiplying_step(plan.steps)
        layout = _layout_of(step)
        dtype = self.attributes["settings"].weights_dtype
        prepares = []
        for name, rule in (("weight", is_prepared), ("bias", is_prepared_bias)):
            operand = self.attributes[name]
            on_card = isinstance(operand, int)
            if operand is not None and not (on_card and rule(self.tensors[operand].spec, layout.out_channels, dtype)):
                prepares.append(name)
        self.preparing = Preparing(layout, tuple(prepares), step)

    def values(self, device: MeshDevice) -> list[dict[str, Values]]:
        """The host tensors' logical values for each chip."""
        chips: list[dict[str, Values]] = [{} for _ in range(device.chips)]
        for name, values in self.host.items():
            shape = self.attributes[name].spec.shape
            for chip, value in zip(chips, values_on(device, values), strict=True):
                chip[name] = device.engine.upload(unpad(value, shape))
        return chips


@lru_cache(maxsize=4096)
def _made(kind: Callable[..., _Convolution], *numbers: Any, **further: Any) -> _Convolution:
    """The same convolution is the same object: it knows its sizes already, and its hash."""
    return kind(*numbers, **further)


def pair(values: Sequence[int], name: str) -> Pair:
    numbers = tuple(whole(v, name) for v in values)
    if len(numbers) != 2:
        raise TypeError(f"{name} is {numbers}; it takes two numbers (height, width)")
    return numbers


def _layout_of(step: Step) -> WeightLayout:
    """The form of the weights that a convolution (the first of its slices) or a matmul reads."""
    program = step.program
    assert isinstance(program, ConvProgram | MatmulProgram) and program.weights is not None
    return program.weights


def values_of_call(
    context: Context,
    preparing: Preparing,
    values: tuple[Values, ...],
    host: Mapping[str, Values],
    attributes: Mapping[str, Any],
) -> list[Values]:
    """The output, and the weights and bias where the call prepares them."""
    conv: Convolution = attributes["conv"]

    def logical(name: str) -> Values:
        at = attributes[name]
        return context.logical(values[at], at) if isinstance(at, int) else host[name]

    layout, made = preparing.layout, []
    if "weight" in preparing.names:
        matrix = on_card(context.engine, prepared_weights(logical("weight"), layout), context.outputs[1].dtype)
        made.append(matrix)
    else:
        matrix = values[attributes["weight"]]
    row: Values | None = None
    if attributes["bias"] is not None:
        row = as_floats(logical("bias"))
        if "bias" in preparing.names:
            spec = context.outputs[1 + len(made)]
            made.append(on_card(context.engine, pad_to(row, spec.padded_shape), spec.dtype))
            row = made[-1]
        row = row.reshape(-1, row.shape[-1])[0, : conv.out_channels]
    weights = kept_weights(matrix, layout, conv, preparing.step)
    operands = Operands(image_of(logical("input"), conv), weights, row)
    return [convolved(context, preparing.step, operands, conv, attributes), *made]
