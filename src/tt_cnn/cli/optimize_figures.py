# SPDX-License-Identifier: Apache-2.0
"""The result of a search as plain data, for `tt-cnn optimize --json`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tt_cnn.optimizer.result import OptimizationResult, Standing


def result_figures(result: OptimizationResult, folder: Path, files: dict[str, str]) -> dict[str, Any]:
    return {
        "model": result.task.model,
        "card": result.task.card,
        "goal": result.task.goal,
        "before": _standing(result.before),
        "after": _standing(result.after),
        "times_better": result.times_better,
        "pcc": dict(result.pcc or {}),
        "holds": result.verification.holds,
        "accurate": result.verification.accurate,
        "attempts": len(result.journal.attempts),
        "kept": len(result.kept),
        "planned": result.planned,
        "seconds": result.seconds,
        "end": result.end,
        "steps": [vars(step) for step in result.steps],
        "folder": str(folder),
        "files": files,
    }


def _standing(standing: Standing) -> dict[str, Any]:
    return {
        "device_ns": standing.prediction.device_ns,
        "device_fps": standing.device_fps,
        "fps": standing.fps,
        "batch_size": standing.deployment.batch_size,
        "executor": standing.deployment.executor,
    }
