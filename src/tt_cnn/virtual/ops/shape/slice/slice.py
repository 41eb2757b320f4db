# SPDX-License-Identifier: Apache-2.0
"""ttnn.slice, and `tensor[...]`: a box of a tensor, moved through other layouts and memories where needed."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.layout.copy import plan_copy
from tt_cnn.virtual.ops.layout.to_layout import plan_to_layout
from tt_cnn.virtual.ops.layout.to_memory_config import plan_to_memory_config
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.ops.shape.pad.fill_padding import plan_fill_padding
from tt_cnn.virtual.ops.shape.programs import Temporaries, as_ints
from tt_cnn.virtual.ops.shape.reshape.viewing import plan_view
from tt_cnn.virtual.ops.shape.shards import L1_INTERLEAVED, derived, lacks_shards
from tt_cnn.virtual.ops.shape.slice.program import Box, plan_slice_device
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import BLOCK, HEIGHT, WIDTH, DataType, Layout, ShardOrientation
from tt_cnn.virtual.types.geometry import TILE_SIZE, CoreRangeSet, Shape, div_up, round_up
from tt_cnn.virtual.types.memory_config import MemoryConfig, ShardSpec
from tt_cnn.virtual.types.tensor_spec import Spec


def plan_slice(
    planner: Planner,
    x: Slot,
    begins: Sequence[int],
    ends: Sequence[int],
    steps: Sequence[int],
    config: MemoryConfig | None = None,
    out: Slot | None = None,
    pad_value: float | None = None,
) -> Slot:
    spec = x.spec
    rank = len(spec.shape)
    if rank == 0:
        return x
    fatal(rank == len(begins), f"Input rank {rank} and begins {len(begins)} must have the same size")
    fatal(len(begins) == len(ends), f"Start {len(begins)} and end {len(ends)} must have the same size")
    fatal(
        len(steps) == len(begins),
        f"Step {len(steps)} must have the same size as start {len(begins)} and end",
    )
    return _Slicing(planner, x, begins, ends, steps, config, out, pad_value).plan()


class _Slicing:
    """One call of slice: what was asked, and the ways that it can go."""

    def __init__(
        self,
        planner: Planner,
        x: Slot,
        begins: Sequence[int],
        ends: Sequence[int],
        steps: Sequence[int],
        config: MemoryConfig | None,
        out: Slot | None,
        pad_value: float | None,
    ) -> None:
        self.planner = planner
        self.x = x
        self.asked = (tuple(begins), tuple(ends), tuple(steps))
        self.given = config
        self.out = out
        self.pad_value = pad_value
        spec = x.spec
        self.box = Box(
            tuple(_wrapped(b, d) for b, d in zip(begins, spec.shape, strict=True)),
            tuple(_wrapped(e, d) for e, d in zip(ends, spec.shape, strict=True)),
            tuple(steps),
        )
        if out is not None:
            self.config = out.spec.memory_config
        else:
            self.config = config or spec.memory_config
        self.target = self.config
        self.scope = Temporaries(planner)

    def plan(self) -> Slot:
        result = self._plan()
        if self.out is not None and result.buffer != self.out.buffer:
            self.scope.add(result)
            result = plan_copy(self.planner, result, self.out.spec.memory_config, self.out.spec.dtype, self.out)
        self.scope.leave(result)
        return result

    def _plan(self) -> Slot:
        begins, ends, steps = self.asked
        spec = self.x.spec
        whole = all(s == 1 for s in steps) and all(b == 0 for b in begins) and tuple(ends) == tuple(spec.shape)
        if whole:
            return self._finished(self.x)
        row_major = self._needs_rows()
        if self.given is None and self.out is None and spec.is_sharded and len(spec.shape) >= 2:
            self.target = self._fitted(row_major)
        unshards = _unshards_rows(self.planner, spec, self.target, self.box, begins[-1] != 0)
        if unshards or _splits_rows(self.planner, spec, self.target) or _reshards(spec, self.target):
            return self._through_l1(unshards)
        return self._direct(row_major)

    def _needs_rows(self) -> bool:
        """Steps, vectors, and boxes that begin inside a tile are cut out of row-major rows."""
        begins = self.box.begins
        inside = len(begins) > 1 and (begins[-1] % TILE_SIZE != 0 or begins[-2] % TILE_SIZE != 0)
        return self.x.spec.layout is not Layout.TILE or self.box.stepped or len(begins) == 1 or inside

    def _fitted(self, row_major: bool) -> MemoryConfig:
        """The input's shards made to hold the smaller tensor on the same cores."""
        dims = list(self.box.shape)
        unit = 1
        if not row_major:
            unit = TILE_SIZE
            dims[-2:] = [max(round_up(d, TILE_SIZE), TILE_SIZE) for d in dims[-2:]]
        rows, columns = prod(dims[:-1]), dims[-1]
        shard = self.x.spec.shard
        layout = self.target.memory_layout

        def share(extent: int, cores: int) -> int:
            return max(round_up(div_up(extent, cores), unit), unit) if unit > 1 else div_up(extent, cores)

        if layout is HEIGHT:
            shape = [share(rows, shard.num_cores()), columns]
        elif layout is WIDTH:
            shape = [rows, share(columns, shard.num_cores())]
        else:
            size = shard.grid.bounding_box().grid_size()
            fatal(
                shard.num_cores() == size.x * size.y,
                f"BLOCK_SHARDED grid must be a full rectangle; got {shard.num_cores()} cores for {size.y}x{size.x} "
                "bounding box",
            )
            shape = [share(rows, size.y), share(columns, size.x)]
        return self.target.with_shard_spec(ShardSpec(shard.grid, shape, shard.orientation))

    def _resolved(self, source: Spec, orientation: ShardOrientation | None = None) -> MemoryConfig:
        """The output's memory, with shards where only a layout was given."""
        if not lacks_shards(self.target):
            return self.target
        own = source.memory_config
        if own.memory_layout is self.target.memory_layout and own.shard_spec is not None:
            return self.target.with_shard_spec(own.shard_spec)
        made = derived(self.planner.card, source, source.padded_shape, self.target.memory_layout, orientation)
        return self.target.with_shard_spec(made)

    def _lands_in(self, source: Slot, viewed: bool = False) -> Slot | None:
        """The preallocated output, where a step can write to it.

        The library does not see that a view of the output is the output, and copies it onto itself.
        """
        if self.out is None or source.spec.layout is not self.out.spec.layout:
            return None
        return None if source.buffer == self.out.buffer and not viewed else self.out

    def _finished(self, source: Slot, viewed: bool = False) -> Slot:
        config = self._resolved(source.spec)
        moved = self.scope.add(plan_to_memory_config(self.planner, source, config, out=self._lands_in(source, viewed)))
        return self.scope.add(plan_to_layout(self.planner, moved, self.x.spec.layout, None, None))

    def _through_l1(self, unshards: bool) -> Slot:
        spec = self.x.spec
        orientation = spec.shard.orientation if spec.memory_config.shard_spec is not None else None
        source = self.x
        if unshards:
            source = self.scope.add(plan_to_memory_config(self.planner, source, L1_INTERLEAVED))
        begins, ends, steps = self.asked
        sliced = self.scope.add(
            plan_slice(self.planner, source, begins, ends, steps, L1_INTERLEAVED, None, self.pad_value)
        )
        config = self._resolved(sliced.spec, orientation)
        if sliced.spec.memory_config == config:
            return sliced
        return self.scope.add(plan_to_memory_config(self.planner, sliced, config, out=self._lands_in(sliced)))

    def _direct(self, row_major: bool) -> Slot:
        planner, box, spec = self.planner, self.box, self.x.spec
        source = self.x
        if row_major:
            fatal(
                not box.stepped or spec.dtype is not DataType.BFLOAT8_B,
                "Strided slice is not supported for BFLOAT8 tensors",
            )
            source = self.scope.add(plan_to_layout(planner, source, Layout.ROW_MAJOR, None, self.config))
        ends = list(box.ends)
        if source.spec.layout is Layout.TILE:
            ends[-2:] = [max(round_up(e, TILE_SIZE), TILE_SIZE) for e in ends[-2:]]
        for begin, end in zip(box.begins, box.ends, strict=True):
            fatal(end >= begin, f"End {end} must be greater than or equal to start {begin}")
        actual = box.shape
        if 0 in actual:
            if self.out is not None:
                return self.out
            return planner.allocate(Spec(actual, spec.dtype, spec.layout, self.given or spec.memory_config))
        padded = Shape([max(d, 1) for d in Box(box.begins, tuple(ends), box.steps).shape])
        aligned = Box(box.begins, tuple(ends), box.steps)
        result = self.scope.add(plan_slice_device(planner, source, aligned, self.target, self._lands_in(source)))
        result = plan_view(planner, result, actual, padded)
        if self.pad_value is not None and _needs_fill(spec.shape, actual, padded):
            result = self.scope.add(plan_fill_padding(planner, result, self.pad_value))
        return self._finished(result, viewed=True)


