# SPDX-License-Identifier: Apache-2.0
"""The smaller files of the folder: the entry, the reference, what is shared, the tests, the demo."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tt_cnn.bringup.inputs import Normalisation
from tt_cnn.bringup.source import ModelSource
from tt_cnn.bringup.sources import Source

WHOLE_SEEDS = (2, 3)
"""Of the inputs on which the whole model is compared, then and in the tests."""
LAYERS_SEED = 1
"""Of the input on which layers are compared, when the folder is written and in its tests."""


@dataclass(frozen=True)
class Facts:
    """What the files say of the model."""

    name: str
    title: str
    task: str
    tt_class: str
    card: str
    input_shape: tuple[int, ...]
    more_inputs: tuple[tuple[int, ...], ...]
    images: Normalisation | None
    """How the model's images are normalised; None where its input is something else."""
    outputs: tuple[str, ...]
    gates: Mapping[str, float]
    l1_small_size: int
    fallbacks: bool

    @property
    def resolution(self) -> tuple[int, int]:
        sizes = self.input_shape[-2:] if len(self.input_shape) == 4 else (*self.input_shape, 1)[1:3]
        return (sizes[0], sizes[1])


def entry_code(facts: Facts) -> str:
    gates = ", ".join(f'"{name}": {gate}' for name, gate in facts.gates.items())
    lines = [
        f'"""{facts.title} on Tenstorrent cards: the entry that the commands of TT-CNN take."""',
        "",
        "from tt_cnn.models import ModelEntry",
        "",
        "from .reference.model import create",
        f"from .tt.model import {facts.tt_class}",
        "",
        "ENTRY = ModelEntry(",
        f'    name="{facts.name}",',
        f'    title="{facts.title}",',
        f'    task="{facts.task}",',
        "    reference=create,",
        f"    tt={facts.tt_class},",
        f"    gates={{{gates}}},",
        f"    resolutions=({facts.resolution},),",
        f"    batch_sizes=({facts.input_shape[0]},),",
    ]
    if facts.images is not None:
        lines += [f"    mean={facts.images.mean},", f"    std={facts.images.std},"]
    else:
        lines.append(f"    input_shape={facts.input_shape},")
    if facts.more_inputs:
        lines.append(f"    more_inputs={facts.more_inputs},")
    lines += [f"    l1_small_size={facts.l1_small_size},", "    own_weights=True,", ")", ""]
    return "\n".join(lines)


def reference_code(source: Source, place: str) -> str:
    """`place` is the package, relative to this file, that has the user's files; empty where they were not copied."""
    if not isinstance(source, ModelSource):
        return source.reference_code()
    where = f"{place}{source.module}"
    return f'''"""The PyTorch model with its weights: what is right."""

from pathlib import Path

from torch import nn

from tt_cnn.preprocessing.weights.checkpoints import load_into

from {where} import {source.factory_name}

WEIGHTS = Path(__file__).parent / "weights.safetensors"


def create() -> nn.Module:
    model = {source.factory_name}()
    load_into(model, WEIGHTS)
    return model.eval()
'''


def common_code(facts: Facts) -> str:
    return f'''"""What the tests and the demo share: the card, and the model on it beside PyTorch."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tt_cnn.models.registry import create_tt, registered
from tt_cnn.models.running import opened_card
from tt_cnn.runtime import is_virtual

CARD = "{facts.card}"
"""The virtual card that the settings in config.py were made for."""


@contextmanager
def model_on_card(executor: str = "plain") -> Iterator[tuple[Any, Any]]:
    """The reference, and the model made from it on a card that is closed at the end."""
    from .. import ENTRY

    reference = ENTRY.reference()
    card = CARD if is_virtual() else None
    with registered(ENTRY), opened_card(ENTRY, card=card, executor=executor) as device:
        yield reference, create_tt(ENTRY.name, device, reference, batch_size=ENTRY.batch_sizes[0])
'''


