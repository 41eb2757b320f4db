# SPDX-License-Identifier: Apache-2.0
"""The plan of YOLOv4 at 320x320 is the real library's: every op and output as often as the table says.

The table counts distinct pairs of op and output (with a convolution's parameters); the arithmetic of box decoding is
not in it.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.virtual.networks.noting import Note, NotedTTNN, PlanOnlyCard
from tests.virtual.networks.yolov4 import YOLOv4

TABLE = Path(__file__).with_name("yolov4_320.txt")
BOX_ARITHMETIC = {"slice", "multiply", "sigmoid", "exp", "subtract"}
FULL_GRID = "grid={[0-0 - 7-7]}"


def test_every_op_leaves_what_the_real_library_leaves() -> None:
    card = PlanOnlyCard(l1_small_size=32768)
    ttnn = NotedTTNN(card)
    network = YOLOv4(ttnn, card)
    boxes, confidences = network(network.input())
    assert tuple(boxes.shape) == (1, 1, 6384, 4) and tuple(confidences.shape) == (1, 6300, 80)
    rows = [line.split(" | ", 1) for line in TABLE.read_text().splitlines()]
    assert Counter(row(n) for n in ttnn.notes if n.op not in BOX_ARITHMETIC) == {pair: int(n) for n, pair in rows}


def row(note: Note) -> str:
    """A line of the table without its count."""
    output = note.output.replace(FULL_GRID, "8×8")
    return f"{note.op} | {output}" + (f" | {convolution(note)}" if note.op == "conv2d" else "")


def convolution(note: Note) -> str:
    given, config = note.options, note.options["conv_config"]
    (kernel, _), (stride, _) = given["kernel_size"], given["stride"]
    block = f" abh={config.act_block_h_override}" if config.act_block_h_override else ""
    reshard = " reshard=True" if config.reshard_if_not_optimal else ""
    return (
        f"k=({kernel},{kernel}) s=({stride},{stride}) cin={given['in_channels']} cout={given['out_channels']} "
        f"layout={config.shard_layout.name.removesuffix('_SHARDED')}{block}{reshard} w={config.weights_dtype.name} "
        f"out={given['dtype'].name} act={'yes' if config.activation else None}"
    )
