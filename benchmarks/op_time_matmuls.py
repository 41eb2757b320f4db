# SPDX-License-Identifier: Apache-2.0
"""Matrix products of published rows, made into calls."""

from __future__ import annotations

from typing import Any

from op_time_rows import (
    Bench,
    NotReplayed,
    compute_config,
    is_true,
    read_activations,
    read_dtype,
    read_pair,
    read_struct,
    rectangle,
)

from tt_cnn.virtual import ttnn
from tt_cnn.virtual.ops.matmul.choice import subblock_params
from tt_cnn.virtual.ops.matmul.configs import DRAM_SHARDED
from tt_cnn.virtual.planning.program import Step
from tt_cnn.virtual.types.geometry import TILE_SIZE, Shape, num_cores_to_corerangeset
from tt_cnn.virtual.types.tensor_spec import Spec

_SUB_BLOCKS = (
    (4, 2), (2, 4), (8, 1), (1, 8), (7, 1), (1, 7), (3, 2), (2, 3), (6, 1), (1, 6),
    (5, 1), (1, 5), (2, 2), (4, 1), (1, 4), (3, 1), (1, 3), (2, 1), (1, 2), (1, 1),
)  # fmt: skip
"""The order in which tt-metal's GEMM benchmark tries them (tests/ttnn/unit_tests/benchmarks/test_benchmark.py)."""
_TUNED: dict[tuple[bool, str], dict[tuple[int, int, int], tuple[int, int, int]]] = {
    (True, "BFLOAT16"): {(256, 384, 384): (2, 1, 1), (384, 384, 384): (4, 1, 1)},
    (True, "BFLOAT8_B"): {(384, 384, 384): (2, 1, 1), (384, 384, 512): (2, 1, 1)},
    (True, "BFLOAT4_B"): {(384, 512, 512): (2, 1, 1), (512, 512, 512): (2, 1, 1)},
    (False, "BFLOAT16"): {
        (384, 384, 512): (2, 1, 1),
        (384, 512, 512): (2, 1, 1),
        (512, 512, 512): (1, 2, 2),
        (1024, 1024, 1024): (2, 4, 4),
        (2048, 2048, 2048): (4, 8, 8),
    },
    (False, "BFLOAT8_B"): {(512, 512, 512): (1, 2, 2), (1024, 1024, 1024): (2, 4, 4), (2048, 2048, 2048): (4, 8, 8)},
    (False, "BFLOAT4_B"): {(1024, 1024, 1024): (2, 2, 2), (2048, 2048, 2048): (4, 4, 4)},
}
"""The benchmark's tuning by whether the left operand is sharded, its dtype and the shape a core: the divisor of
in0_block_w, and output blocks along the height and the width."""


def matmul(bench: Bench) -> list[Step]:
    if bench.row.set == "matmul-sweep":
        return _gemm(bench)
    a = bench.attributes
    if not a:
        return bench.lab.plan("matmul", bench.input(0), bench.input(1))
    if a.get("program_config", "").startswith(DRAM_SHARDED):
        return _dram_sharded(bench)
    program = _program_config(a.get("program_config"))
    given: dict[str, Any] = {
        "program_config": program,
        "memory_config": bench.output_config,
        "dtype": bench.output_dtype,
        "compute_kernel_config": bench.compute,
        "transpose_b": is_true(a.get("transpose_b", False)),
    }
    if program is None:
        given["activation"] = next(iter(read_activations(a.get("user_fused_activation", ""))), None)
        if "user_core_coord" in a:
            x, y = read_pair(a["user_core_coord"])
            given["core_grid"] = ttnn.CoreGrid(x=x, y=y)
    if bench.inputs > 2:
        return bench.lab.plan("linear", bench.input(0), bench.input(1), bias=bench.input(2), **given)
    return bench.lab.plan("matmul", bench.input(0), bench.input(1), **given)