def test_code(facts: Facts) -> str:
    return f'''"""Does {facts.title} compute on the card what PyTorch computes?"""

from collections.abc import Iterator
from typing import Any

import pytest

from tt_cnn.bringup.comparison import compare_points, losses
from tt_cnn.models.running import reference_outputs
from tt_cnn.testing import assert_agrees

from .. import ENTRY
from ..tt.common import model_on_card
from .points import POINTS


@pytest.fixture(scope="module")
def models() -> Iterator[tuple[Any, Any]]:
    with model_on_card() as both:
        yield both


@pytest.fixture(scope="module")
def lost(models: tuple[Any, Any]) -> dict[str, float]:
    """What each layer loses by itself in a run of the whole model, beside the value that torch has there."""
    reference, model = models
    images = ENTRY.example_input(batch_size=ENTRY.batch_sizes[0], seed={LAYERS_SEED})
    return losses(compare_points(reference, model, images, POINTS), POINTS)


@pytest.mark.parametrize("seed", {list(WHOLE_SEEDS)})
def test_the_whole_model(models: tuple[Any, Any], seed: int) -> None:
    reference, model = models
    images = ENTRY.example_input(batch_size=ENTRY.batch_sizes[0], seed=seed)
    outputs = model.to_torch(model(model.place(images)))
    for name, expected, output in zip(model.outputs, reference_outputs(reference, images), outputs, strict=True):
        assert_agrees(expected, output, ENTRY.gates[name])


@pytest.mark.parametrize("name", POINTS)
def test_layer(lost: dict[str, float], name: str) -> None:
    assert lost[name] <= POINTS[name].loss
'''


def demo_code(facts: Facts) -> str:
    if facts.more_inputs:
        return _demo_of_several_inputs(facts)
    executor = "plain" if facts.fallbacks else "trace+2cq"
    why = "  # a trace cannot hold what runs in torch" if facts.fallbacks else ""
    return f'''"""{facts.title} behind a pipeline, beside PyTorch: python -m {facts.name}.demo.demo."""

from tt_cnn.models import create_pipeline
from tt_cnn.models.running import reference_outputs
from tt_cnn.testing import agreement

from .. import ENTRY
from ..tt.common import model_on_card

EXECUTOR = "{executor}"{why}
INPUTS = 4


def main() -> None:
    batches = [ENTRY.example_input(batch_size=ENTRY.batch_sizes[0], seed=seed) for seed in range(INPUTS)]
    with model_on_card(EXECUTOR) as (reference, model), create_pipeline(model, EXECUTOR) as pipeline:
        inputs = [model.to_host_input(batch) for batch in batches]
        pipeline.compile(inputs[0])
        found = [model.to_torch(output) for output in pipeline.enqueue(inputs).pop_all()]
        for number, (batch, outputs) in enumerate(zip(batches, found, strict=True)):
            rights = reference_outputs(reference, batch)
            for name, right, output in zip(model.outputs, rights, outputs, strict=True):
                print(f"input {{number}}, {{name}} {{tuple(output.shape)}}: PCC {{agreement(right, output):.5f}}")


if __name__ == "__main__":
    main()
'''


def _demo_of_several_inputs(facts: Facts) -> str:
    """A pipeline takes one input: these are run one after the other."""
    return f'''"""{facts.title} beside PyTorch: python -m {facts.name}.demo.demo."""

from tt_cnn.models.running import reference_outputs
from tt_cnn.testing import agreement

from .. import ENTRY
from ..tt.common import model_on_card

RUNS = 4


def main() -> None:
    with model_on_card() as (reference, model):
        for run in range(RUNS):
            inputs = ENTRY.example_input(batch_size=ENTRY.batch_sizes[0], seed=run)
            outputs = model.to_torch(model(model.place(inputs)))
            for name, expected, output in zip(
                model.outputs, reference_outputs(reference, inputs), outputs, strict=True
            ):
                print(f"run {{run}}, {{name}} {{tuple(output.shape)}}: PCC {{agreement(expected, output):.5f}}")


if __name__ == "__main__":
    main()
'''


def readme(facts: Facts, source: Source, sections: Mapping[str, str], figures: Mapping[str, Any]) -> str:
    rows = "\n".join(f"| {key} | {value} |" for key, value in figures.items())
    more = "\n\n".join(f"## {heading}\n\n{text.strip()}" for heading, text in sections.items() if text.strip())
    return f"""# {facts.title} on {facts.card}

Written by `tt-cnn bringup` from `{source.spec}`. It is yours to change: the command never writes over a file that was
edited, and `tt-cnn bringup ... --update` changes `tt/config.py` alone.

| figure | value |
|---|---|
{rows}

Times are predicted for a card; nothing was measured on one.

    reference/model.py     the PyTorch model with its weights
    tt/model.py            the model on the card
    tt/config.py           how every layer runs: what to tune
    tests/                 PCC of the whole model and of every layer
    demo/demo.py           behind a pipeline

    python -m pytest {facts.name}/tests
    python -m {facts.name}.demo.demo
    tt-cnn profile {facts.name}:ENTRY
    tt-cnn optimize {facts.name}:ENTRY

(from the folder that `{facts.name}` is in)

{more}
"""
