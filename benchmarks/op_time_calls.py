# SPDX-License-Identifier: Apache-2.0
"""Element-wise ops, norms and attention of published rows, made into calls; and all ops by name."""

from __future__ import annotations

from typing import Any

import op_time_moves as moves
import op_time_products as products
from earlier_kernels import as_of
from op_time_matmuls import matmul
from op_time_moves import Maker
from op_time_rows import (
    Bench,
    NotReplayed,
    Row,
    compute_config,
    first_line,
    is_true,
    read_activations,
    read_dtype,
    read_layout,
    read_pair,
    read_struct,
)

from tt_cnn.virtual import ttnn
from tt_cnn.virtual.errors.card_error import CardError
from tt_cnn.virtual.ops.matmul.dram_sharded import MatmulDramShardedProgram
from tt_cnn.virtual.planning.program import Step
from tt_cnn.virtual.types.geometry import TILE_SIZE, Shape
from tt_cnn.virtual.types.tensor_spec import Spec

# --- element-wise ---------------------------------------------------------------------------------------------------

_BINARY = {
    "ADD": "add", "SUB": "subtract", "MUL": "multiply", "DIV": "divide", "GE": "ge", "LOGICAL_AND": "logical_and",
}  # fmt: skip


def _binary(bench: Bench) -> list[Step]:
    a, said = bench.attributes, bench.args.get("binary") or bench.args.get("op")
    if said:
        name = "remainder" if "REMAINDER" in said else "multiply" if said.startswith("MUL") else None
        if name is None:
            raise NotReplayed(f"binary op {said}")
        right = bench.input(1) if bench.inputs > 1 else bench.input(0)
        return bench.lab.plan(name, bench.input(0), right, memory_config=bench.output_config)
    kind = a.get("binary_op_type", "").split("::")[-1]
    if kind not in _BINARY:
        raise NotReplayed(f"binary op {kind or 'not said'}")
    left = bench.input(0)
    right = bench.input(1) if bench.inputs > 1 else float(a["scalar"]) if "scalar" in a else left
    return bench.lab.plan(
        _BINARY[kind],
        left,
        right,
        dtype=bench.output_dtype,
        memory_config=bench.output_config,
        activations=read_activations(a.get("post_activations", a.get("activations", ""))),
        input_tensor_a_activations=read_activations(a.get("lhs_activations", "")),
        input_tensor_b_activations=read_activations(a.get("rhs_activations", "")),
    )


def _binary_pair(bench: Bench) -> list[Step]:
    """A product that stays in L1, and a sum of it."""
    product = bench.lab.plan("multiply", bench.input(0), bench.input(1), memory_config=ttnn.L1_MEMORY_CONFIG)
    between = bench.lab.tensor(product[-1].outputs[0].spec)
    return product + bench.lab.plan("add", between, bench.input(0), memory_config=ttnn.DRAM_MEMORY_CONFIG)


def _unary(bench: Bench) -> list[Step]:
    if "op_chain" in bench.attributes:
        chain = read_activations(bench.attributes["op_chain"])
        return bench.lab.plan("unary_chain", bench.input(), chain, memory_config=bench.output_config)
    said = bench.args.get("unary") or bench.args.get("op") or ""
    if not said.startswith("EXP"):
        raise NotReplayed(f"unary op {said}")
    return bench.lab.plan("exp", bench.input())


def _typecast(bench: Bench) -> list[Step]:
    return bench.lab.plan("typecast", bench.input(), bench.output_dtype, memory_config=bench.output_config)


def _ternary(bench: Bench) -> list[Step]:
    if bench.args.get("ternary", "").startswith("MAC"):
        operands = [bench.lab.tensor(bench.said_spec(given)) for given in bench.args["inputs"]]
        return bench.lab.plan("mac", *operands)
    return bench.lab.plan("where", *(bench.input(i) for i in range(3)), memory_config=bench.output_config)


# --- norms, reductions, attention -----------------------------------------------------------------------------------


def _norm(name: str) -> Maker:
    weights = ("weight",) if name == "rms_norm" else ("weight", "bias")

    def make(bench: Bench) -> list[Step]:
        a = bench.attributes
        rest = {key: bench.input(i) for i, key in enumerate(weights, start=1) if i < bench.inputs}
        if not a:
            said = bench.args
            if str(said.get("weight_bias", "")).startswith("both"):
                row = Spec(Shape((1, 1, TILE_SIZE, bench.spec().shape[-1])), ttnn.bfloat16, ttnn.TILE_LAYOUT)
                rest = {key: bench.lab.tensor(row) for key in weights}
            compute = compute_config({"fp32_dest_acc": said.get("fp32_dest_acc", False)}, said.get("fidelity"))
            return bench.lab.plan(name, bench.input(), compute_kernel_config=compute, **rest)
        return bench.lab.plan(
            name,
            bench.input(),
            epsilon=float(a["eps"]),
            memory_config=bench.output_config,
            program_config=_norm_program(a["program_config"]),
            compute_kernel_config=bench.compute,
            **rest,
        )

    return make


