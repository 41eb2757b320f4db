# SPDX-License-Identifier: Apache-2.0
"""Architectures of the zoo brought up in memory, as `tt-cnn bringup` does it at budget 0."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save_file

from tt_cnn.bringup.bring_up import BringUp
from tt_cnn.bringup.chips import one_chip_of
from tt_cnn.bringup.source import ModelSource, model_source
from tt_cnn.zoo import architecture, create_architecture


def architecture_source(name: str) -> ModelSource:
    """The architecture as a user names it: the factory in its family's module."""
    return model_source(f"tt_cnn.zoo.{architecture(name).family}:{name}")


def architecture_work(name: str, card: str, batch: int = 1) -> BringUp:
    """The first stage is still to come: `load_state` with `create_architecture(name).state_dict()`."""
    return BringUp(architecture_source(name), (batch, *architecture(name).input_shape), card, name)


def load_state(work: BringUp, state: Mapping[str, torch.Tensor]) -> None:
    """Weights go in as a checkpoint does."""
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / f"{work.name}.safetensors"
        save_file({key: value.detach().clone().contiguous() for key, value in state.items()}, file)
        work.load(file)


def same_model(work: BringUp, card: str, batch: int) -> BringUp:
    """The model of a work that is loaded, for another card or batch; its lowering is still to come.

    What no card has a part in is taken over where the batch is the same: the exported graph and PyTorch's outputs.
    """
    made = BringUp(work.source, (batch, *work.input_shape[1:]), card, work.name)
    made.model, made.weights = work.model, work.weights
    if made.input_shape == work.input_shape:
        made.graph = work.graph
        if work.program is not None:
            made.samples = work.samples
    return made


def fitted_architecture(
    name: str, card: str, batch: int = 1, state: Mapping[str, torch.Tensor] | None = None
) -> BringUp:
    """With settings that a chip of the card takes, and seeded weights where none are given; without the optimiser."""
    work = architecture_work(name, one_chip_of(card), batch)
    load_state(work, create_architecture(name).state_dict() if state is None else state)
    work.lower()
    work.fit()
    return work
