# SPDX-License-Identifier: Apache-2.0
"""What a live run can run: a model of the registry, an entry or a function of a module, a script."""

from __future__ import annotations

import importlib
import os
import runpy
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_map

if TYPE_CHECKING:
    from tt_cnn.models.registry import ModelEntry

DEFAULT_L1_SMALL = 65536


class ProgramNotFound(ValueError):
    """There is no such model, module, entry or script."""


@dataclass(frozen=True)
class ProgramOptions:
    """How a model is run. Scripts and functions decide for themselves."""

    resolution: tuple[int, int] | None = None
    batch_size: int | None = None
    """The first of the entry's when None."""
    precision: str = "tuned"
    passes: int = 2
    """The first prepares weights; the second is as all that follow."""
    values: bool = False
    """Weights and images that give values worth comparing, instead of any."""
    config: str | None = None
    """A file with settings of layers (`create_tt(..., config=)`)."""


Outputs = Mapping[str, torch.Tensor]
Program = Callable[[], Outputs]
"""Opens a card, runs, closes it; returns what should be compared by value, by name."""


def find_program(name: str, options: ProgramOptions) -> Program:
    """`MODEL`, `module:ENTRY` (a ModelEntry, or a function of an open device), or `script.py`."""
    if name.endswith(".py"):
        return _script(name)
    if ":" in name:
        return _of_module(name, options)
    return _model(_registered(name), options)


def _script(name: str) -> Program:
    path = Path(name)
    if not path.is_file():
        raise ProgramNotFound(f"{name}: there is no such script")

    def run() -> Outputs:
        folder = str(path.resolve().parent)
        sys.path.insert(0, folder)
        sys.argv = [name]
        try:
            runpy.run_path(name, run_name="__main__")
        finally:
            sys.path.remove(folder)
        return {}

    return run


def _of_module(name: str, options: ProgramOptions) -> Program:
    module_name, _, attribute = name.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise
        raise ProgramNotFound(f"{name}: there is no module {module_name} here or on PYTHONPATH") from error
    if not attribute or not hasattr(module, attribute):
        raise ProgramNotFound(f"{name}: the module {module_name} has no {attribute or 'entry without a name'}")
    entry = getattr(module, attribute)
    from tt_cnn.models.registry import ModelEntry

    if isinstance(entry, ModelEntry):
        return _model(entry, options)
    if not callable(entry):
        raise ProgramNotFound(
            f"{name} is a {type(entry).__name__}; it must be a tt_cnn.models.ModelEntry or a function of an open device"
        )
    return _function(entry)


def _function(function: Callable[[Any], Any]) -> Program:
    def run() -> Outputs:
        from tt_cnn import ttnn

        device = ttnn.open_device(device_id=0, l1_small_size=DEFAULT_L1_SMALL)
        try:
            outputs = function(device)
            found = outputs if isinstance(outputs, (tuple, list)) else [outputs]
            return {
                f"output {number}": ttnn.to_torch(tensor).float()
                for number, tensor in enumerate(found)
                if isinstance(tensor, ttnn.Tensor)
            }
        finally:
            ttnn.close_device(device)

    return run


def _registered(name: str) -> ModelEntry:
    from tt_cnn.models.registry import model_entry

    try:
        return model_entry(name)
    except ValueError as error:
        raise ProgramNotFound(f"{error}; a script ends in .py, an entry of your own is module:ENTRY") from error


def _model(entry: ModelEntry, options: ProgramOptions) -> Program:
    """Without a trace and on one queue: traces cannot be captured on a mocked card, and hide the steps in them.

    A user's own entry may have the name of a model of the package; it is taken while the program runs.
    """
    from tt_cnn.models.registry import create_reference, create_tt, registered
    from tt_cnn.models.running import opened_card

    def run() -> Outputs:
        with registered(entry), opened_card(entry, executor="plain") as device:
            reference = create_reference(entry.name) if options.values else entry.reference().eval()
            size, batch = options.resolution or entry.resolution, options.batch_size or entry.batch_sizes[0]
            model = create_tt(
                entry.name,
                device,
                reference,
                resolution=size,
                batch_size=batch,
                precision=options.precision,  # type: ignore[arg-type]
                config=options.config,
            )
            images = entry.example_input(batch_size=batch, resolution=size)
            if not options.values:
                images = tree_map(torch.zeros_like, images)
            found: tuple[torch.Tensor, ...] = ()
            for _ in range(options.passes):
                outputs = model(model.place(images))
                found = model.to_torch(outputs)
                del outputs
            del model
            return dict(zip(entry.gates, found, strict=False)) or {}

    return run
