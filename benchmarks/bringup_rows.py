# SPDX-License-Identifier: Apache-2.0
"""One architecture brought up, and what is reported of it: a row of `bringup.py`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from tt_cnn.bringup.architectures import architecture_work, load_state
from tt_cnn.bringup.bring_up import BringUp
from tt_cnn.bringup.folder import GeneratedFolder
from tt_cnn.reports.records import Profile
from tt_cnn.zoo import architecture, create_architecture

Row = dict[str, Any]
SRC = Path(__file__).resolve().parent.parent / "src"


def zoo_row(name: str, card: str, budget: float, folders: Path) -> Row:
    """Seeded weights with live statistics go in as a checkpoint does; nothing else is said of the model."""
    found = architecture(name)
    row: Row = {"name": name, "title": found.title, "family": found.family, "task": found.task}
    work = architecture_work(name, card)
    return row | brought_up(work, create_architecture(name).state_dict(), budget, folders)


def brought_up(work: BringUp, weights: Mapping[str, torch.Tensor], budget: float, folders: Path) -> Row:
    """All stages as the command runs them; a stage that fails is named, with its reason."""
    row: Row = {"input": "x".join(map(str, work.input_shape))}
    stage = "load"
    try:
        with work.timed(stage):
            load_state(work, weights)
        for stage in ("export", "lower", "describe", "fit"):
            with work.timed(stage):
                getattr(work, stage)()
        if budget > 0:
            stage = "optimize"
            with work.timed(stage):
                work.optimize(budget)
        stage = "compare"
        with work.timed(stage):
            work.compare()
        profile = None
        if not work.facts.fallbacks:
            stage = "profile"
            with work.timed(stage):
                profile = work.profile()
        stage = "write"
        row |= outcome(work, profile)
        work.write(GeneratedFolder(folders / work.name), {}, overwrite=True)
    except Exception as error:  # a row says why, and the others go on
        return row | {
            "failed": f"{stage}: {type(error).__name__}: {str(error).strip().split(chr(10))[0]}",
            "traceback": traceback.format_exc(),
            "seconds": _seconds(work),
        }
    return row


def outcome(work: BringUp, profile: Profile | None) -> Row:
    """Of a work that is fitted."""
    assert work.accuracy is not None and work.program is not None and work.fitted is not None
    assert work.arithmetic is not None and work.prediction is not None
    row: Row = {
        "pcc": dict(work.accuracy.pcc),
        "bfloat16": dict(work.accuracy.bfloat16),
        "gates": {name: work.accuracy.gate(name) for name in work.accuracy.pcc},
        "passed": work.accuracy.passed,
        "arithmetic": work.arithmetic.name,
        "fallbacks": [
            f"{note.node.target} at {note.node.line or note.node.name}: {note.text}"
            for note in work.program.notes
            if note.kind == "fallback"
        ],
        "misfits": len(work.fitted.misfits),
        "device_us": work.prediction.device_ns / 1e3,
        "l1_peak": work.prediction.l1_peak,
        "steps": work.prediction.steps,
        "seconds": _seconds(work),
    }
    if profile is not None:
        row |= profile_figures(profile)
    return row


def profile_figures(profile: Profile) -> Row:
    return {
        "device_us": profile.device_ns / 1e3,
        "device_fps": profile.device_fps,
        "device_fps_band": list(profile.device_fps_band),
        "fps": profile.fps,
        "fps_band": list(profile.fps_band),
        "executor": profile.executor,
        "steps": len(profile.rows),
        "l1_peak": profile.l1_peak,
        "l1_size": profile.l1_size,
        "l1_small_size": profile.l1_small_needed,
        "trace_region_size": profile.trace_bytes,
        "macs": profile.macs,
        "parameters": profile.model.parameters,
    }


def _seconds(work: BringUp) -> dict[str, float]:
    """By stage; what the command takes is their sum."""
    return {stage: round(seconds, 2) for stage, seconds in work.seconds.items()}


def total_seconds(row: Row, optimizer: bool = False) -> float:
    """Of all stages, the optimiser's among them or not."""
    return float(sum(s for stage, s in row["seconds"].items() if optimizer or stage != "optimize"))


def folder_tests(folder: Path) -> Row:
    """The tests that were generated with the folder, run as its owner runs them."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", ".", f"{folder.name}/tests"]
    began = time.monotonic()
    done = _run(command, folder.parent)
    lines = done.stdout.strip().split("\n")
    row: Row = {"tests_pass": done.returncode == 0, "tests": lines[-1], "tests_seconds": time.monotonic() - began}
    if done.returncode != 0:
        row["tests_output"] = [line for line in lines if line.startswith(("FAILED", "ERROR", "E  "))][:20]
    return row


def folder_live(folder: Path, python: Path, card: str) -> Row:
    """The folder's model on the real library's mocked card beside the virtual one, step by step."""
    command = [sys.executable, "-m", "tt_cnn.cli", "conformance", "--live", f"{folder.name}:ENTRY", "--json"]
    done = _run([*command, "--python", str(python)], folder.parent, CARD=card)
    if not done.stdout.lstrip().startswith("{"):
        return {"live": {"failed": " ".join(done.stderr.split())[-500:] or f"exit status {done.returncode}"}}
    found = json.loads(done.stdout[done.stdout.index("{") :])["programs"][0]
    unlike = {f"{each['op']} of {each['layer']}: {each['field']}" for each in found["differences"]}
    return {"live": {key: found[key] for key in ("real", "ends", "steps", "equal")} | {"unlike": sorted(unlike)}}


def _run(command: list[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    ours = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(SRC), **environment}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env={**os.environ, **ours})
