# SPDX-License-Identifier: Apache-2.0
"""A model of the project behind one of its pipelines, on the virtual card."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import nn

from tt_cnn.bench.subject import Outputs, Subject
from tt_cnn.models import create_pipeline, create_tt, model_entry
from tt_cnn.models.running import opened_card
from tt_cnn.virtual.engines.precision import EIGHT_BITS, SAMPLES


class VirtualCard(Subject):
    """Inputs are converted and outputs read while the card computes, as the executor allows."""

    def __init__(
        self,
        name: str,
        reference: nn.Module,
        example: torch.Tensor,
        *,
        resolution: tuple[int, int] | None = None,
        executor: str = "trace+2cq",
        numerics: str = "native",
        engine: str = "cpu",
        card: str = "n150",
        precision: str = "float32",
        guard: float | None = None,
    ) -> None:
        entry = model_entry(name)
        named = (numerics, "" if precision == "float32" else precision, executor, "" if engine == "cpu" else engine)
        self.name = " ".join(["tt-cnn", *filter(None, named)])
        start = time.perf_counter()
        options = {"numerics": numerics, "engine": engine, "hazards": "off", "precision": precision, "guard": guard}
        with ExitStack() as opened:
            self.device = opened.enter_context(opened_card(entry, card=card, executor=executor, **options))
            self.model = create_tt(
                name, self.device, reference, resolution=resolution, batch_size=example.shape[0], precision="tuned"
            )
            self.pipeline = opened.enter_context(create_pipeline(self.model, executor))
            self.pipeline.compile(self.model.to_host_input(example))
            for seed in range(1, 1 + SAMPLES if precision in EIGHT_BITS else 1):  # what 8 bits are calibrated on
                size = (example.shape[2], example.shape[3])
                self.run([entry.example_input(batch_size=example.shape[0], resolution=size, seed=seed)])
            self.run([example])  # the first replay compiles it for the host
            self._opened = opened.pop_all()
        self.compile_seconds = time.perf_counter() - start

    def run(self, batches: Sequence[torch.Tensor]) -> list[Outputs]:
        inputs = (self.model.to_host_input(batch) for batch in batches)
        return [self.model.to_torch(outputs) for outputs in self.pipeline.stream(inputs)]

    @property
    def parts(self) -> list[Any]:
        """How the trace was cut for the host; empty where it is not compiled."""
        for trace in self.device.traces.values():
            return list(getattr(trace.replay, "parts", []))
        return []

    @property
    def eight_bit(self) -> list[str]:
        """What became of the layers of each part, where 8 bits were asked for."""
        return [str(part.eight_bit) for part in self.parts if getattr(part, "eight_bit", None) is not None]

    def close(self) -> None:
        self._opened.close()