def _norm_program(text: str) -> Any:
    kind, given = read_struct(text)
    if kind != "LayerNormShardedMultiCoreProgramConfig":
        return None
    return ttnn.LayerNormShardedMultiCoreProgramConfig(
        compute_with_storage_grid_size=read_pair(given["compute_with_storage_grid_size"]),
        subblock_w=int(given["subblock_w"]),
        block_h=int(given["block_h"]),
        block_w=int(given["block_w"]),
        inplace=is_true(given["inplace"]),
    )


def _group_norm(bench: Bench) -> list[Step]:
    a = bench.attributes
    _, given = read_struct(a["program_config"])
    rest: dict[str, Any] = {}
    for i in range(1, bench.inputs):
        shape = bench.spec(i).shape
        if len(shape) == 4 and shape[2] > 1:
            rest.setdefault("input_mask", bench.input(i))
        else:
            rest.setdefault("bias" if "weight" in rest else "weight", bench.input(i))
    if "num_out_blocks" in given:
        rest["num_out_blocks"] = int(given["num_out_blocks"])
    x, y = read_pair(given["compute_with_storage_grid_size"])
    return bench.lab.plan(
        "group_norm",
        bench.input(),
        num_groups=int(a["num_groups"]),
        epsilon=float(a["eps"]),
        memory_config=bench.output_config,
        core_grid=ttnn.CoreGrid(x=x, y=y),
        inplace=is_true(given.get("inplace", "0")),
        output_layout=read_layout(given["output_layout"]) if "output_layout" in given else None,
        compute_kernel_config=bench.compute,
        **rest,
    )


def _softmax(bench: Bench) -> list[Step]:
    a = bench.attributes
    if not a:
        return bench.lab.plan("softmax", bench.input(), bench.args["dim"])
    return bench.lab.plan(
        "softmax",
        bench.input(),
        int(a["dim"]),
        memory_config=bench.output_config,
        compute_kernel_config=bench.compute,
        numeric_stable=is_true(a.get("numeric_stable", False)),
    )


def _reduce(bench: Bench) -> list[Step]:
    a = bench.attributes
    name = a["math_op"].split("::")[-1].lower()
    dim = {"W": -1, "H": -2}[a["dim"].split("::")[-1]]
    options = {"memory_config": bench.output_config, "compute_kernel_config": bench.compute}
    return bench.lab.plan(name, bench.input(), dim, True, **options)


def _attention(bench: Bench) -> list[Step]:
    a, program = bench.attributes, None
    if "program_config" in a:
        _, given = read_struct(a["program_config"])
        program = ttnn.SDPAProgramConfig(
            compute_with_storage_grid_size=read_pair(given["compute_with_storage_grid_size"]),
            q_chunk_size=int(given["q_chunk_size"]),
            k_chunk_size=int(given["k_chunk_size"]),
            exp_approx_mode=is_true(given.get("exp_approx_mode", "0")),
        )
    return bench.lab.plan(
        "transformer.scaled_dot_product_attention",
        *(bench.input(i) for i in range(3)),
        attn_mask=bench.input(3) if bench.inputs > 3 else None,
        is_causal=is_true(a.get("is_causal", False)),
        scale=float(a["scale"]) if "scale" in a else None,
        sliding_window_size=int(a["sliding_window_size"]) if "sliding_window_size" in a else None,
        memory_config=bench.output_config,
        program_config=program,
        compute_kernel_config=bench.compute,
    )


# --- all ops --------------------------------------------------------------------------------------------------------

