"""Linear layers: the cores that share a product, and the memory of its output.

Without a grid TT-NN takes as many cores as divide the output's tiles evenly, often few; on a grid of one's choice it
also adds the bias within the product. Values are the same but for the order in which products are added up.
"""

from __future__ import annotations

from collections.abc import Iterator

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
    may_change = "grids of cores of linear layers, L1 or DRAM for their outputs"

    def run(self, search: Search) -> None:
        layers = search.layers(LinearConfiguration)
        grid = search.card.grid
        if not layers:
            return
        everywhere: LayerSettings = {"core_grid": ttnn.CoreGrid(x=grid[0], y=grid[1]), "memory_config": _L1}
        words = f"all linear layers: {described(everywhere)}"
        search.attempt(self.name, Candidate(dict.fromkeys(layers, everywhere), words))
        for group in groups_of_alike(search, layers):
            now = search.configuration(group[0])
            assert isinstance(now, LinearConfiguration)
            for settings in _others(now, grid):
                candidate = Candidate(dict.fromkeys(group, settings), f"{listed(group)}: {described(settings)}")
                search.attempt(self.name, candidate)


_L1 = ttnn.L1_MEMORY_CONFIG


def _others(configuration: LinearConfiguration, grid: tuple[int, int]) -> Iterator[LayerSettings]:
    """Settings unlike the present ones: the whole grid and parts of it, for outputs in either memory."""
    columns, rows = grid
    parts = [None, (columns, rows), (columns, rows // 2), (columns // 2, rows), (columns, 1), (1, rows)]
    own = configuration.core_grid
    present = (None if own is None else (own.x, own.y), configuration.memory_config)
    for part in parts:
        core_grid = None if part is None else ttnn.CoreGrid(x=part[0], y=part[1])
        for memory in (None, _L1):
            if (part, memory) != present:
                yield {"core_grid": core_grid, "memory_config": memory}
