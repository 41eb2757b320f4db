# SPDX-License-Identifier: Apache-2.0
"""The layer of a group norm of flattened pixels: TT-NN's op where it is quick, else means, products and sums."""

from __future__ import annotations

from math import prod, sqrt
from typing import Any

import torch

from tt_cnn import ttnn
from tt_cnn.builder.activations import activated
from tt_cnn.builder.affine import affine
from tt_cnn.builder.channel_slices import free
from tt_cnn.builder.constants import matrix_on_device
from tt_cnn.builder.flow import TILE, Flow
from tt_cnn.builder.group_norm_configuration import GroupNormConfiguration
from tt_cnn.builder.layer import Layer
from tt_cnn.builder.lowering import whole_values
from tt_cnn.builder.pixels import PixelMeans, PixelSpread
from tt_cnn.builder.weights import replicated, to_one_torch

_SQUARE = ttnn.UnaryWithParam(ttnn.UnaryOpType.SQUARE)
_RSQRT = ttnn.UnaryWithParam(ttnn.UnaryOpType.RSQRT)
_GROUPS_PER_CORE = 4
"""Up to so many TT-NN's op is quicker: its cores go through their pixels once for each of their groups."""
_SIDE = 8


class TtGroupNorm(Layer):
    """(1, 1, N*H*W, C) to the same shape.

    `ttnn.group_norm` takes images of whole tiles, and groups that columns of cores share evenly. All others, and those
    with many small groups, are computed from means: over the pixels, then over the channels of a group by a product
    with a matrix of ones.
    """

    configuration: GroupNormConfiguration
    configured_by = GroupNormConfiguration

    def configure(self, configuration: Any) -> None:
        super().configure(configuration)
        self._means = PixelMeans(self.device, configuration.batch_size)
        self._spread = PixelSpread(self.device, configuration.batch_size)
        self._constants: dict[Any, Any] = {}
        """What the op or the products need beside the pixels, by its name and by what it depends on."""

    def __call__(self, x: Any) -> Any:  # type: ignore[override]
        return super().__call__(x)

    def run(self, x: Any) -> Any:
        return self._first_alone(lambda: self._run(x))

    def _run(self, x: Any) -> Any:
        config = self.configuration
        wanted = config.memory_config or x.memory_config()
        flow = Flow(x, config.deallocate_input).in_tiles()
        grid = self._grid(flow.value)
        if grid is None:
            return flow.become(self._by_means(flow.value, wanted)).value
        shape = tuple(x.shape)
        flow.interleaved().then(ttnn.reshape, self._images(flow.value)).then(self._by_op, grid)
        flow.then(ttnn.reshape, shape).move_to(wanted)
        return flow.value if config.activation is None else activated(flow.value, config.activation)

    # --- by TT-NN's op ----------------------------------------------------------------------------------------------

    def _images(self, x: Any) -> tuple[int, ...]:
        config = self.configuration
        return (config.batch_size, 1, prod(x.shape) // config.channels // config.batch_size, config.channels)

    def _grid(self, x: Any) -> tuple[int, int, int] | None:
        """Columns and rows of cores, and columns that share the groups; None where TT-NN's op is not taken."""
        config = self.configuration
        images, _, pixels, channels = self._images(x)
        if pixels % TILE or channels % TILE or x.dtype != ttnn.bfloat16:
            return None
        rows = images * pixels // TILE
        for across in range(_SIDE, 0, -1):
            columns = _columns(across, config.groups, channels)
            if not columns or across % columns or config.groups // columns > _GROUPS_PER_CORE:
                continue
            each = across // columns
            for down in range(min(rows // each, _SIDE), 0, -1):
                count = each * down
                if rows % count == 0 and count % images == 0:
                    return across, down, columns
        return None

    def _by_op(self, x: Any, grid: tuple[int, int, int]) -> Any:
        config = self.configuration
        across, down, columns = grid
        if grid not in self._constants:
            self._constants[grid] = self._operands(columns)
        return ttnn.group_norm(
            x,
            num_groups=config.groups,
            epsilon=config.epsilon,
            inplace=False,
            memory_config=x.memory_config(),
            core_grid=ttnn.CoreGrid(x=across, y=down),
            **self._constants[grid],
        )

    def _operands(self, columns: int) -> dict[str, Any]:
        """The mask and the weights as the op takes them for so many columns of cores."""
        config = self.configuration
        mask = ttnn.create_group_norm_input_mask(config.channels, config.groups, columns, ttnn.bfloat16)
        found = {"input_mask": ttnn.to_device(mask, self.device)}
        for name in ("weight", "bias"):
            row = getattr(config, name)
            values = self._row(row, 1.0 if name == "weight" else 0.0)
            laid_out = ttnn.create_group_norm_weight_bias_rm(values, config.channels, columns)
            own = {"device": self.device, "mesh_mapper": replicated(self.device)}
            found[name] = ttnn.from_torch(laid_out, dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT, **own)
        return found

    def _row(self, given: Any, otherwise: float) -> torch.Tensor:
        if given is None:
            return torch.full((self.configuration.channels,), otherwise)
        return to_one_torch(given).float().reshape(-1)

    # --- by means ---------------------------------------------------------------------------------------------------

    def _by_means(self, x: Any, wanted: Any) -> Any:
        """Squares are of what is left of the pixels without their mean: nothing cancels out."""
        config = self.configuration
        summed = self._summed
        gamma, beta = self._affine_rows(sqrt(summed))
        mean = Flow(self._means(x), may_free=True).then(self._over_groups)
        if summed > 1:
            mean.then(ttnn.multiply, 1 / summed)
        rest = Flow(ttnn.subtract(x, self._at_pixels(mean.value, x), activations=[_SQUARE], **_beside(x)), True)
        variance = Flow(self._means(rest.value), may_free=True).then(self._over_groups)
        rest.end()
        scale = variance.then(ttnn.add, summed * config.epsilon, activations=[_RSQRT]).then(ttnn.multiply, gamma)
        shift = Flow(ttnn.addcmul(beta, mean.value, scale.value, value=-1.0), True)
        mean.end()
        spread = [self._at_pixels(one.value, x) for one in (scale, shift)]
        result = affine(x, spread[0], spread[1], activation=config.activation, memory_config=wanted)
        for tensor in (*spread, scale.value, shift.value):
            free(tensor)
        return result

    @property
    def _summed(self) -> int:
        """Of how many channels the product over a group gives the sum; 1 where it gives the mean. Halves are exact, but
        no matrix of bfloat16 holds a third: its part comes later."""
        members = self.configuration.channels // self.configuration.groups
        return members if members & (members - 1) else 1

    def _affine_rows(self, factor: float) -> list[Any]:
        """gamma, times a factor, and beta."""
        if "rows" not in self._constants:
            config = self.configuration
            rows = (self._row(config.weight, 1.0) * factor, self._row(config.bias, 0.0))
            self._constants["rows"] = [matrix_on_device(row.reshape(1, -1), self.device) for row in rows]
        return list(self._constants["rows"])

    def _over_groups(self, rows: Any) -> Any:
        """The mean over the channels of each group, or their sum, for each of them."""
        config = self.configuration
        if config.groups == config.channels:
            return rows
        members = config.channels // config.groups
        if "groups" not in self._constants:
            block = torch.full((members, members), self._summed / members)
            matrix = torch.block_diag(*[block] * config.groups)
            self._constants["groups"] = matrix_on_device(matrix, self.device)
        return ttnn.matmul(
            rows,
            self._constants["groups"],
            dtype=ttnn.bfloat16,
            memory_config=ttnn.L1_MEMORY_CONFIG,
            core_grid=ttnn.CoreGrid(x=_SIDE, y=_SIDE),
            compute_kernel_config=whole_values(self.device),
        )

    def _at_pixels(self, rows: Any, x: Any) -> Any:
        """One row for each pixel; that of one image TT-NN spreads itself."""
        if self.configuration.batch_size == 1:
            return rows
        return self._spread(rows, prod(x.shape) // x.shape[-1])


def _columns(across: int, groups: int, channels: int) -> int:
    """The most columns of cores that hold whole groups and whole tiles, as TT-NN counts them; 0: there are none."""
    count = min(across, groups)
    while count and ((channels // count) % TILE or groups % count):
        count -= 1
    return count


def _beside(x: Any) -> dict[str, Any]:
    """Interleaved in the memory that x is in."""
    in_l1 = x.memory_config().buffer_type == ttnn.BufferType.L1
    return {"memory_config": ttnn.L1_MEMORY_CONFIG if in_l1 else ttnn.DRAM_MEMORY_CONFIG, "dtype": ttnn.bfloat16}
