"""`group_norm` of (N, 1, H*W, C) tensors, and the helpers that lay out its masks and weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.numerics.accumulation import average
from tt_cnn.virtual.ops.compute_program import ComputeProgram
from tt_cnn.virtual.ops.matmul.problem import Compute
from tt_cnn.virtual.ops.normalization.time import GroupShare, group_norm_cycles
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.planning.program import Step
from tt_cnn.virtual.tensors.conversion import as_stored, from_torch
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, CoreRange, CoreRangeSet, div_up
from tt_cnn.virtual.types.memory_config import DRAM_MEMORY_CONFIG, MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

_MOST_ELEMENTS = 2**26
"""Of a mask: far beyond any network's, and small enough to be made at once."""
_READS = 3
"""Of interleaved tensors: for the mean, for the variance, for the result."""


@dataclass(frozen=True, kw_only=True)
class GroupNormProgram(ComputeProgram):
    op: str = "GroupNorm"
    groups: int
    epsilon: float
    out_blocks: int | None
    by_welford: bool
    given: tuple[str, ...]
    """Which tensors come after the input."""

    def time(self, step: Step, figures: Figures) -> Cycles:
        scaled = sum(name in self.given for name in ("weight", "bias"))
        reads = 0 if step.inputs[0].spec.is_sharded else _READS
        return group_norm_cycles(step, figures, self.compute, self._share(step), scaled, reads)

    def _share(self, step: Step) -> GroupShare:
        """Cores of a row of the grid (or of a shard's row) have the channels, those of a column the pixels."""
        x = step.inputs[0].spec
        batch, _, pixels, channels = x.padded_shape
        if x.is_sharded:
            height, width = x.shard.shape
        else:
            box = step.cores.bounding_box().grid_size()
            columns = next(n for n in range(box.x, 0, -1) if channels % (n * TILE_SIZE) == 0 and self.groups % n == 0)
            height, width = div_up(batch * pixels * columns, step.cores.num_cores()), channels // columns
        columns = max(1, channels // max(1, width))
        images = max(1, height // max(1, pixels))
        rows = div_up(height, TILE_SIZE)
        return GroupShare(
            height=div_up(rows, images),
            tiles=rows * div_up(width, TILE_SIZE),
            across=_mask_tiles(channels // self.groups),
            groups=images * div_up(self.groups, columns),
            members=max(1, div_up(pixels, max(1, height))),
        )


@op("group_norm")
class GroupNorm(Operation):
    """Groups of channels with mean 0 and variance 1, scaled and shifted.

    Its programs have more variants than are modelled: cores and buffers of the step are not the library's.
    """

    def arguments(
        self,
        input_tensor: Tensor,
        *,
        num_groups: int,
        epsilon: float = 1e-12,
        input_mask: Tensor | None = None,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        memory_config: Any = None,
        dtype: Any = None,
        core_grid: Any = None,
        inplace: bool | None = True,
        output_layout: Any = None,
        num_out_blocks: int | None = None,
        compute_kernel_config: Any = None,
        negative_mask: Tensor | None = None,
        use_welford: bool = False,
    ) -> Call:
        named = {"weight": weight, "bias": bias, "mask": input_mask, "negative_mask": negative_mask}
        given = {name: tensor for name, tensor in named.items() if tensor is not None}
        return Call(
            [input_tensor, *given.values()],
            has=tuple(given),
            groups=num_groups,
            epsilon=as_stored(epsilon, DataType.FLOAT32),
            memory_config=memory_config,
            dtype=dtype,
            layout=output_layout,
            core_grid=None if core_grid is None else (core_grid.x, core_grid.y),
            in_place=True if inplace is None else inplace,
            out_blocks=num_out_blocks,
            compute=None if compute_kernel_config is None else Compute.of(compute_kernel_config),
            by_welford=use_welford,
        )

    def plan(
        self,
        planner: Planner,
        x: Slot,
        *others: Slot,
        has: tuple[str, ...],
        groups: int,
        epsilon: float,
        memory_config: MemoryConfig | None,
        dtype: DataType | None,
        layout: Layout | None,
        core_grid: tuple[int, int] | None,
        in_place: bool,
        out_blocks: int | None,
        compute: Compute | None,
        by_welford: bool,
    ) -> list[Slot]:
        spec = x.spec
        fatal(len(spec.shape) == 4, f"group_norm takes a tensor of 4 dimensions, got {len(spec.shape)}")
        fatal(spec.shape[1] == 1, "input tensor shape[1] must be 1!")
        fatal(groups > 0, f"num_groups must be greater than 0, got {groups}")
        channels = spec.shape[-1]
        fatal(
            channels % groups == 0,
            f"channel must be divisible by num_groups (got {channels} and {groups})",
        )
        fatal(channels % TILE_SIZE == 0, f"channels ({channels}) must be a multiple of the tile width")
        for name, slot in zip(has, others, strict=True):
            _check_parameter(name, slot.spec, channels)
        _check_way(spec, in_place, "negative_mask" in has)
        config = memory_config or (spec.memory_config if in_place else DRAM_MEMORY_CONFIG)
        fatal(not spec.is_sharded or config.is_l1(), "Only L1 buffers can have an associated circular buffer!")
        wanted = spec.with_(dtype=dtype or spec.dtype, layout=layout or spec.layout, memory_config=config)
        out = x if in_place and wanted == spec else planner.allocate(wanted)
        if spec.is_sharded:
            cores, factory = spec.shard.grid, "GroupNormShardedProgramFactory"
        else:
            width, height = core_grid or planner.card.grid
            cores = CoreRangeSet([CoreRange((0, 0), (width - 1, height - 1))])
            factory = "GroupNormMcastProgramFactory"
        program = GroupNormProgram(
            factory=factory,
            cores=cores,
            compute=compute,
            groups=groups,
            epsilon=epsilon,
            out_blocks=out_blocks,
            by_welford=by_welford,
            given=has,
        )
        planner.dispatch(program, [x, *others], [out])
        return [out]

    def numbers(
        self,
        context: Context,
        x: torch.Tensor,
        *others: torch.Tensor,
        has: tuple[str, ...],
        groups: int,
        epsilon: float,
        **_: Any,
    ) -> list[torch.Tensor]:
        """In float32, rounded once; the kernels' own steps (by Welford or not, in how many blocks, in which registers)
        are not followed. Masks pick the channels of a group out of its tiles, which happens here anyway."""
        value = context.logical(x)
        batch, rows, channels = value.shape[0], value.shape[2], value.shape[3]
        grouped = value.reshape(batch, rows, groups, channels // groups)
        mean = _average(context, grouped)
        variance = _average(context, (grouped - mean).square())
        result = ((grouped - mean) * torch.rsqrt(variance + epsilon)).reshape(value.shape)
        named = dict(zip(has, others, strict=True))
        if "weight" in named:
            result = result * named["weight"].reshape(-1)[:channels]
        if "bias" in named:
            result = result + named["bias"].reshape(-1)[:channels]
        return [context.store(result)]


def _check_parameter(name: str, spec: Spec, channels: int) -> None:
    side = {"weight": "Gamma", "bias": "Beta"}.get(name)
    if side is None:
        return  # a mask
    fatal(
        spec.dtype in (DataType.BFLOAT16, DataType.FLOAT32),
        f"{side} tensor must be BFLOAT16 or FLOAT32, got: {spec.dtype.native}",
    )
    fatal(spec.volume >= channels, f"{side} tensor has {spec.volume} elements for {channels} channels")


def _check_way(spec: Spec, in_place: bool, negative_mask: bool) -> None:
    fatal(
        not in_place or spec.layout is Layout.ROW_MAJOR,
        "In-place operation not supported: Tile layout requires non-inplace tensors. (inplace=true)",
        "  pass inplace=False",
    )
    fatal(not negative_mask or spec.is_sharded, "Negative mask support is only available for sharded input tensors.")


def _average(context: Context, grouped: torch.Tensor) -> torch.Tensor:
    if context.engine.numerics == "native":
        return grouped.mean((1, 3), keepdim=True)
    return average(grouped, (1, 3))


def create_group_norm_weight_bias_rm(
    input_tensor: torch.Tensor, num_channels: int, num_cores_x: int = 1
) -> torch.Tensor:
    """A vector of channels as (1, 1, tiles, 32): each core's channels padded to whole tiles."""
    fatal(num_cores_x > 0, f"num_cores_x ({num_cores_x}) must be greater than 0")
    fatal(
        num_channels % num_cores_x == 0,
        f"num_channels ({num_channels}) must be divisible by num_cores_x ({num_cores_x})",
    )
    fatal(
        input_tensor.numel() == num_channels,
        f"the tensor has {input_tensor.numel()} elements for {num_channels} channels",
    )
    share = num_channels // num_cores_x
    padded = div_up(share, TILE_SIZE) * TILE_SIZE
    rows = torch.nn.functional.pad(input_tensor.reshape(num_cores_x, share), (0, padded - share))
    return rows.reshape(1, 1, -1, TILE_SIZE)


def create_group_norm_input_mask(
    num_channel: int, num_groups: int, num_cores_across_channel: int, dtype: DataType = DataType.BFLOAT16
) -> Tensor | None:
    """For each group ones over its channels, within the tiles that the group touches: (1, groups, 32, width)."""
    for name, number in (("num_groups", num_groups), ("num_cores_across_channel", num_cores_across_channel)):
        fatal(number > 0, f"{name} ({number}) must be greater than 0")
    fatal(num_channel >= 0, f"num_channel ({num_channel}) must be 0 or more")
    per_group = num_channel // num_groups
    width = _mask_tiles(per_group) * TILE_SIZE
    fatal(
        num_groups * TILE_SIZE * width <= _MOST_ELEMENTS,
        f"the mask of {num_groups} groups of {per_group} channels would have {num_groups * TILE_SIZE * width} elements",
    )
    mask = torch.zeros(1, num_groups, TILE_SIZE, width)
    groups_a_core = max(1, num_groups // num_cores_across_channel)
    for group in range(num_groups):
        start = group % groups_a_core * per_group % TILE_SIZE
        mask[0, group, :, start : start + per_group] = 1.0
    return from_torch(mask, dtype, layout=Layout.TILE)


def _mask_tiles(per_group: int) -> int:
    """Tiles that a group can touch, wherever in a tile it starts."""
    start, most = 0, 0
    for _ in range(TILE_SIZE):
        most = max(most, div_up(start + per_group, TILE_SIZE))
        start = (start + per_group) % TILE_SIZE
    return most
