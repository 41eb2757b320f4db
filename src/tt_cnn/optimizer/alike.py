# SPDX-License-Identifier: Apache-2.0
"""Layers that are alike: same kind, same settings, so that what is good for one is good for all of them."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tt_cnn.optimizer.search import Search


def groups_of_alike(search: Search, layers: Sequence[str]) -> list[list[str]]:
    """The layers by their present configurations, in the order of their first ones."""
    groups: dict[str, list[str]] = {}
    for layer in layers:
        key = json.dumps(search.configuration(layer).to_dict(), sort_keys=True)
        groups.setdefault(key, []).append(layer)
    return list(groups.values())


def listed(layers: Sequence[str]) -> str:
    """`conv1`, `conv1 and conv2`, `conv1 and 4 like it`."""
    if len(layers) <= 2:
        return " and ".join(layers)
    return f"{layers[0]} and {len(layers) - 1} like it"
