"""How good the outputs of a brought-up model are, and the cheapest arithmetic that makes them good enough."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from tt_cnn import ttnn
from tt_cnn.builder.configuration import Configuration
from tt_cnn.builder.convolution_configuration import ConvolutionConfiguration
from tt_cnn.builder.linear_configuration import LinearConfiguration
from tt_cnn.builder.overrides import Assignment, LayerSettings
from tt_cnn.models.registry import ModelEntry, create_tt
from tt_cnn.models.running import opened_card, reference_outputs
from tt_cnn.testing.pcc import comp_pcc

MIN_PCC = 0.99
BELOW_BFLOAT16 = 0.005
"""What an output may lose beside PyTorch's own bfloat16, where that does not reach `MIN_PCC` with room to spare."""


@dataclass(frozen=True)
class Arithmetic:
    """In what convolutions and linear layers compute."""

    name: str
    settings: LayerSettings


_SUMS: LayerSettings = {"fp32_dest_acc_en": True, "packer_l1_acc": True}
RUNGS = (
    Arithmetic(
        "bfloat8_b weights, HiFi2",
        {"weights_dtype": ttnn.bfloat8_b, "math_fidelity": ttnn.MathFidelity.HiFi2, **_SUMS},
    ),
    Arithmetic("bfloat16 weights, HiFi2", {"math_fidelity": ttnn.MathFidelity.HiFi2, **_SUMS}),
    Arithmetic("bfloat16 weights, HiFi4", {"math_fidelity": ttnn.MathFidelity.HiFi4, **_SUMS}),
)
"""From cheap to accurate, all with float32 sums; the optimiser goes further down, layer by layer, under its guard."""


def arithmetic_settings(rung: Arithmetic, configurations: Mapping[str, Configuration]) -> Assignment:
    """The settings of a rung for all layers that multiply."""
    return Assignment(
        {
            name: rung.settings
            for name, configuration in configurations.items()
            if isinstance(configuration, (ConvolutionConfiguration, LinearConfiguration))
        }
    )


@dataclass(frozen=True)
class Accuracy:
    """The PCC of each output against PyTorch in float32."""

    pcc: Mapping[str, float]
    bfloat16: Mapping[str, float]
    """Of PyTorch's own bfloat16, on the same weights and the same input; empty where PyTorch cannot compute it so."""

    def gate(self, output: str) -> float:
        """What the output must reach: 0.99, or a little less than what bfloat16 reaches in PyTorch."""
        return min(MIN_PCC, max(0.0, self.bfloat16.get(output, 1.0) - BELOW_BFLOAT16))

    @property
    def gates(self) -> dict[str, float]:
        return {output: int(self.gate(output) * 10000) / 10000 for output in self.pcc}

    @property
    def passed(self) -> bool:
        return all(value >= self.gate(output) for output, value in self.pcc.items())


def _in_bfloat16(images: Any) -> Any:
    return tuple(each.bfloat16() for each in images) if isinstance(images, tuple) else images.bfloat16()


def bfloat16_pcc(reference: nn.Module, images: Any, outputs: tuple[str, ...]) -> dict[str, float]:
    """What PyTorch loses when it computes in bfloat16; nothing where an op has no such form on this machine."""
    expected = reference_outputs(reference, images)
    try:
        rounded = reference_outputs(copy.deepcopy(reference).bfloat16(), _in_bfloat16(images))
    except RuntimeError:
        return {}
    return {
        name: float(comp_pcc(right, found.float(), 0)[1])
        for name, right, found in zip(outputs, expected, rounded, strict=True)
    }


def measure(
    entry: ModelEntry,
    reference: nn.Module,
    images: Any,
    card: str,
    config: Assignment,
    bfloat16: Mapping[str, float],
) -> Accuracy:
    """One run of the whole model in `device` numerics."""
    expected = reference_outputs(reference, images)
    with opened_card(entry, card=card, executor="plain") as device:
        model: Any = create_tt(entry.name, device, reference, batch_size=entry.batch_sizes[0], config=config)
        found = model.to_torch(model(model.place(images)))
    values = {
        name: float(comp_pcc(right, output, 0)[1])
        for name, right, output in zip(model.outputs, expected, found, strict=True)
    }
    return Accuracy(values, bfloat16)