CALLS: dict[str, tuple[Maker, tuple[str, ...]]] = {
    "binary": (_binary, ("BinaryNg",)),
    "binary_pair": (_binary_pair, ("BinaryNg",)),
    "clone": (moves.placed("clone", dtype=True), ("Clone",)),
    "concat": (moves.concat, ("Concat",)),
    "conv2d": (products.conv2d, (products.CONV_STEP,)),
    "convert_to_chw": (lambda b: b.lab.plan("experimental.convert_to_chw", b.input()), ("ConvertToCHW",)),
    "convert_to_hwc": (lambda b: b.lab.plan("experimental.convert_to_hwc", b.input()), ("ConvertToHWC",)),
    "copy": (moves.copy, ("Copy",)),
    "embedding": (moves.embedding, ("Embeddings",)),
    "fold": (lambda b: b.lab.plan("fold", b.input(), 2, 2), ("Fold",)),
    "grid_sample": (moves.grid_sample, ("GridSample",)),
    "group_norm": (_group_norm, ("GroupNorm",)),
    "halo": (products.halo, ("Halo",)),
    "interleaved_to_sharded": (moves.to_shards, ("InterleavedToSharded",)),
    "layer_norm": (_norm("layer_norm"), ("LayerNorm",)),
    "matmul": (matmul, ("Matmul",)),
    "move": (moves.move, ("Move",)),
    "nlp_concat_heads": (moves.placed("experimental.nlp_concat_heads"), ("NLPConcatHeads",)),
    "pad": (moves.pad, ("Pad",)),
    "padded_slice": (products.padded_slice, ("PaddedSlice",)),
    "permute": (moves.permute, ("Permute", "Transpose")),
    "pool2d": (products.pool2d, ("Pool2D",)),
    "reduce": (_reduce, ("Reduce",)),
    "repeat": (moves.repeat, ("Repeat", "RepeatCodegen")),
    "reshape": (moves.reshape, ("ReshapeView", "Reshape")),
    "reshard": (moves.reshard, ("Reshard",)),
    "rms_norm": (_norm("rms_norm"), ("LayerNorm",)),
    "sdpa": (_attention, ("SDPA",)),
    "sharded_to_interleaved": (moves.from_shards, ("ShardedToInterleaved",)),
    "slice": (moves.slice, ("Slice",)),
    "slice_write": (products.slice_write, ("SliceWrite",)),
    "softmax": (_softmax, ("Softmax",)),
    "split": (moves.split, ("Split",)),
    "ternary": (_ternary, ("Ternary",)),
    "tilize": (moves.placed("tilize", dtype=True), ("Tilize",)),
    "tilize_with_val_padding": (moves.tilize_padding, ("TilizeWithValPadding",)),
    "transpose": (moves.transpose, ("Transpose",)),
    "typecast": (_typecast, ("Typecast",)),
    "unary": (_unary, ("Unary",)),
    "untilize": (moves.untilize, ("Untilize",)),
    "untilize_with_unpadding": (moves.untilize_unpadding, ("UntilizeWithUnpadding", "UntilizeCodegen")),
    "upsample": (moves.upsample, ("Upsample",)),
}
"""By the rows' op: what makes the call, and the names of the steps that the row is the time of."""


def replayed(row: Row) -> tuple[Bench, list[Step], list[str]]:
    """The steps that a row is the time of, and what of their plan is not as recorded."""
    if row.virtual is None:
        raise NotReplayed(row.reason)
    if row.op not in CALLS:
        raise NotReplayed(f"the virtual card has no {row.op}")
    make, names = CALLS[row.op]
    bench = Bench(row)
    try:
        planned = make(bench)
    except CardError as error:
        raise NotReplayed(f"refused: {first_line(error)}") from error
    steps = [as_of(row.date, step) for step in planned if step.op in names]
    if not steps:
        raise NotReplayed(f"planned as {', '.join(step.op for step in planned) or 'nothing'}")
    return bench, steps, _differences(bench, steps[0])


def _differences(bench: Bench, step: Step) -> list[str]:
    row, found, output = bench.row, [], step.outputs[0].spec
    if "conv" in bench.args:
        found += products.conv2d_differences(bench, step)
    cores = bench.args.get("cores")
    if isinstance(step.program, MatmulDramShardedProgram):
        cores = None  # the rectangle around the cores beside the banks, which boards have in other places
    if "conv" not in bench.args and cores is not None and cores != step.cores.num_cores():
        found.append(f"cores: {cores} recorded, {step.cores.num_cores()} planned")
    recorded = (bench.args.get("outputs") or [{}])[0]
    if "dtype" in recorded and read_dtype(recorded["dtype"]) is not output.dtype:
        found.append(f"output dtype: {recorded['dtype']} recorded, {output.dtype.name} planned")
    if "mem" in recorded and recorded["mem"].split(" ")[0].endswith("SHARDED") != output.is_sharded:
        found.append(f"output memory: {recorded['mem']} recorded, {output.memory_config.memory_layout.name} planned")
    for name in ("output_mem_config", "memory_config"):
        config = bench.attributes.get(name)
        if (
            isinstance(config, dict)
            and "shard" in config
            and output.is_sharded
            and config["shard"] != output.shard.shape
        ):
            found.append(f"output shard: {config['shard']} recorded, {output.shard.shape} planned")
    if row.op == "halo" and output.shard.shape[0] != int(bench.attributes["max_out_nsticks_per_core"]):
        found.append(
            f"sticks: {bench.attributes['max_out_nsticks_per_core']} recorded, {output.shard.shape[0]} planned"
        )
    return found
