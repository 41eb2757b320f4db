"""Convolutions, halos, pools and matrix products of published rows, made into calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from op_time_rows import (
    Bench,
    NotReplayed,
    compute_config,
    is_true,
    read_activations,
    read_dtype,
    read_layout,
    read_numbers,
    read_pair,
    read_struct,
    rectangle,
)

from tt_cnn.virtual import ttnn
from tt_cnn.virtual.ops.conv2d.program import ConvProgram
from tt_cnn.virtual.ops.conv2d.slice_steps import plan_padded_slice, plan_slice_write
from tt_cnn.virtual.ops.conv2d.slices import Part
from tt_cnn.virtual.ops.matmul.choice import subblock_params
from tt_cnn.virtual.ops.matmul.configs import DRAM_SHARDED
from tt_cnn.virtual.ops.sliding_window.halo import plan_halo
from tt_cnn.virtual.ops.sliding_window.window import SlidingWindow
from tt_cnn.virtual.planning.program import Step
from tt_cnn.virtual.types.geometry import TILE_SIZE, Shape, num_cores_to_corerangeset
from tt_cnn.virtual.types.tensor_spec import Spec

CONV_STEP = "Conv2d"

# --- convolutions ---------------------------------------------------------------------------------------------------


def conv2d(bench: Bench) -> list[Step]:
    """As the library would choose; on the recorded cores where that gives another program than recorded."""
    steps = _conv2d_call(bench, _said_grid(bench.args["conv"]))
    grid = _recorded_grid(bench)
    found = [step for step in steps if step.op == CONV_STEP]
    if grid is None or not found or not conv2d_differences(bench, found[0]):
        return steps
    try:
        again = _conv2d_call(bench, grid)
    except NotReplayed:
        return steps
    other = [step for step in again if step.op == CONV_STEP]
    closer = other and len(conv2d_differences(bench, other[0])) < len(conv2d_differences(bench, found[0]))
    return again if closer else steps


def _said_grid(conv: dict[str, Any]) -> Any:
    forced = str(conv.get("forced_grid", "-"))
    if forced != "-":
        return rectangle(*(int(side) for side in forced.split("x")))
    if "grid" in conv and "num_cores_nhw" not in conv:
        return rectangle(*conv["grid"])
    return None


def _recorded_grid(bench: Bench) -> Any:
    """The cores of the input where the row says how its rows and channels are dealt out."""
    conv = bench.args["conv"]
    if "num_cores_nhw" not in conv or _said_grid(conv) is not None:
        return None
    if conv["shard"] == "HEIGHT_SHARDED":
        return num_cores_to_corerangeset(conv["num_cores_nhw"], ttnn.CoreCoord(*bench.lab.card.grid), True)
    return rectangle(conv["num_cores_c_in"], conv["num_cores_nhw"])


def _conv2d_call(bench: Bench, grid: Any) -> list[Step]:
    conv, lab = bench.args["conv"], bench.lab
    settings = _conv2d_settings(conv)
    if grid is not None:
        settings |= {"core_grid": grid, "override_sharding_config": True, "reshard_if_not_optimal": False}
    batch, (height, width) = conv["batch"], conv["input_hw"]
    channels, outputs = conv["in_channels"], conv["out_channels"]
    in_slices = "auto" in str(conv.get("slice", "")) or bench.row.set == "conv-sweep"
    return lab.plan(
        "conv2d",
        input_tensor=_conv2d_input(bench),
        weight_tensor=lab.host((outputs, channels // conv["groups"], *conv["kernel"]), ttnn.float32),
        bias_tensor=lab.host((1, 1, 1, outputs), ttnn.float32) if is_true(conv.get("bias", True)) else None,
        device=lab.device,
        in_channels=channels,
        out_channels=outputs,
        batch_size=batch,
        input_height=height,
        input_width=width,
        kernel_size=tuple(conv["kernel"]),
        stride=tuple(conv["stride"]),
        padding=tuple(conv.get("padding_tblr", (0, 0, 2, 2))),
        dilation=tuple(conv.get("dilation", (1, 1))),
        groups=conv["groups"],
        dtype=read_dtype(conv["out_dtype"]),
        conv_config=ttnn.Conv2dConfig(**settings),
        compute_config=compute_config({**conv, "approx": conv.get("math_approx", False)}),
        slice_config=None if in_slices else ttnn.Conv2dL1FullSliceConfig,
    )


def _conv2d_settings(conv: dict[str, Any]) -> dict[str, Any]:
    rows = conv.get("act_block_h_override")
    if conv.get("act_block_h_ntiles"):
        rows = conv["act_block_h_ntiles"] * TILE_SIZE
    divisor, reader = str(conv.get("act_block_w_div", 1)), str(conv.get("split_reader", "auto"))
    shard = str(conv["shard"]).removesuffix("_SHARDED")
    flags = {
        "enable_act_double_buffer": "act_double_buffer",
        "enable_weights_double_buffer": "weights_double_buffer",
        "enable_activation_reuse": "activation_reuse",
        "config_tensors_in_dram": "config_tensors_in_dram",
        "full_inner_dim": "full_inner_dim",
        "transpose_shards": "transpose_shards",
        "reshard_if_not_optimal": "reshard_if_not_optimal",
    }
    return {
        "weights_dtype": read_dtype(conv["weights_dtype"]),
        "activation": ttnn.UnaryWithParam(ttnn.UnaryOpType[conv["activation"]]) if conv.get("activation") else None,
        "act_block_h_override": int(rows) if rows and str(rows) != "auto" else 0,
        "act_block_w_div": int(divisor) if divisor.isdigit() else 1,
        "shard_layout": None if shard == "AUTO" else ttnn.TensorMemoryLayout[f"{shard}_SHARDED"],
        "output_layout": read_layout(conv.get("out_layout", "TILE")),
        "force_split_reader": None if reader == "auto" else is_true(reader),
        **{name: is_true(conv.get(said, False)) for name, said in flags.items()},
    }


def _conv2d_input(bench: Bench) -> Any:
    conv, lab, dtype = bench.args["conv"], bench.lab, read_dtype(bench.args["conv"]["in_dtype"])
    batch, (height, width), channels = conv["batch"], conv["input_hw"], conv["in_channels"]
    if str(conv.get("input", "")).startswith("host"):
        return lab.host((batch, height, width, channels), dtype)
    layout = ttnn.TILE_LAYOUT
    if "inputs" in bench.args and bench.args["inputs"][0]["shape"][-1] % TILE_SIZE:
        layout = ttnn.ROW_MAJOR_LAYOUT  # what stood before the halo shows in how its channels are padded
    return lab.tensor(Spec(Shape((1, 1, batch * height * width, channels)), dtype, layout))


def conv2d_differences(bench: Bench, step: Step) -> list[str]:
    """What the row says of the program and the planned one has otherwise."""
    conv, program = bench.args["conv"], step.program
    assert isinstance(program, ConvProgram)
    blocks = program.blocks
    source, output = step.inputs[0].spec, step.outputs[0].spec
    pairs = {
        "act_block_h": (conv.get("act_block_h_ntiles"), blocks.act_h),
        "act_block_w": (conv.get("act_block_w_ntiles"), blocks.act_w),
        "out_subblock_h": (conv.get("out_subblock_h_ntiles"), blocks.sub_h),
        "out_subblock_w": (conv.get("out_subblock_w_ntiles"), blocks.sub_w),
        "per_core_M": (conv.get("per_core_M_tiles", conv.get("per_core_out_matrix_height_ntile")), blocks.out_h),
        "per_core_N": (conv.get("per_core_N_tiles", conv.get("per_core_out_matrix_width_ntile")), blocks.out_w),
        "out_shard": (conv.get("out_shard_shape"), output.shard.shape),
        "out_subblock": (conv.get("out_subblock_hw"), f"{blocks.sub_h}x{blocks.sub_w}"),
    }
    if "num_cores_nhw" in conv:
        pairs["cores"] = (conv["cores_used"], step.cores.num_cores())
        pairs["cores_nhw"] = (conv["num_cores_nhw"], source.shard.grid.num_cores() // conv["num_cores_c_in"])
    elif int(conv.get("cores_used", 0)):
        pairs["cores"] = (int(conv["cores_used"]), output.shard.grid.num_cores())
    return [f"{name}: {was} recorded, {now} planned" for name, (was, now) in pairs.items() if was not in (None, now)]


# --- halos, pools, slices of convolutions ---------------------------------------------------------------------------


def _window(given: dict[str, Any]) -> SlidingWindow:
    return SlidingWindow(
        batch=given["batch"],
        input_hw=tuple(given["input_hw"]),
        window=tuple(given["window_hw"]),
        stride=tuple(given["stride_hw"]),
        padding=tuple(given["padding_tblr"]),
        dilation=tuple(given["dilation_hw"]),
    )


def halo(bench: Bench) -> list[Step]:
    a, made = bench.attributes, bench.compute
    key = made and (made.math_fidelity, made.math_approx_mode, made.fp32_dest_acc_en, made.packer_l1_acc)
    return bench.lab.planned(
        [bench.spec()],
        lambda planner, source: plan_halo(
            planner,
            source,
            _window(a["config"]),
            snap_to_tile=is_true(a.get("is_out_tiled", False)),
            tables_in_dram=is_true(a.get("config_tensors_in_dram", False)),
            padding_value=int(a.get("pad_val", 0)),
            compute=key,
        ),
    )


def pool2d(bench: Bench) -> list[Step]:
    """From the tensor before its halo: the pool's own input is padded already."""
    a = bench.attributes
    window = _window(a["sliding_window_config"])
    halved = bench.spec()
    channels = halved.shape[-1]
    cores = max(1, int(a["sliding_window_config"]["num_cores_nhw"]))
    rows = -(-window.input_pixels // cores)
    shard = ttnn.ShardSpec(halved.shard.grid, [rows, halved.shard.shape[1]], halved.shard.orientation)
    config = ttnn.MemoryConfig(halved.memory_config.memory_layout, ttnn.BufferType.L1, shard)
    shape = Shape((1, 1, window.input_pixels, channels))
    source = bench.lab.tensor(Spec(shape, ttnn.bfloat16, ttnn.ROW_MAJOR_LAYOUT, config))
    given: dict[str, Any] = {
        "dtype": read_dtype(a["output_dtype"]),
        "output_layout": read_layout(a["output_layout"]),
    }
    sizes = (window.batch, *window.input_hw, channels, window.window, window.stride, window.padding)
    if "AVG" in a["pool_type"]:
        given["count_include_pad"] = is_true(a.get("count_include_pad", True))
        return bench.lab.plan("avg_pool2d", source, *sizes, **given)
    return bench.lab.plan("max_pool2d", source, *sizes, window.dilation, **given)


def _part(start: Sequence[int], end: Sequence[int]) -> Part:
    rows, columns = (start[1], end[1]), (start[2], end[2])
    return Part(rows, columns, rows, columns, (0, 0, 0, 0))


def padded_slice(bench: Bench) -> list[Step]:
    a = bench.attributes
    part = _part(read_numbers(a["padded_slice_start"]), read_numbers(a["padded_slice_end"]))
    config = bench.output_config
    return bench.lab.planned([bench.spec()], lambda planner, x: plan_padded_slice(planner, x, part, config))


def slice_write(bench: Bench) -> list[Step]:
    a = bench.attributes
    part = _part(read_numbers(a["slice_start"]), read_numbers(a["slice_end"]))
    return bench.lab.planned(
        [bench.spec(), bench.output], lambda planner, x, out: plan_slice_write(planner, x, out, part)
    )


# --- products -------------------------------------------------------------------------------------------------------

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
    """Rows do not say the shards: the right matrix is dealt to all banks, the left one to as many cores as get a part
    of the result, as the models that these rows come from have it."""
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
