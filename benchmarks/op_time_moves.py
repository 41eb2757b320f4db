# SPDX-License-Identifier: Apache-2.0
"""Data movement of published rows, made into calls."""

from __future__ import annotations

from collections.abc import Callable
from unittest.mock import patch

from op_time_rows import Bench, NotReplayed, is_true, read_config, read_numbers

from tt_cnn.virtual.ops.layout.move import APART, OVERLAP, plan_move
from tt_cnn.virtual.planning.program import Step

Maker = Callable[[Bench], list[Step]]
_MOVES = {False: APART, True: OVERLAP}


def placed(name: str, *, dtype: bool = False) -> Maker:
    """An op of one tensor whose arguments are where its result goes and, with `dtype`, in which format."""

    def make(bench: Bench) -> list[Step]:
        options = {"dtype": bench.output_dtype} if dtype else {}
        return bench.lab.plan(name, bench.input(), memory_config=bench.output_config, **options)

    return make


def to_shards(bench: Bench) -> list[Step]:
    return bench.lab.plan("interleaved_to_sharded", bench.input(), bench.output_config, bench.output_dtype)


def from_shards(bench: Bench) -> list[Step]:
    return bench.lab.plan("sharded_to_interleaved", bench.input(), bench.output_config, bench.output_dtype)


def reshard(bench: Bench) -> list[Step]:
    return bench.lab.plan("reshard", bench.input(), bench.output_config)


def copy(bench: Bench) -> list[Step]:
    source = bench.spec()
    if source.memory_config == bench.output_config and source.dtype is bench.output_dtype:
        return bench.lab.plan("copy", bench.input(), bench.lab.tensor(bench.output))
    return bench.lab.plan("to_memory_config", bench.input(), bench.output_config, bench.output_dtype)


def move(bench: Bench) -> list[Step]:
    """By the strategy that was taken: it depends on what else was in memory."""
    overlaps = bench.attributes["move_op_parallelization_strategy"].endswith("OVERLAP")
    config = bench.output_config
    return bench.lab.planned([bench.spec()], lambda planner, x: plan_move(planner, x, config, _MOVES[overlaps]))


def tilize_padding(bench: Bench) -> list[Step]:
    shape = read_numbers(bench.attributes["output_padded_shape"].replace("Shape", ""))
    options = {"memory_config": bench.output_config, "dtype": bench.output_dtype}
    return bench.lab.plan("tilize_with_val_padding", bench.input(), shape, 0.0, **options)


def untilize(bench: Bench) -> list[Step]:
    """The program that was measured: the generated one, which would be planned now, is newer than all rows."""
    with patch("tt_cnn.virtual.ops.layout.untilize.is_generated", return_value=False):
        return placed("untilize")(bench)


def untilize_unpadding(bench: Bench) -> list[Step]:
    end = read_numbers(bench.attributes["output_tensor_end"].replace("Shape", ""))
    return bench.lab.plan("untilize_with_unpadding", bench.input(), end, memory_config=bench.output_config)


def slice(bench: Bench) -> list[Step]:
    box = (read_numbers(bench.attributes[name]) for name in ("slice_start", "slice_end", "step"))
    return bench.lab.plan("slice", bench.input(), *box, memory_config=bench.output_config)


def concat(bench: Bench) -> list[Step]:
    tensors = [bench.input(i) for i in range(bench.inputs)]
    return bench.lab.plan("concat", tensors, int(bench.attributes["dim"]), memory_config=bench.output_config)


def split(bench: Bench) -> list[Step]:
    dim = int(bench.attributes["dim"])
    return bench.lab.plan("split", bench.input(), bench.output.shape[dim], dim, memory_config=bench.output_config)


def reshape(bench: Bench) -> list[Step]:
    config = bench.output_config if bench.attributes else None
    return bench.lab.plan("reshape", bench.input(), bench.output.shape, memory_config=config)


_TRANSPOSED = {"WH": (2, 3), "HC": (1, 2), "CN": (0, 1), "NH": (0, 2), "NW": (0, 3), "CW": (1, 3)}


def transpose(bench: Bench) -> list[Step]:
    dims = _TRANSPOSED[bench.attributes["dim"].split("::")[-1]]
    return bench.lab.plan("transpose", bench.input(), *dims, memory_config=bench.output_config)


def permute(bench: Bench) -> list[Step]:
    dims = read_numbers(bench.attributes["dims"])
    return bench.lab.plan("permute", bench.input(), dims, memory_config=bench.output_config)


def repeat(bench: Bench) -> list[Step]:
    times = [after // before for before, after in zip(bench.spec().shape, bench.output.shape, strict=True)]
    return bench.lab.plan("repeat", bench.input(), times, memory_config=bench.output_config)


def pad(bench: Bench) -> list[Step]:
    padding = [(0, after - before) for before, after in zip(bench.spec().shape, bench.output.shape, strict=True)]
    return bench.lab.plan("pad", bench.input(), padding, 0.0, memory_config=bench.output_config)


def embedding(bench: Bench) -> list[Step]:
    options = {"layout": bench.output.layout, "memory_config": bench.output_config}
    return bench.lab.plan("embedding", bench.input(0), bench.input(1), **options)


def upsample(bench: Bench) -> list[Step]:
    a = bench.attributes
    scale = (int(float(a["scale_factor_h"])), int(float(a["scale_factor_w"])))
    return bench.lab.plan("upsample", bench.input(), scale, mode=a["mode"], memory_config=bench.output_config)


def grid_sample(bench: Bench) -> list[Step]:
    a = bench.attributes
    if not a:
        raise NotReplayed("the memory of the image is not said")
    tensors = [bench.lab.tensor(bench.said_spec(given)) for given in bench.args["inputs"]]
    return bench.lab.plan(
        "grid_sample",
        *tensors,
        mode=a["mode"],
        padding_mode=a["padding_mode"],
        use_precomputed_grid=is_true(a["use_precomputed_grid"]),
        batch_output_channels=is_true(a["batch_output_channels"]),
        memory_config=read_config(a["output_mem_config"]),
    )
