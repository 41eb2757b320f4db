# SPDX-License-Identifier: Apache-2.0
"""Convolutions, halos, pools and matrix products of published rows, made into calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from op_time_rows import (
    Bench,
    NotReplayed,
    compute_config,
    is_true,
    read_dtype,
    read_layout,
    read_numbers,
    rectangle,
)

from tt_cnn.virtual import ttnn
from tt_cnn.virtual.ops.conv2d.program import ConvProgram
from tt_cnn.virtual.ops.conv2d.slice_steps import plan_padded_slice, plan_slice_write
from tt_cnn.virtual.ops.conv2d.slices import Part
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
    """The cores of the input where the row says how its rows and channels are distributed."""
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
