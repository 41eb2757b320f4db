# SPDX-License-Identifier: Apache-2.0
"""Rules about several layers of a model: each proposes settings, and the whole model is planned with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder.advice import strategy_of
from tt_cnn.builder.conv2d_configuration import Conv2dConfiguration
from tt_cnn.builder.overrides import LayerSettings
from tt_cnn.builder.placement_configuration import PlacementConfiguration
from tt_cnn.builder.slicing import HeightSliceStrategyConfiguration, WidthSliceStrategyConfiguration
from tt_cnn.reports.records import Profile, Row
from tt_cnn.reports.replanning import BUSY

_LAYOUTS = (ttnn.TensorMemoryLayout.BLOCK_SHARDED, ttnn.TensorMemoryLayout.WIDTH_SHARDED)


@dataclass(frozen=True)
class Proposal:
    """Settings of several layers at once."""

    kind: str
    """That of the finding it becomes (`tt_cnn.reports.findings.KINDS`)."""
    where: str
    problem: str
    advice: str
    changes: Mapping[str, LayerSettings]
    rows: tuple[int, ...]
    partial: bool = False
    """A part of it is worth telling too, where all of it is not taken."""


def proposals(profile: Profile) -> Iterator[list[Proposal]]:
    """Lists of ways to choose from: the best of each is reported."""
    yield from _stages(profile)
    yield _out_of_dram(profile)


# --- stages on few cores ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Convolution:
    layer: str
    pixels: int
    """Of its output: those of one stage have as many."""
    row: Row


def _convolutions(profile: Profile) -> list[_Convolution]:
    """In the order of their calls."""
    found: dict[str, _Convolution] = {}
    for row in profile.rows:
        configuration = profile.configurations.get(row.layer)
        if isinstance(configuration, Conv2dConfiguration) and row.op in ("Conv2d", "Matmul"):
            height, width = configuration.output_size
            found.setdefault(row.layer, _Convolution(row.layer, configuration.batch_size * height * width, row))
    return list(found.values())


def _stages(profile: Profile) -> Iterator[list[Proposal]]:
    """Neighbours that all run on few cores, in one sharding: reshards are left at the borders alone."""
    few = groupby(_convolutions(profile), lambda one: one.row.working_cores < BUSY * one.row.available_cores)
    for is_few, members in few:
        run = list(members)
        if not is_few or len(run) < 2:
            continue
        stages = [list(stage) for _, stage in groupby(run, lambda one: one.pixels)]
        parts = [list(chain(*stages[first:])) for first in range(len(stages))]
        parts += [stage for stage in stages[:-1] if len(stage) > 1]
        yield [_spread(part, layout) for part in parts for layout in _LAYOUTS]


def _spread(part: list[_Convolution], layout: Any) -> Proposal:
    cores = sorted({one.row.working_cores for one in part})
    pixels = sorted({one.pixels for one in part})
    strategy = strategy_of(layout, reshard_if_not_optimal=True)
    name = layout.name.lower().removesuffix("_sharded")
    return Proposal(
        "few cores",
        f"{part[0].layer} to {part[-1].layer}" if len(part) > 1 else part[0].layer,
        f"run on {_range(cores)} of {part[0].row.available_cores} cores: {len(part)} convolutions of "
        f"{_range(pixels)} pixels",
        f"{name} sharding for all of them",
        {one.layer: {"sharding_strategy": strategy} for one in part},
        tuple(one.row.index for one in part),
    )


def _range(values: list[int]) -> str:
    return str(values[0]) if len(values) == 1 else f"{values[0]} to {values[-1]}"


# --- everything out of DRAM -------------------------------------------------------------------------------------------


def _out_of_dram(profile: Profile) -> list[Proposal]:
    """Tensors that the model puts into DRAM, and layers that it cuts up: all of them into L1."""
    placed: dict[str, LayerSettings] = {}
    cut: dict[str, LayerSettings] = {}
    for name, configuration in profile.configurations.items():
        if isinstance(configuration, PlacementConfiguration):
            where = configuration.memory_config
            if where is not None and where.buffer_type == ttnn.BufferType.DRAM:
                placed[name] = {"memory_config": None}
        elif isinstance(configuration, Conv2dConfiguration) and isinstance(
            configuration.slice_strategy, (HeightSliceStrategyConfiguration, WidthSliceStrategyConfiguration)
        ):
            cut[name] = {"slice_strategy": None}
    rows = tuple(row.index for row in profile.rows if row.layer in placed or row.layer in cut)
    size = len(placed) + len(cut)
    if not size:
        return []
    where = f"{size} of {len(profile.configurations)} layers" if size > 1 else next(iter({**placed, **cut}))
    stays = "leave tensors where they are" if placed else "leave their slices out"
    ways: dict[str, Mapping[str, LayerSettings]] = {
        stays: {**placed, **cut},
        "put tensors into interleaved L1": {name: {"memory_config": _L1} for name in placed},
    }
    return [
        Proposal("DRAM", where, "keep tensors in DRAM that fit into L1", advice, changes, rows, partial=True)
        for advice, changes in ways.items()
        if changes
    ]


_L1 = ttnn.L1_MEMORY_CONFIG
