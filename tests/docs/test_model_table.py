# SPDX-License-Identifier: Apache-2.0
"""The README's table of models is the registry's."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

from tt_cnn import models
from tt_cnn.models import model_entry

README = Path(__file__).parents[2] / "README.md"


def test_the_table_names_every_model_as_it_is() -> None:
    rows = {}
    for line in README.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 5 and cells[0].startswith("`"):
            rows |= dict.fromkeys(re.findall(r"`(\w+)`", cells[0]), cells[2:])
    folders = [found.name for found in pkgutil.iter_modules(models.__path__) if found.ispkg]
    entries = [entry for name in folders for entry in importlib.import_module(f"tt_cnn.models.{name}").MODELS]
    assert sorted(rows) == sorted(entry.name for entry in entries)
    for name, (task, sizes, batches) in rows.items():
        entry = model_entry(name)
        assert task == entry.task
        assert sizes == ", ".join(f"{height}x{width}" for height, width in entry.resolutions)
        assert batches == ", ".join(map(str, entry.batch_sizes))


def test_the_pictures_are_there_and_small() -> None:
    pictures = re.findall(r"!\[[^]]+\]\((\S+)\)", README.read_text(encoding="utf-8"))
    assert len(pictures) == 2
    for name in pictures:
        assert 10_000 < (README.parent / name).stat().st_size < 200_000
