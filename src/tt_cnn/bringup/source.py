# SPDX-License-Identifier: Apache-2.0
"""The user's model: a factory in a file or in a package, and its weights."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tt_cnn.bringup.inputs import IMAGENET, Normalisation, example
from tt_cnn.models.initialization import measure_statistics
from tt_cnn.preprocessing.weights.checkpoints import load_into

_SAYS_NOTHING = frozenset({"", "create", "make", "build", "get", "model", "net"}) | frozenset(
    f"{verb}_{noun}" for verb in ("create", "make", "build", "get") for noun in ("model", "net")
)
"""Names of factories that do not tell models apart; the module's name is better."""


@dataclass(frozen=True)
class ModelSource:
    """Where the model comes from: `file.py:factory` or `package.module:factory`."""

    spec: str
    factory_name: str
    module: str
    """Name of the module; of a file, as it is imported from the root."""
    file: Path | None
    """Where it is a file of the user's, and no module of an installed package."""
    root: Path | None = None
    """The folder of the file, or of the package that the file is in."""

    whose = "the factory's own"

    @property
    def name(self) -> str:
        """A name for the folder and the registry: `ResNet18` is `resnet18`, `net.py:create_model` is `net`."""
        own = self.factory_name.lower().strip("_")
        if own in _SAYS_NOTHING:
            own = self.module.rpartition(".")[2].lower()
        return own if own.isidentifier() else "model"

    def factory(self) -> Any:
        alone = self.file is not None and self.root == self.file.parent and self.spec.rpartition(":")[0].endswith(".py")
        module = _from_file(self.file) if alone else _from_package(self.module, self.root or Path.cwd())  # type: ignore[arg-type]
        found = getattr(module, self.factory_name, None)
        if not callable(found):
            raise ValueError(f"{self.spec}: {self.module} has no {self.factory_name} that can be called")
        return found

    def create(self) -> nn.Module:
        """The model, from a seed where the factory draws its weights."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = _called(self.factory(), self.spec)
        if not isinstance(model, nn.Module):
            raise ValueError(f"{self.spec} gives a {type(model).__name__}; it must give a torch.nn.Module")
        return model.eval()


def _called(factory: Any, spec: str) -> Any:
    try:
        inspect.signature(factory).bind()
    except TypeError as error:
        raise ValueError(
            f"{spec} cannot be called without arguments: {error}\n"
            "  give a factory that has them: def create(): return Net(num_classes=10)"
        ) from error
    except ValueError:
        pass  # no signature that Python knows
    return factory()


def check_inputs(model: nn.Module, inputs: Sequence[torch.Tensor]) -> None:
    """In torch, before anything else is blamed."""
    if not model.state_dict():
        raise ValueError(f"{type(model).__name__} has no parameters: there are no weights to bring up")
    shapes = " ".join(f"--input {'x'.join(map(str, each.shape))}" for each in inputs)
    try:
        inspect.signature(model.forward).bind(*inputs)
        with torch.no_grad():
            model(*inputs)
    except Exception as error:  # whatever the model raises
        whole = "\n  inputs are float32: give a module that makes whole numbers of its input, with x.long()"
        said = f"{error}{whole if re.search('Long|Int|dtype', str(error)) else ''}"
        raise ValueError(f"{type(model).__name__} does not run in PyTorch with {shapes}: {said}") from error


def model_source(spec: str) -> ModelSource:
    """`net.py:Net`, `path/to/net.py:create` or `package.module:create`."""
    where, colon, factory = spec.rpartition(":")
    if not colon or not where or not factory.isidentifier():
        raise ValueError(
            f"MODEL is {spec!r}; it must be like net.py:Net, package.module:create, net.pt2, net.onnx or timm:resnet18"
        )
    if where.endswith(".py"):
        file = Path(where)
        if not file.is_file():
            raise ValueError(f"MODEL is {spec!r}; there is no file {where}")
        return _of_file(spec, factory, file.resolve())
    beneath = Path.cwd().joinpath(*where.split("."))
    for file in (beneath.with_name(beneath.name + ".py"), beneath / "__init__.py"):
        if file.is_file():
            return ModelSource(spec, factory, where, file, Path.cwd())
    return ModelSource(spec, factory, where, None)


def _of_file(spec: str, factory: str, file: Path) -> ModelSource:
    root = file.parent
    while (root / "__init__.py").is_file():
        root = root.parent
    parts = file.relative_to(root).with_suffix("").parts
    return ModelSource(spec, factory, ".".join(parts), file, root)


def _from_file(file: Path) -> Any:
    name = f"_tt_cnn_bringup_{hashlib.sha256(str(file).encode()).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(file.parent))
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        sys.path.remove(str(file.parent))
    return module


def _from_package(name: str, root: Path) -> Any:
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ValueError(f"MODEL is in {name!r}, which cannot be imported: {error}") from error


@dataclass(frozen=True)
class Weights:
    """What the reference has, and where it is from."""

    origin: str
    """As a sentence for the model card."""
    sha256: str = ""
    """Of the file that was given."""


def give_weights(
    model: nn.Module,
    file: Path | None,
    shapes: Sequence[tuple[int, ...]],
    whose: str = ModelSource.whose,
    normalisation: Normalisation = IMAGENET,
) -> Weights:
    """Those of a file; else the source's own, with batch norms that have seen something.

    A factory that loads no checkpoint leaves batch norms with a mean of 0 and a variance of 1, which no trained network
    has: activations would grow or die from layer to layer, and no PCC would say anything. Their statistics are then
    measured on generated inputs.
    """
    if file is not None:
        load_into(model, file)
        return Weights(f"from {file.name}", hashlib.sha256(file.read_bytes()).hexdigest())
    norms = [module for module in model.modules() if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d))]
    if not norms or any(_has_seen_something(norm) for norm in norms):
        return Weights(whose)
    try:
        measure_statistics(model, [example(shape, max(2, shape[0]), 1, normalisation) for shape in shapes])
    except Exception:  # of a model that takes batches of its own size alone
        measure_statistics(model, *([example(shape, None, seed, normalisation) for shape in shapes] for seed in (1, 2)))
    drawn = ", drawn from seed 0" if whose == ModelSource.whose else ""
    return Weights(f"{whose}{drawn}; statistics of batch norms measured on generated images")


def _has_seen_something(norm: nn.BatchNorm1d | nn.BatchNorm2d) -> bool:
    if norm.running_mean is None or norm.running_var is None:
        return True
    return bool(norm.running_mean.abs().max() > 0 or (norm.running_var - 1).abs().max() > 0)
