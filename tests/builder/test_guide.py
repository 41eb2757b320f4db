# SPDX-License-Identifier: Apache-2.0
"""The guide's snippets run, in order."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tt_cnn.virtual.devices.opening import open_devices

GUIDE = Path(__file__).parents[2] / "docs" / "builder.md"


def test_the_snippets_of_the_guide_run() -> None:
    snippets = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(snippets) >= 8
    names: dict[str, Any] = {}
    for snippet in snippets:
        exec(compile(snippet, str(GUIDE), "exec"), names)
    assert open_devices() == []


def test_the_guide_knows_every_layer_and_strategy() -> None:
    import tt_cnn.builder

    text = GUIDE.read_text()
    bases = {"ShardedStrategyConfiguration", "SliceStrategyConfiguration"}
    wanted = {n for n in tt_cnn.builder.__all__ if n.startswith("Tt") or n.endswith("StrategyConfiguration")} - bases
    assert [n for n in sorted(wanted) if n not in text] == []
