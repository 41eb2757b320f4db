# SPDX-License-Identifier: Apache-2.0
"""Checkpoints as names and tensors. Nothing in a file is run."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tt_cnn.preprocessing.weights.darknet import load_darknet

State = dict[str, torch.Tensor]

WRAPPERS = ("state_dict", "model_state_dict", "model")
"""Names under which trainings put the weights beside other things."""
PARALLEL = "module."
"""What data parallel training puts before every name."""
DARKNET_SUFFIX = ".weights"


def load_checkpoint(path: Path | str) -> State:
    """The tensors of a safetensors file or of a PyTorch checkpoint.

    A pickle that wants anything but tensors and plain values is refused with a ValueError before it does anything.
    """
    path = Path(path)
    return _tensors(read_tensors(path), path)


def read_tensors(path: Path) -> Any:
    """What a safetensors file or a PyTorch file holds, in the form that it has there."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file")
    return _safetensors(path) if _is_safetensors(path) else _unpickled(path)


def load_into(
    model: nn.Module,
    path: Path | str,
    rename: Callable[[Mapping[str, torch.Tensor]], Mapping[str, torch.Tensor]] | None = None,
    *,
    darknet: bool = False,
) -> None:
    """Fill a model from a checkpoint with its own names, or with public ones that `rename` turns into its own.

    `darknet` says that the model's layers come in the order of darknet's files.
    """
    path = Path(path)
    if path.suffix == DARKNET_SUFFIX:
        if not darknet:
            raise ValueError(f"{path} is darknet's, and this model has no counterpart there; give a PyTorch checkpoint")
        load_darknet(model, path)
        return
    state: Mapping[str, torch.Tensor] = load_checkpoint(path)
    if rename is not None and not _needed(model) <= state.keys():
        state = rename(state)
    _fill(model, state, path)


def _fill(model: nn.Module, state: Mapping[str, torch.Tensor], path: Path) -> None:
    """As `load_state_dict`, with the first differences in the message; counters of batch norms may be missing."""
    wanted = model.state_dict()
    needed = _needed(model)
    missing = [name for name in wanted if name in needed and name not in state]
    strange = [name for name in state if name not in wanted]
    other = [
        f"{name} {tuple(state[name].shape)} instead of {tuple(value.shape)}"
        for name, value in wanted.items()
        if name in state and state[name].shape != value.shape
    ]
    kinds = {"lacks": missing, "has, unknown to the model,": strange, "has of another shape": other}
    faults = [f"it {kind} {_first(names)}" for kind, names in kinds.items() if names]
    if faults:
        raise ValueError(f"{path} does not fit {type(model).__name__}: {'; '.join(faults)}")
    model.load_state_dict({name: value.to(wanted[name].dtype) for name, value in state.items()}, strict=False)


def _needed(model: nn.Module) -> set[str]:
    return {name for name in model.state_dict() if not name.endswith("num_batches_tracked")}


def _first(names: list[str], count: int = 3) -> str:
    more = len(names) - count
    return ", ".join(names[:count]) + (f" and {more} more" if more > 0 else "")


def _is_safetensors(path: Path) -> bool:
    """A length in eight bytes, then a table in JSON."""
    with path.open("rb") as file:
        start = file.read(9)
    return path.suffix == ".safetensors" or (len(start) == 9 and start[8:] == b"{")


def _safetensors(path: Path) -> State:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return dict(load_file(path))
    except SafetensorError as error:
        raise ValueError(f"{path} is damaged or no safetensors file: {error}") from error


def _unpickled(path: Path) -> Any:
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        wanted = _wanted_global(str(error))
        if wanted:
            raise ValueError(
                f"{path} was refused: to open it would run code of its maker ({wanted}). Ask for a file of tensors "
                "alone, safetensors or torch.save(model.state_dict())"
            ) from error
        raise ValueError(f"{path} is damaged or no checkpoint of PyTorch") from error
    except (RuntimeError, EOFError, KeyError, IndexError, AttributeError, TypeError) as error:
        raise ValueError(f"{path} is damaged or no checkpoint of PyTorch: {str(error).splitlines()[:1]}") from error


def _wanted_global(message: str) -> str:
    """What the pickle asked for, from PyTorch's refusal."""
    found = re.search(r"GLOBAL (\S+)", message)
    return found[1].strip("`") if found else ""


def _tensors(content: Any, path: Path) -> State:
    for name in WRAPPERS:
        if isinstance(content, Mapping) and isinstance(content.get(name), Mapping):
            content = content[name]
    if not isinstance(content, Mapping):
        raise ValueError(f"{path} holds a {type(content).__name__}, not names and tensors")
    tensors = {str(name): value for name, value in content.items() if isinstance(value, torch.Tensor)}
    if not tensors:
        raise ValueError(f"{path} holds no tensors by name")
    if all(name.startswith(PARALLEL) for name in tensors):
        tensors = {name.removeprefix(PARALLEL): value for name, value in tensors.items()}
    return tensors
