# SPDX-License-Identifier: Apache-2.0
"""A profile's figures as plain data: what `tt-cnn profile --json` prints and `tt-cnn memory --json` shares with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tt_cnn.reports.records import Finding, Profile, Row
from tt_cnn.reports.time_sums import TimeSum, by_block, by_layer, by_op


def profile_figures(profile: Profile, top: int = 10) -> dict[str, Any]:
    """Headline, time by op, block and layer, the longest steps, executors, findings. All times are predicted."""
    return {
        **_task(profile),
        "executor": profile.executor,
        "device_ns": profile.device_ns,
        "device_fps": profile.device_fps,
        "device_fps_band": list(profile.device_fps_band),
        "fps": profile.fps,
        "fps_band": list(profile.fps_band),
        "steps": len(profile.rows),
        "multiply_adds_on_card": profile.macs,
        "parameters": profile.model.parameters,
        **memory_figures(profile),
        "pcc": {one.layer: one.pcc for one in profile.accuracy},
        "by_op": _sums("op", by_op(profile)),
        "by_block": _sums("block", by_block(profile)),
        "by_layer": _sums("layer", by_layer(profile)),
        "longest": [row_figures(row) for row in sorted(profile.rows, key=lambda row: -row.cost.ns)[:top]],
        "executors": [vars(one) for one in profile.executors],
        "findings": [_finding(one) for one in profile.findings or ()],
    }


def memory_figures(profile: Profile) -> dict[str, Any]:
    """Of one core's L1, and what `open_device` must be given."""
    return {
        "l1_peak": profile.l1_peak,
        "l1_size": profile.l1_size,
        "tightest": profile.tightest.name if profile.tightest is not None else None,
        "l1_small_size": profile.l1_small_needed,
        "trace_region_size": profile.trace_bytes,
    }


def row_figures(row: Row) -> dict[str, Any]:
    return {
        "index": row.index,
        "layer": row.name,
        "op": row.op,
        "ns": row.cost.ns,
        "band_ns": [row.cost.low_ns, row.cost.high_ns],
        "cores": row.working_cores,
        "available_cores": row.available_cores,
        "fidelity": row.fidelity,
        "utilization": row.utilization,
        "adjusted_utilization": row.adjusted_utilization,
        "l1": vars(row.l1),
    }


def _task(profile: Profile) -> dict[str, Any]:
    model = profile.model
    return {
        "model": model.name,
        "resolution": list(model.resolution),
        "batch_size": model.batch_size,
        "chips": profile.chips,
        "precision": model.precision,
        "card": profile.card,
        "version": profile.version,
    }


def _sums(what: str, sums: Sequence[TimeSum]) -> list[dict[str, Any]]:
    return [{what: one.name, "steps": one.steps, "ns": one.ns} for one in sums]


def _finding(one: Finding) -> dict[str, Any]:
    return {
        "kind": one.kind,
        "layer": one.layer,
        "problem": one.problem,
        "advice": one.advice,
        "saves_ns": one.saves_ns,
        "rows": list(one.rows),
    }
