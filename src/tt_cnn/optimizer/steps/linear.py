# SPDX-License-Identifier: Apache-2.0
"""Linear layers: the cores that share a product, and the memory of its output.

Without a grid TT-NN takes as many cores as divide the output's tiles evenly, often few; on a grid of one's choice it
also adds the bias within the product. Products of few rows are quickest from width shards. Values are the same but for
the order in which products are added up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder.linear_configuration import LinearConfiguration
from tt_cnn.builder.overrides import LayerSettings
from tt_cnn.optimizer.alike import groups_of_alike, listed
from tt_cnn.optimizer.search import Candidate, Search
from tt_cnn.optimizer.steps.base import OptimizationStep, register_step
from tt_cnn.optimizer.words import described


@register_step
class LinearStep(OptimizationStep):
    name = "linear"
    may_change = "grids of cores of linear layers, shards of their inputs, L1 or DRAM for their outputs"

    def run(self, search: Search) -> None:
        layers = search.layers(LinearConfiguration)
        grid = search.card.grid
        if not layers:
            return
        everywhere: LayerSettings = {"core_grid": ttnn.CoreGrid(x=grid[0], y=grid[1]), "memory_config": _L1}
        words = f"all linear layers: {described(everywhere)}"
        search.attempt(self.name, Candidate(dict.fromkeys(layers, everywhere), words))
        groups = groups_of_alike(search, layers)
        search.attempt_in_turn(self.name, [partial(_on_other_grids, search, group) for group in groups])


def _on_other_grids(search: Search, group: Sequence[str]) -> Iterator[Candidate]:
    now = search.configuration(group[0])
    assert isinstance(now, LinearConfiguration)
    for settings in _others(now, search.card.grid):
        yield Candidate(dict.fromkeys(group, settings), f"{listed(group)}: {described(settings)}")


_L1 = ttnn.L1_MEMORY_CONFIG
TILE = 32


def _others(configuration: LinearConfiguration, grid: tuple[int, int]) -> Iterator[LayerSettings]:
    """Settings unlike the present ones."""
    present = _key(configuration.core_grid, configuration.memory_config, configuration.input_memory_config)
    for core_grid, memory, given in (*_interleaved(grid), *_from_width_shards(configuration.in_features, grid)):
        if _key(core_grid, memory, given) != present:
            yield {"core_grid": core_grid, "memory_config": memory, "input_memory_config": given}


def _key(core_grid: Any, memory: Any, given: Any) -> Any:
    """Equal grids are not equal in TT-NN."""
    return None if core_grid is None else (core_grid.x, core_grid.y), memory, given


def _interleaved(grid: tuple[int, int]) -> Iterator[tuple[Any, Any, Any]]:
    """The whole grid and parts of it, or TT-NN's choice, for outputs in either memory."""
    columns, rows = grid
    parts = [None, (columns, rows), (columns, rows // 2), (columns // 2, rows), (columns, 1), (1, rows)]
    for part in parts:
        core_grid = None if part is None else ttnn.CoreGrid(x=part[0], y=part[1])
        yield core_grid, None, None
        yield core_grid, _L1, None


def _from_width_shards(features: int, grid: tuple[int, int]) -> Iterator[tuple[Any, Any, Any]]:
    """Inputs of up to a tile of rows, a run of whole tiles on each core; with more rows the card refuses them."""
    columns, rows = grid
    tiles = features // TILE
    if features % TILE:
        return
    for y in range(1, rows + 1):
        for x in (columns, columns // 2 + 1, columns // 2):
            if tiles % (x * y) == 0:
                core_grid = ttnn.CoreGrid(x=x, y=y)
                shards = ttnn.create_sharded_memory_config(
                    (TILE, features // (x * y)),
                    core_grid=core_grid,
                    strategy=ttnn.ShardStrategy.WIDTH,
                    use_height_and_width_as_shard_shape=True,
                )
                yield core_grid, ttnn.L1_WIDTH_SHARDED_MEMORY_CONFIG, shards
