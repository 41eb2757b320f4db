# SPDX-License-Identifier: Apache-2.0
"""What a step does to its values on their way out, and in which pieces it adds them up, as the library takes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tt_cnn.virtual.engines.replay.graph import Node
from tt_cnn.virtual.engines.replay.kernels.fusion import Fused, is_simple, row_of
from tt_cnn.virtual.engines.replay.kernels.instructions import (
    ACTIVATIONS,
    BINARIES,
    BLOCKS,
    ROW,
    STAGES,
    Piece,
    Stage,
    padded_bias,
)


def simple_end(fused: Fused) -> dict[str, Any] | None:
    """An activation and an addition in either order are fields of the step; None where there is more."""
    if not is_simple(fused.chain):
        return None
    fields: dict[str, Any] = {"other_first": int(fused.other_first)}
    if fused.activation is not None:
        name, *params = fused.activation.params
        fields |= {"activation": ACTIVATIONS[name], **dict(zip("ab", map(float, params), strict=False))}
    return fields


def stages_of(fused: Fused) -> tuple[list[Stage], list[torch.Tensor]]:
    """The stages of any chain, and the rows of numbers that they point to."""
    stages, rows = [], []
    before = None if fused.chain[0] is fused.node else fused.node
    for node in fused.chain:
        if node.kind == "unary":
            name, *params = node.params
            stages.append(Stage(kind=STAGES[name], **dict(zip("ab", map(float, params), strict=False))))
        elif node.kind == "blocks":
            stages.append(Stage(kind=BLOCKS[node.params[:2]]))
        else:
            stage, row = _binary(node, before)
            stages.append(stage)
            rows += [] if row is None else [row]
        before = node
    return stages, rows


def _binary(node: Node, before: Node | None) -> tuple[Stage, torch.Tensor | None]:
    """`before` is what the step holds so far; one that begins with the operation holds the left of two images."""
    rows = [row_of(one, node.shape) for one in node.inputs]
    row = next((one for one in rows if one is not None), None)
    if row is not None:
        on_left = rows[0] is not None
        padded = padded_bias(row, node.shape[1])
        return Stage(kind=BINARIES[node.params[0]][on_left] + ROW, row=padded.data_ptr()), padded
    return Stage(kind=BINARIES[node.params[0]][node.inputs[1] is before]), None


def pieces_of(groups: Sequence[Sequence[Any]], channels: int) -> list[Piece]:
    """Pieces one after the other, the last of each group but the last one rounding the sums."""
    found = []
    for number, group in enumerate(groups, 1):
        inside = [one for one in group if one.channels[0] < channels]
        for one in inside:
            last = min(one.channels[1], channels)
            rounds = int(one is inside[-1] and number < len(groups))
            found.append(Piece(top=one.rows[0], bottom=one.rows[1], first=one.channels[0], last=last, rounds=rounds))
    return found
