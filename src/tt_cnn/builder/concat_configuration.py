# SPDX-License-Identifier: Apache-2.0
"""The configuration of a place where branches are joined along the channels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder.configuration import Configuration
from tt_cnn.builder.convolution_configuration import BLOCK_FLOATS
from tt_cnn.builder.rules import Rule, flags, instance

PLACES = ("shards", "l1", "dram")


@dataclass(frozen=True, eq=False)
class ConcatConfiguration(Configuration):
    place: str = "shards"
    """`shards`: on the cores of one of the parts, which the others are moved to; where none is in shards, as they are,
    and where the channels do not go together in shards, interleaved in L1. `l1` and `dram`: interleaved in these."""
    layout: Any = None
    """In which the parts are joined. None: in tiles where all parts are tiles and, in shards, have the dtype of the
    result and whole tiles of channels; else in rows."""
    output_layout: Any = None
    """None: as they are joined."""
    output_dtype: Any = None
    """None: that of the parts; where these differ, bfloat16."""
    reallocate: bool = False
    """Whether the result is moved up to close holes in L1."""

    rules = (
        Rule("place", lambda c: c.place in PLACES, " or ".join(map(repr, PLACES))),
        instance("layout", None, ttnn.Layout),
        instance("output_layout", None, ttnn.Layout),
        instance("output_dtype", None, ttnn.DataType),
        *flags("reallocate"),
        Rule(
            "output_layout",
            lambda c: c.output_layout != ttnn.ROW_MAJOR_LAYOUT or c.output_dtype not in BLOCK_FLOATS,
            lambda c: f"None or ttnn.TILE_LAYOUT with output_dtype {c.output_dtype}: block formats exist only as tiles",
        ),
    )