def _wrapped(index: int, extent: int) -> int:
    return index + extent if index < 0 else index


def _needs_fill(before: Shape, actual: Shape, padded: Shape) -> bool:
    return any(actual[-i] != padded[-i] and before[-i] != actual[-i] for i in (1, 2) if i <= len(actual))


def _scattered(config: MemoryConfig) -> bool:
    return config.memory_layout in (BLOCK, WIDTH)


def _broken_rows(planner: Planner, config: MemoryConfig, element: int) -> bool:
    """Rows of its shards are not whole memory words."""
    shard = config.shard_spec
    word = planner.card.dram_alignment if config.is_dram() else planner.card.l1_alignment
    return shard is not None and shard.shape[1] * element % word != 0


def _unshards_rows(planner: Planner, spec: Spec, target: MemoryConfig, box: Box, begins_inside: bool) -> bool:
    """Row-major shards that the program cannot read: TT-NN's `needs_rm_composite_input`."""
    if spec.layout is not Layout.ROW_MAJOR or not spec.is_sharded:
        return False
    ragged_width = spec.shape[-1] % TILE_SIZE != 0
    if _scattered(spec.memory_config):
        return ragged_width or begins_inside or _broken_rows(planner, spec.memory_config, spec.dtype.element_bytes)
    stays = target.shard_spec is not None and target.memory_layout is HEIGHT and not box.stepped
    ragged = len(spec.shape) >= 2 and (ragged_width or spec.shape[-2] % TILE_SIZE != 0)
    return ragged and not stays


