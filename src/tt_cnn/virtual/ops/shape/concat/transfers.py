# SPDX-License-Identifier: Apache-2.0
"""How many pieces a core of a block-sharded concat fetches; kernels take a limited number."""

from __future__ import annotations

from math import prod

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.shape.concat.shared import Concat
from tt_cnn.virtual.types.geometry import Shape

ARGUMENT_LIMIT = 256
ARGUMENTS_A_TRANSFER = 9
TRANSFERS_A_KERNEL = (ARGUMENT_LIMIT - 1) // ARGUMENTS_A_TRANSFER


def check_transfers(call: Concat, wide: bool) -> None:
    out = call.output.spec
    size = out.shard.grid.bounding_box().grid_size()
    down, across = (size.y, size.x) if out.shard.row_wise else (size.x, size.y)
    leading = 1 if wide else prod(tuple(call.inputs[0].spec.padded_shape)[:-2])
    if wide:
        extents = [x.spec.shape[-1] for x in call.inputs]
        total, shard, cores, axis = sum(extents), out.shard.shape[1], across, 1
        fatal(
            shard * across >= total,
            f"Width concat: output shards span {shard} x {across} columns, too few for the {total} of shape "
            f"{out.shape}.",
        )
    else:
        extents = [x.spec.padded_shape[-2] for x in call.inputs]
        total, shard, cores, axis = sum(extents) * leading, out.shard.shape[0], down, 0
        _check_height(out.padded_shape, sum(extents), shard, down, total)
    sources = [x.spec.shard.shape[axis] for x in call.inputs]
    most = max(
        _pieces(core * shard, min((core + 1) * shard, total), extents, sources, leading) for core in range(cores)
    )
    fatal(most > 0, "No transfers computed for block-sharded concat")
    within = (most + 1) // 2 <= TRANSFERS_A_KERNEL
    budget = f"({TRANSFERS_A_KERNEL} per RISC at {ARGUMENTS_A_TRANSFER} args each)"
    if wide:
        fatal(
            within,
            f"Block-sharded width concat: {most} transfers per core, past the {2 * TRANSFERS_A_KERNEL} the runtime-arg "
            f"budget allows {budget}. A core's output columns span one transfer per input shard they cover, so the "
            f"{len(call.inputs)} inputs drive this -- the grid width does not. Reduce the number of input tensors.",
        )
    else:
        fatal(
            within,
            f"Block-sharded height concat: {most} transfers per core, past the {2 * TRANSFERS_A_KERNEL} the "
            "runtime-arg "
            f"budget allows {budget}. A core walks only the leading indices its own rows cover -- about {leading} / "
            f"{down} grid rows -- at {len(call.inputs)} inputs each, so *more* grid rows lowers this. Add grid rows, "
            "or reduce the leading dims or the input count.",
        )


def _check_height(padded: Shape, rows: int, shard: int, cores: int, total: int) -> None:
    fatal(
        rows == padded[-2],
        f"Height concat: inputs contribute {rows} rows per leading index but the output's height is {padded[-2]} "
        f"(shape {padded}).",
    )
    fatal(
        shard * cores >= total,
        f"Height concat: output shards span {shard} x {cores} rows, too few for the {total} rows of shape {padded}.",
    )


def _pieces(start: int, end: int, extents: list[int], shards: list[int], leading: int) -> int:
    """Runs of one source shard in the output's rows (or columns) from start to end."""
    count = 0
    for block in range(leading):
        at = block * sum(extents)
        for extent, shard in zip(extents, shards, strict=True):
            first, last = max(start, at), min(end, at + extent)
            if first < last:
                base = block * extent - at
                count += (last - 1 + base) // shard - (first + base) // shard + 1
            at += extent
    return count
