# SPDX-License-Identifier: Apache-2.0
"""How good the outputs of a brought-up model are, and the cheapest arithmetic that makes them good enough."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from tt_cnn import ttnn
from tt_cnn.builder.configuration import Configuration
from tt_cnn.builder.convolution_configuration import ConvolutionConfiguration
from tt_cnn.builder.linear_configuration import LinearConfiguration
from tt_cnn.builder.overrides import Assignment, LayerSettings
from tt_cnn.models.registry import ModelEntry, create_tt
from tt_cnn.models.running import opened_card, reference_outputs
from tt_cnn.testing.pcc import agreement

_SUMS: LayerSettings = {"fp32_dest_acc_en": True, "packer_l1_acc": True}
_FINEST: LayerSettings = {"weights_dtype": ttnn.bfloat16, "math_fidelity": ttnn.MathFidelity.HiFi4, **_SUMS}
MIN_PCC = 0.99
HEADROOM = 0.3
"""Share of what outputs may lose that is left where there is a choice: other inputs are harder than those measured."""
LOOSE = 0.95
"""Under such a gate an output is reported: rounding alone makes another one of it."""
BELOW_BFLOAT16 = 0.005
"""What an output may lose beside PyTorch's own bfloat16, where that does not reach `MIN_PCC` with room to spare."""


@dataclass(frozen=True)
class Arithmetic:
    """In what convolutions and linear layers compute."""

    name: str
    settings: LayerSettings
    """Of both."""
    of_convolutions: LayerSettings = field(default_factory=dict)
    """What convolutions have besides. Outputs of linear layers stay in bfloat16: norms and sums read them."""
    of_images: LayerSettings = field(default_factory=lambda: _FINEST)
    """What convolutions that read the model's images have besides. They have few channels, so that it takes little more
    time; and where images are not centred, what they lose is large beside what a batch norm leaves of them."""


_BFLOAT8 = {"weights_dtype": ttnn.bfloat8_b}
RUNGS = (
    Arithmetic(
        "bfloat8_b weights and images, LoFi",
        {**_BFLOAT8, "math_fidelity": ttnn.MathFidelity.LoFi, "packer_l1_acc": True},
        {"output_dtype": ttnn.bfloat8_b},
        of_images={},
    ),
    Arithmetic(
        "bfloat8_b weights and images, HiFi2",
        {**_BFLOAT8, "math_fidelity": ttnn.MathFidelity.HiFi2, **_SUMS},
        {"output_dtype": ttnn.bfloat8_b},
    ),
    Arithmetic("bfloat8_b weights, HiFi2", {**_BFLOAT8, "math_fidelity": ttnn.MathFidelity.HiFi2, **_SUMS}),
    Arithmetic("bfloat16 weights, HiFi2", {"math_fidelity": ttnn.MathFidelity.HiFi2, **_SUMS}),
    Arithmetic("bfloat16 weights, HiFi4", {"math_fidelity": ttnn.MathFidelity.HiFi4, **_SUMS}),
)
"""From cheap to accurate; the optimiser goes on from there, layer by layer, under its guard."""


def arithmetic_settings(
    rung: Arithmetic, configurations: Mapping[str, Configuration], of_images: Collection[str]
) -> Assignment:
    """The settings of a rung for all layers that multiply; `of_images` are those that read the model's images."""
    found: dict[str, LayerSettings] = {}
    for name, configuration in configurations.items():
        if isinstance(configuration, ConvolutionConfiguration):
            found[name] = {**rung.settings, **rung.of_convolutions, **(rung.of_images if name in of_images else {})}
        elif isinstance(configuration, LinearConfiguration):
            found[name] = rung.settings
    return Assignment(found)


@dataclass(frozen=True)
class Sample:
    """An input of the model, and what PyTorch makes of it."""

    images: Any
    """A batch; a tuple where the model has several inputs."""
    expected: tuple[torch.Tensor, ...]
    bfloat16: Mapping[str, float]
    """The PCC of PyTorch's own bfloat16, on the same weights; empty where PyTorch cannot compute it so."""


def sample_of(reference: nn.Module, images: Any, outputs: tuple[str, ...]) -> Sample:
    expected = tuple(reference_outputs(reference, images))
    return Sample(images, expected, _bfloat16_pcc(reference, images, expected, outputs))


@dataclass(frozen=True)
class Accuracy:
    """The PCC of each output against PyTorch in float32, on the sample where it is nearest to its gate."""

    pcc: Mapping[str, float]
    bfloat16: Mapping[str, float]
    """Of PyTorch's own bfloat16, on the same sample; empty where PyTorch cannot compute it so."""
    min_pcc: float = MIN_PCC

    def gate(self, output: str) -> float:
        """What the output must reach: `min_pcc`, or a little less than what bfloat16 reaches in PyTorch."""
        return min(self.min_pcc, max(0.0, self.bfloat16.get(output, 1.0) - BELOW_BFLOAT16))

    @property
    def gates(self) -> dict[str, float]:
        return {output: int(self.gate(output) * 10000) / 10000 for output in self.pcc}

    @property
    def loose(self) -> dict[str, float]:
        """Gates that say little, because PyTorch's own bfloat16 is far off."""
        return {output: self.gate(output) for output in self.pcc if self.gate(output) < min(LOOSE, self.min_pcc)}

    def margin(self, output: str) -> float:
        """How far the output is above its gate; below 0 where it misses it."""
        return self.pcc[output] - self.gate(output)

    @property
    def passed(self) -> bool:
        return all(self.margin(output) >= 0 for output in self.pcc)

    @property
    def headroom(self) -> float:
        """The share of what the outputs may lose that is left, of the output with the least; below 0 where it fails."""
        return min(self.margin(output) / max(1 - self.gate(output), 1e-9) for output in self.pcc)


def _in_bfloat16(images: Any) -> Any:
    return tuple(each.bfloat16() for each in images) if isinstance(images, tuple) else images.bfloat16()


def _bfloat16_pcc(
    reference: nn.Module, images: Any, expected: Sequence[torch.Tensor], outputs: tuple[str, ...]
) -> dict[str, float]:
    """What PyTorch loses when it computes in bfloat16; nothing where an op has no such form on this machine."""
    try:
        rounded = reference_outputs(copy.deepcopy(reference).bfloat16(), _in_bfloat16(images))
    except RuntimeError:
        return {}
    return {
        name: agreement(right, found.float()) for name, right, found in zip(outputs, expected, rounded, strict=True)
    }


def measure(
    entry: ModelEntry, reference: nn.Module, samples: Sequence[Sample], card: str, config: Assignment, min_pcc: float
) -> Accuracy:
    """Runs of the whole model in `device` numerics, up to the first sample on which it is not accurate enough."""
    found: list[Accuracy] = []
    with opened_card(entry, card=card, executor="plain") as device:
        model: Any = create_tt(entry.name, device, reference, batch_size=entry.batch_sizes[0], config=config)
        for sample in samples:
            made = model.to_torch(model(model.place(sample.images)))
            values = {
                name: agreement(right, output)
                for name, right, output in zip(model.outputs, sample.expected, made, strict=True)
            }
            found.append(Accuracy(values, sample.bfloat16, min_pcc))
            if not found[-1].passed:
                break
    nearest = {name: min(found, key=lambda each: each.margin(name)) for name in model.outputs}
    pcc = {name: each.pcc[name] for name, each in nearest.items()}
    bfloat16 = {name: each.bfloat16[name] for name, each in nearest.items() if name in each.bfloat16}
    return Accuracy(pcc, bfloat16, min_pcc)
