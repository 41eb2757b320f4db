# SPDX-License-Identifier: Apache-2.0
"""Other forms of a pool that need less L1, the mildest first."""

from __future__ import annotations

from collections.abc import Iterator

from tt_cnn.virtual.ops.pool.problem import Wish
from tt_cnn.virtual.ops.sliding_window.parallel import BLOCK, HEIGHT, WIDTH
from tt_cnn.virtual.planning.alternatives import MEASURE, Alternative, CallSite
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.memory_config import DRAM_MEMORY_CONFIG
from tt_cnn.virtual.types.tensor_spec import Spec


def alternatives(site: CallSite) -> Iterator[Alternative]:
    wish: Wish = site.attributes["wish"]
    source = site.specs[0]
    inside = source.memory_config.is_l1()
    if inside and source.is_sharded and not wish.deallocate_input:
        wanted = {"wish": wish.but(deallocate_input=True)}
        yield Alternative("deallocation", "deallocate_input=True", wanted, {"deallocate_input": True})
    for scheme in (HEIGHT, BLOCK, WIDTH):
        if scheme is not wish.scheme and not source.is_sharded:
            words = f"applied_shard_scheme=ttnn.TensorMemoryLayout.{scheme.name}"
            wanted = {"wish": wish.but(scheme=scheme)}
            yield Alternative("shard scheme", words, wanted, {"applied_shard_scheme": scheme})
    if inside:
        in_dram = Spec(source.shape, source.dtype, source.layout, DRAM_MEMORY_CONFIG)
        yield Alternative("input", "its input in DRAM: TT-NN pools it in slices", {}, {}, specs={0: in_dram})
    if wish.dtype is DataType.BFLOAT16 and not wish.indices:
        wanted = {"wish": wish.but(dtype=DataType.BFLOAT8_B, layout=Layout.TILE)}
        change = {"dtype": DataType.BFLOAT8_B, "output_layout": Layout.TILE}
        yield Alternative(
            "dtype", "dtype=ttnn.bfloat8_b, output_layout=ttnn.TILE_LAYOUT", wanted, change, caution=MEASURE
        )
    if not wish.tables_in_dram:
        wanted = {"wish": wish.but(tables_in_dram=True)}
        yield Alternative("tables", "config_tensor_in_dram=True", wanted, {"config_tensor_in_dram": True})
