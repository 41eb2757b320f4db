# SPDX-License-Identifier: Apache-2.0
"""The same replays with `precision="fp8"`: convolutions in e4m3 under the guard, beside 16 bits."""

from __future__ import annotations

import time
from typing import Any

import torch
from speed_gpu_case import Case, Outputs, outputs_of, seconds, worst_pcc

from tt_cnn.bench import VirtualCard
from tt_cnn.models import create_reference, model_entry
from tt_cnn.virtual.engines.precision import GUARD, SAMPLES
from tt_cnn.virtual.engines.replay.capture import graph_of
from tt_cnn.virtual.engines.replay.graph import ordered

STRETCH = 1.6
"""Times the fastest torch.compile in bfloat16: what is hoped for, not a limit."""


def in_8_bits(case: Case, expected: Outputs) -> dict[str, Any]:
    """On the card where the model has that batch there, else the reference's graph."""
    on_card = case.batch in model_entry(case.model).batch_sizes
    return _of_the_card(case, expected) if on_card else _of_the_reference(case, expected)


def _of_the_card(case: Case, expected: Outputs) -> dict[str, Any]:
    reference = create_reference(case.model)
    card = VirtualCard(case.model, reference, case.example, engine="cuda", precision="fp8")
    try:
        first, second = card.run([case.example, case.example])
        (trace,) = card.device.traces.values()
        (host,) = trace.replay.graphs
        with torch.inference_mode():
            inputs = [torch.rand_like(one) for one in host.launches.inputs]
            called = seconds(lambda: host(inputs))
        (part,) = card.parts
        return _row("the card", part.eight_bit, called, expected, first, second, card.compile_seconds)
    finally:
        card.close()


def _of_the_reference(case: Case, expected: Outputs) -> dict[str, Any]:
    from tt_cnn.virtual.engines.replay.cuda.host import CudaGraph
    from tt_cnn.virtual.engines.replay.fp8.choice import in_fp8

    nodes = graph_of(lambda x: outputs_of(case.module, x), [case.example])
    for node in ordered(nodes):
        node.value = None if node.value is None else node.value.cuda()
    x, example = case.example.cuda(), model_entry(case.model).example_input
    samples = [[example(batch_size=case.batch, seed=seed).cuda()] for seed in range(1, 1 + SAMPLES)]
    with torch.inference_mode():
        start = time.perf_counter()
        plain = CudaGraph(nodes, [x])
        dtype = plain.launches.dtype
        found, host = in_fp8(nodes, samples, plain, lambda some: CudaGraph(some, samples[0], dtype), GUARD)
        spent = time.perf_counter() - start
        host = host or plain
        called = seconds(lambda: host([x]))
        return _row("the reference", found, called, expected, host([x]), host([x]), spent)


def _row(
    of: str, found: Any, called: float, expected: Outputs, first: Outputs, second: Outputs, spent: float
) -> dict[str, Any]:
    return {
        "of": of,
        "seconds": called,
        "pcc": worst_pcc(expected, first),
        "found": str(found),
        "layers": 0 if found.refused else found.layers - len(found.kept),
        "of_layers": found.layers,
        "measured": found.pcc,
        "repeats": all(torch.equal(a, b) for a, b in zip(first, second, strict=True)),
        "compile": spent,
    }


def table(rows: dict[str, dict[str, Any]], over: dict[str, float]) -> list[str]:
    """Beside the rows of 16 bits; `over` says how many times as long the fastest torch.compile takes."""
    lines = [
        f'With `precision="fp8"` and a guard of {GUARD} ({STRETCH} times torch.compile is what is hoped for):',
        "",
        "| model | fp8 ms | 16 bits ms | 16 bits / fp8 | fastest torch.compile / fp8 | layers in e4m3 | PCC | "
        "PCC of the guard's samples | same bits | compile s |",
        f"|{'---|' * 10}",
    ]
    for name, row in rows.items():
        own, plain = row["fp8"], row["ours"]
        lines.append(
            f"| {name} | {own['seconds'] * 1e3:.3f} | {plain['seconds'] * 1e3:.3f} | "
            f"{plain['seconds'] / own['seconds']:.2f} | {over.get(name, float('nan')):.2f} | "
            f"{own['layers']} of {own['of_layers']} | {own['pcc']:.5f} | {own['measured']:.5f} | "
            f"{'yes' if own['repeats'] else 'no'} | {own['compile']:.1f} |"
        )
    return lines