def _dram_sharded(bench: Bench) -> list[Step]:
    """Rows do not say the shards: the right matrix is distributed to all banks, the left one to as many cores as get a
    part of the result, as the models that these rows come from have it."""
    a, lab = bench.attributes, bench.lab
    _, given = read_struct(a["program_config"])
    columns, block = int(given["per_core_N"]), int(given["in0_block_w"])
    left, right = (bench.args["inputs"][i] for i in range(2))
    inner, width = right["shape"][-2], right["shape"][-1]
    cores, tiles = -(-width // TILE_SIZE // columns), inner // TILE_SIZE
    if tiles % cores or tiles // cores % block:
        cores = tiles // block
    banks = lab.card.dram_banks
    per_bank = -(-width // TILE_SIZE // banks) * TILE_SIZE
    program = ttnn.MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig(
        in0_block_w=block,
        per_core_M=1,
        per_core_N=columns,
        fused_activation=next(iter(read_activations(given.get("fused_activation", ""))), None),
    )
    grid = num_cores_to_corerangeset(cores, ttnn.CoreCoord(*lab.card.grid), True)
    return lab.plan(
        "matmul",
        _in_width(bench, left, grid, inner // cores, ttnn.BufferType.L1),
        _in_width(bench, right, rectangle(banks, 1), per_bank, ttnn.BufferType.DRAM),
        program_config=program,
        memory_config=ttnn.L1_WIDTH_SHARDED_MEMORY_CONFIG,
        dtype=read_dtype(a["output_dtype"]),
        compute_kernel_config=bench.compute,
    )


def _in_width(bench: Bench, given: dict[str, Any], cores: Any, width: int, memory: Any) -> Any:
    height = -(-given["shape"][-2] // TILE_SIZE) * TILE_SIZE
    shard = ttnn.ShardSpec(cores, [height, width], ttnn.ShardOrientation.ROW_MAJOR)
    config = ttnn.MemoryConfig(ttnn.TensorMemoryLayout.WIDTH_SHARDED, memory, shard)
    spec = Spec(Shape(given["shape"]), read_dtype(given["dtype"]), ttnn.TILE_LAYOUT, config)
    return bench.lab.tensor(spec)


def _gemm(bench: Bench) -> list[Step]:
    """A row of a GEMM table: a block-sharded or DRAM left operand, blocks as the benchmark chooses them."""
    a, lab = bench.args, bench.lab
    compute = compute_config({"packer_l1_acc": True}, a["fidelity"])
    left, right = bench.input(0), bench.input(1)
    (m, k, n), (x, y) = (a["M"], a["K"], a["N"]), a["grid"]
    if a["program_config"] == "auto":
        line = _line_of_blocks(m // TILE_SIZE, n // TILE_SIZE, (x, y))
        return lab.plan("matmul", left, right, program_config=line, compute_kernel_config=compute)
    in_shards, out_shards = is_true(a["in0"]["sharded"]), is_true(a["out"]["sharded"])
    tuning = _TUNED[in_shards, a["in0"]["dtype"]]
    divisor, parts_h, parts_w = tuning.get((m // y, k // x, n // x), (1, 1, 1))
    per_m, per_n = m // y // TILE_SIZE, n // x // TILE_SIZE
    out_h, out_w = per_m // parts_h, per_n // parts_w
    sub_h, sub_w = next(
        (h, w) for h, w in _SUB_BLOCKS if out_h % h == 0 and out_w % w == 0 and (h == 1 or not out_shards)
    )
    program = ttnn.MatmulMultiCoreReuseMultiCastProgramConfig(
        compute_with_storage_grid_size=(x, y),
        in0_block_w=k // x // TILE_SIZE // divisor,
        out_subblock_h=sub_h,
        out_subblock_w=sub_w,
        out_block_h=out_h,
        out_block_w=out_w,
        per_core_M=per_m,
        per_core_N=per_n,
        transpose_mcast=False,
        fused_activation=None,
    )
    block = ttnn.MemoryConfig(ttnn.TensorMemoryLayout.BLOCK_SHARDED, ttnn.BufferType.L1)
    return lab.plan(
        "matmul",
        left,
        right,
        program_config=program,
        memory_config=block if out_shards else ttnn.DRAM_MEMORY_CONFIG,
        dtype=read_dtype(a["out"]["dtype"]),
        compute_kernel_config=compute,
    )


_BLOCK = 16


def _line_of_blocks(rows: int, columns: int, grid: tuple[int, int]) -> Any:
    """What the library of the tables chose for operands in DRAM, where it was no grid of cores.

    It cut the output into blocks of 16 x 16 tiles and took a line of cores where they are one row or column of blocks.
    Since pull request 49621 it does so only for other memory.
    """
    high, wide = -(-rows // _BLOCK), -(-columns // _BLOCK)
    if (high == 1) == (wide == 1):
        return None
    cores = grid[0] * grid[1]
    per_m, per_n = (rows, -(-columns // cores)) if high == 1 else (-(-rows // cores), columns)
    sub_h, sub_w = subblock_params(per_m, per_n, fp32=False)
    return ttnn.MatmulMultiCoreReuseMultiCast1DProgramConfig(
        compute_with_storage_grid_size=grid,
        in0_block_w=2,
        out_subblock_h=sub_h,
        out_subblock_w=sub_w,
        per_core_M=per_m,
        per_core_N=per_n,
        fuse_batch=False,
        fused_activation=None,
        mcast_in0=high == 1,
    )


_SIZES = ("in0_block_w", "out_subblock_h", "out_subblock_w", "out_block_h", "out_block_w", "per_core_M", "per_core_N")
_PROGRAM_FLAGS: dict[str, tuple[str, ...]] = {
    "MatmulMultiCoreReuseProgramConfig": (),
    "MatmulMultiCoreReuseMultiCastProgramConfig": ("transpose_mcast", "fuse_batch"),
    "MatmulMultiCoreReuseMultiCast1DProgramConfig": ("fuse_batch", "mcast_in0"),
}


def _program_config(text: str | None) -> Any:
    if not text or text.startswith("MatmulMultiCoreProgramConfig"):
        return None
    name, given = read_struct(text)
    if name not in _PROGRAM_FLAGS or is_true(given.get("gather_in0", "0")):
        raise NotReplayed(f"the virtual card has no {name} of this kind")
    values: dict[str, Any] = {size: int(given[size]) for size in _SIZES if size in given}
    values |= {flag: is_true(given.get(flag, "0")) for flag in _PROGRAM_FLAGS[name]}
    if name != "MatmulMultiCoreReuseProgramConfig":
        values["fused_activation"] = next(iter(read_activations(given.get("fused_activation", ""))), None)
    values["compute_with_storage_grid_size"] = read_pair(given["compute_with_storage_grid_size"])
    return getattr(ttnn, name)(**values)
