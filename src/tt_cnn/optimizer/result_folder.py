# SPDX-License-Identifier: Apache-2.0
"""The files of a result: `config.json`, `config.py`, `diff.txt`. None of them is written over another."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tt_cnn.builder.overrides import Assignment
from tt_cnn.optimizer.journal_file import versions
from tt_cnn.optimizer.python_form import python_module
from tt_cnn.optimizer.result import OptimizationResult, Standing
from tt_cnn.optimizer.settings import settings_in_force

CONFIG = "config.json"
PYTHON = "config.py"
DIFF = "diff.txt"
REPORT = "report.html"


def layers_after(result: OptimizationResult) -> Assignment:
    """Every setting of every layer in the result."""
    return settings_in_force(result.configurations, result.after.assignment)


def layers_before(result: OptimizationResult) -> Assignment:
    return settings_in_force(result.before_configurations, result.before.assignment)


def config_data(result: OptimizationResult) -> dict[str, Any]:
    """What `create_tt(..., config=)` reads, and what it was made for."""
    task, after = result.task, result.after
    return {
        "kind": "tt-cnn config",
        "schema": 1,
        "versions": versions(),
        "made_for": {
            "model": task.model,
            "card": task.card,
            "resolution": list(task.resolution),
            "batch_size": after.deployment.batch_size,
            "precision": task.precision,
            **({} if result.parameters is None else {"parameters": result.parameters}),
        },
        "run_with": asdict(after.deployment),
        "predicted": {
            "device_ns": after.prediction.device_ns,
            "input_ns": after.input_ns,
            "l1_peak": after.prediction.l1_peak,
            "measured": task.measured,
        },
        "layers": layers_after(result).to_dict(),
    }


def config_python(result: OptimizationResult, after: bool = True) -> str:
    """The settings in force as a module, after the search or before it."""
    task = result.task
    standing = result.after if after else result.before
    height, width = task.resolution
    what = "found by `tt-cnn optimize`" if after else "before the search"
    title = (
        f"Settings of {task.model}'s layers on {task.card}, {height}x{width}, "
        f"batch {standing.deployment.batch_size}: {what}.\n\n"
        f"{_times(standing, task.measured)}\n\n"
        f"    model = create_tt(MODEL, device, resolution=RESOLUTION, batch_size=BATCH_SIZE, "
        "precision=PRECISION,\n                      config=LAYERS)\n"
    )
    facts = {
        "MODEL": task.model,
        "CARD": task.card,
        "RESOLUTION": task.resolution,
        "BATCH_SIZE": standing.deployment.batch_size,
        "PRECISION": task.precision,
        "EXECUTOR": standing.deployment.executor,
    }
    return python_module(layers_after(result) if after else layers_before(result), title, facts)


def _times(standing: Standing, measured: bool) -> str:
    return (
        f"{'Measured' if measured else 'Predicted'}: {standing.prediction.device_ns / 1e3:.1f} µs on the device, "
        f"{standing.fps:.0f} images/s end to end behind {standing.deployment.executor}."
    )


def config_diff(result: OptimizationResult) -> str:
    """What the search changed, as a unified diff of `config.py`."""
    before, after = (config_python(result, after=which).splitlines(keepends=True) for which in (False, True))
    return "".join(difflib.unified_diff(before, after, f"{PYTHON} (before)", PYTHON, n=2))


def write_files(result: OptimizationResult, folder: Path, report: str) -> Mapping[str, str]:
    """All files but the journal. Returns what was written: names, and what they are for."""
    contents = {
        CONFIG: (
            json.dumps(config_data(result), indent=1) + "\n",
            "for create_tt(..., config=): every layer's settings",
        ),
        PYTHON: (config_python(result), "the same as Python"),
        DIFF: (config_diff(result), "what changed"),
        REPORT: (
            report,
            "the path from the baseline to the result, every attempt, the checklist; the result's profile",
        ),
    }
    for name, (content, _) in contents.items():
        with (folder / name).open("x", encoding="utf-8") as file:  # a file that is there stays
            file.write(content)
    return {name: what for name, (_, what) in contents.items()}
