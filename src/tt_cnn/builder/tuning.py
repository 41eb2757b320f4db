# SPDX-License-Identifier: Apache-2.0
"""One convolution planned with every strategy that makes sense for its input; the fastest that fits is taken.

On a virtual card that is the card's own memory as the input finds it. With the real TT-NN it is a virtual card of the
same architecture that holds the input and nothing else: what else is in L1 there is not known.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import tt_cnn.virtual.ttnn  # noqa: F401  it registers all operations
from tt_cnn.builder.convolution_configuration import ConvolutionConfiguration
from tt_cnn.builder.lowering import to_compute_config, to_conv2d_config, to_slice_config
from tt_cnn.builder.sharding import AutoShardedStrategyConfiguration, ShardedStrategyConfiguration
from tt_cnn.builder.strategy_candidates import strategies, with_blocks
from tt_cnn.virtual.arch import Card, card_by_name
from tt_cnn.virtual.cost.kernel import kernel_cost
from tt_cnn.virtual.devices.device import MeshDevice
from tt_cnn.virtual.memory.memory import Memory
from tt_cnn.virtual.memory.shard_grid import check_shard_grid
from tt_cnn.virtual.ops.conv2d.config import Settings
from tt_cnn.virtual.ops.conv2d.conv2d import ComputeChoice
from tt_cnn.virtual.ops.conv2d.operands import ConvolutionCall
from tt_cnn.virtual.ops.conv2d.problem import Convolution, HostOperand
from tt_cnn.virtual.ops.conv_transpose2d.problem import TransposedConvolution
from tt_cnn.virtual.ops.operation import OPERATIONS, plan_call
from tt_cnn.virtual.ops.sliding_window.slice_config import SliceTypeEnum, Slicing
from tt_cnn.virtual.planning.placement import Place, ProgramIds, place
from tt_cnn.virtual.planning.plan import Allocate, FreeMemory
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import DataType, Layout, MathFidelity, PaddingMode, TensorMemoryLayout
from tt_cnn.virtual.types.geometry import CoreRange, CoreRangeSet, Shape
from tt_cnn.virtual.types.memory_config import DRAM_MEMORY_CONFIG, MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec
from tt_cnn.virtual.types.unary import UnaryOpType

_CARDS = {"WORMHOLE_B0": "n150", "BLACKHOLE": "p150"}
"""For the grid of a real device, by its architecture."""
_ENUMERATIONS: dict[str, Any] = {
    kind.__name__: kind for kind in (DataType, Layout, MathFidelity, PaddingMode, TensorMemoryLayout, UnaryOpType)
}


def tuned_strategy(
    configuration: ConvolutionConfiguration, operation: str, device: Any, x: Any
) -> ShardedStrategyConfiguration:
    """The fastest strategy for this input; TT-NN's own choice where none fits, so that its error is seen."""
    bench = _Bench(configuration, operation, device, x)
    best: tuple[float, ShardedStrategyConfiguration] = float("inf"), AutoShardedStrategyConfiguration()
    for strategy in strategies_for(configuration, bench.card.grid):
        ns = bench.time(strategy)
        if ns is not None and ns < best[0]:
            best = ns, strategy
    return best[1]


def strategies_for(
    configuration: ConvolutionConfiguration, grid: tuple[int, int]
) -> Iterator[ShardedStrategyConfiguration]:
    """All that are tried: TT-NN's own choice, and every layout with every block."""
    yield AutoShardedStrategyConfiguration()
    for strategy in strategies(configuration, grid):
        yield from with_blocks(configuration, strategy, grid)