def _splits_rows(planner: Planner, spec: Spec, target: MemoryConfig) -> bool:
    """Row-major shards that the program cannot write: TT-NN's `needs_rm_composite_output`."""
    if spec.layout is not Layout.ROW_MAJOR or not _scattered(target):
        return False
    return spec.shape[-1] % TILE_SIZE != 0 or _broken_rows(planner, target, spec.dtype.element_bytes)


def _reshards(spec: Spec, target: MemoryConfig) -> bool:
    return lacks_shards(target) and (
        not spec.is_sharded or spec.memory_config.memory_layout is not target.memory_layout
    )


@op("slice")
class Slice(Operation):
    """The elements from begins to ends, each so many steps apart."""

    freed = "Input Tensor is not allocated"

    def arguments(
        self,
        input_tensor: Tensor,
        slice_start: Sequence[int] | None = None,
        slice_end: Sequence[int] | None = None,
        slice_step: Sequence[int] | None = None,
        *,
        starts: Sequence[int] | None = None,
        ends: Sequence[int] | None = None,
        steps: Sequence[int] | None = None,
        memory_config: MemoryConfig | None = None,
        output_tensor: Tensor | None = None,
        pad_value: float | None = None,
        sub_core_grids: CoreRangeSet | None = None,
    ) -> Call:
        first, last = starts if slice_start is None else slice_start, ends if slice_end is None else slice_end
        if first is None or last is None:
            raise TypeError("ttnn.slice(): incompatible function arguments: it needs slice_start and slice_end")
        begins, stops = as_ints(first), as_ints(last)
        given = steps if slice_step is None else slice_step
        return Call(
            [input_tensor] if output_tensor is None else [input_tensor, output_tensor],
            begins=begins,
            ends=stops,
            steps=(1,) * len(begins) if given is None else as_ints(given),
            memory_config=memory_config,
            pad_value=pad_value,
            cores=sub_core_grids,
        )

    def plan(
        self, planner: Planner, *slots: Slot, memory_config: MemoryConfig | None, cores: CoreRangeSet | None, **box: Any
    ) -> list[Slot]:
        planner.workers = cores
        x, out = slots if len(slots) > 1 else (slots[0], None)
        return [plan_slice(planner, x, config=memory_config, out=out, **box)]

    def numbers(
        self,
        context: Context,
        x: torch.Tensor,
        *out: torch.Tensor,
        begins: tuple[int, ...],
        ends: tuple[int, ...],
        steps: tuple[int, ...],
        pad_value: float | None,
        **_: Any,
    ) -> list[torch.Tensor]:
        return [context.store(cut(context.logical(x), begins, ends, steps), fill=pad_value or 0.0)]


def cut(x: torch.Tensor, begins: Sequence[int], ends: Sequence[int], steps: Sequence[int]) -> torch.Tensor:
    box = zip(begins, ends, steps, x.shape, strict=True)
    return x[tuple(slice(_wrapped(b, d), _wrapped(e, d), s) for b, e, s, d in box)]
