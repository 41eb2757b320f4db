# SPDX-License-Identifier: Apache-2.0
"""The quickest ways of convolutions as they are kept: in the cache folder, and for common shapes in this package.

A file of `shipped/` says for which GPU and which version of Triton it was measured; others measure for themselves, and
so do shapes that it has not. `benchmarks/tunings.py` writes such files. A way is no promise: `tuning.py` takes it only
where it would measure that way itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import astuple
from pathlib import Path
from typing import Any

from tt_cnn import cache_folder
from tt_cnn.virtual.engines.replay.cuda.convolution_arguments import Tiles

SHIPPED = Path(__file__).with_name("shipped")
Way = tuple[str, Tiles | None]
"""`triton` with its tiles, `torch` with a kernel after it, or `cudnn` with what it fuses itself."""
Timed = tuple[Way, float]
"""A way and its microseconds."""


def shipped(gpu: str, triton: str) -> dict[str, Timed]:
    """What this package has of a GPU, by the signatures of convolutions."""
    for kept in map(cache_folder.read_json, sorted(SHIPPED.glob("*.json"))):
        if (kept.get("gpu"), kept.get("triton")) == (gpu, triton):
            return read_ways(kept["ways"])
    return {}


def read_ways(entries: Mapping[str, Any]) -> dict[str, Timed]:
    """The quickest ways that were kept; what is none is left out, to be measured again."""
    found: dict[str, Timed] = {}
    for key, entry in entries.items():
        with contextlib.suppress(TypeError, ValueError):
            name, tiles, microseconds = entry
            if name in ("torch", "cudnn") and tiles is None:
                found[key] = (name, None), float(microseconds)
            elif name == "triton":
                found[key] = (name, Tiles(*tiles)), float(microseconds)
    return found


def written_ways(ways: Mapping[str, Timed]) -> dict[str, Any]:
    """The same as a file has them."""
    return {
        key: (name, None if tiles is None else astuple(tiles), microseconds)
        for key, ((name, tiles), microseconds) in ways.items()
    }