class _Bench:
    """A card, its memory, and an input in it."""

    def __init__(self, configuration: ConvolutionConfiguration, operation: str, device: Any, x: Any) -> None:
        self.configuration, self.operation, self.device = configuration, operation, device
        self.card, self.memory = _card_and_memory(device)
        self.spec = x.spec if isinstance(x, Tensor) else _spec(x)
        self.place = self._place(x)
        """None where the input is on the host."""

    def time(self, strategy: ShardedStrategyConfiguration) -> float | None:
        """Kernels of the call in ns; None where the card refuses it."""
        attributes = self._attributes(strategy)
        on_card = self.place is not None
        specs, inputs = ([self.spec], {0: self.place}) if self.place is not None else ([], {})
        attributes["input"] = 0 if on_card else HostOperand(self.spec)
        memory = self.memory.copy()
        try:
            plan = plan_call(
                self.card, OPERATIONS[self.operation], specs, range(len(specs)), attributes, FreeMemory.of(memory)
            )
            for action in plan.actions:
                if isinstance(action, Allocate):
                    check_shard_grid(self.card, action.slot.spec)
            placed = place(plan, memory, inputs, (), ProgramIds())
        except RuntimeError:  # TT-NN's refusals, also of grids that no card has
            return None
        return sum(kernel_cost(one.step, self.card).ns for one in placed.steps)

    def _place(self, x: Any) -> Place | None:
        if isinstance(x, Tensor):
            return None if x._buffer is None else x._buffer.place
        if not _is_on_device(x):
            return None
        need = self.memory.footprint(self.spec)
        return Place(need.buffer_type, self.memory.allocate(need), need.bank_bytes)

    def _attributes(self, strategy: ShardedStrategyConfiguration) -> dict[str, Any]:
        """Of the call, as the op makes them of its arguments."""
        config = replace(self.configuration, sharding_strategy=strategy)
        sizes = ("in_channels", "out_channels", "batch_size", "input_height", "input_width")
        window = ("kernel_size", "stride", "padding", "dilation", "groups")
        given = {name: getattr(config, name) for name in (*sizes, *window)}
        kind: type[Convolution] = Convolution
        if self.operation == "conv_transpose2d":
            kind = TransposedConvolution
            given["output_padding"] = config.output_padding  # type: ignore[attr-defined]
        compute = to_compute_config(config, self.device)
        slicing = to_slice_config(config.slice_strategy)
        return {
            "conv": ConvolutionCall.problem(kind, given),
            "settings": _settings(to_conv2d_config(config)),
            "compute": ComputeChoice(
                native(compute.math_fidelity),
                compute.math_approx_mode,
                compute.fp32_dest_acc_en,
                compute.packer_l1_acc,
            ),
            "dtype": native(config.output_dtype),
            "memory_config": None,
            "slicing": None
            if slicing is None
            else Slicing(getattr(SliceTypeEnum, slicing.slice_type.name), slicing.num_slices),
            "weight": _on_host(config.weight_shape),
            "bias": None if config.bias is None else _on_host((1, 1, 1, config.out_channels)),
        }


def _card_and_memory(device: Any) -> tuple[Card, Memory]:
    if isinstance(device, MeshDevice):
        return device.card, device.memory
    grid = device.compute_with_storage_grid_size()
    card = card_by_name(f"{_CARDS[device.arch().name]}-{grid.x}x{grid.y}")
    return card, Memory(card, l1_small_size=card.l1_size // 16)


def _spec(x: Any) -> Spec:
    """Of a tensor of the real TT-NN."""
    memory = MemoryConfig.from_json(x.memory_config().to_json()) if _is_on_device(x) else DRAM_MEMORY_CONFIG
    return Spec(Shape(tuple(x.shape)), native(x.dtype), native(x.layout), memory)


def _is_on_device(x: Any) -> bool:
    return bool(x.storage_type().name == "DEVICE")


def _settings(config: Any) -> Settings:
    """A `Conv2dConfig` of either TT-NN as planning knows it."""
    return Settings().but(**{field.name: native(getattr(config, field.name)) for field in fields(Settings)})


def native(value: Any) -> Any:
    """A value of either TT-NN as the virtual card has it."""
    kind = type(value).__name__
    if kind in _ENUMERATIONS:
        member = getattr(_ENUMERATIONS[kind], value.name)
        return (member, ()) if kind == "UnaryOpType" else member
    if kind == "UnaryWithParam":
        return getattr(UnaryOpType, value.op_type.name), tuple(value.params)
    if kind == "CoreRangeSet":
        return CoreRangeSet([CoreRange((r.start.x, r.start.y), (r.end.x, r.end.y)) for r in value.ranges()])
    return value


def _on_host(shape: tuple[int, ...]) -> HostOperand:
    return HostOperand(Spec(Shape(shape), DataType.FLOAT32, Layout.ROW_MAJOR))
