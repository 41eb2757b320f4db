# SPDX-License-Identifier: Apache-2.0
"""The models: one folder each, found by looking, made by name with the same arguments everywhere.

A folder is a package with `MODELS`, the entries it brings. A user's own entry comes in with `register`.
"""

from __future__ import annotations

import importlib
import pkgutil
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from tt_cnn.builder.overrides import LayerSettings, overriding, read_settings
from tt_cnn.models.initialization import initialize, natural_images
from tt_cnn.models.tt_model import Precision, TtModel
from tt_cnn.preprocessing.weights.checkpoints import load_into

Task = Literal["classification", "detection", "segmentation"]
Resolution = tuple[int, int]


@dataclass(frozen=True)
class ShippedWeights:
    """Weights in the package: the file, and the options of the reference that they belong to."""

    path: Path
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ModelEntry:
    """What the project knows of a model before it is made."""

    name: str
    title: str
    task: Task
    reference: Callable[..., nn.Module]
    """(**options) -> the PyTorch model; its `forward(images)` takes NCHW and returns a tensor or a tuple of them."""
    tt: Callable[..., TtModel]
    """(reference, device, *, resolution, batch_size, precision) -> the model on the card."""
    gates: Mapping[str, float]
    """For each output by its name, the PCC that the tuned precision must reach."""
    resolutions: tuple[Resolution, ...]
    """(height, width) of the inputs it is tuned for; the first is the default."""
    batch_sizes: tuple[int, ...] = (1,)
    mean: tuple[float, float, float] = (0.0, 0.0, 0.0)
    std: tuple[float, float, float] = (1.0, 1.0, 1.0)
    """The reference takes (image - mean) / std, the image's values between 0 and 1."""
    l1_small_size: int = 32768
    """What `open_device` must be given for it."""
    shipped: ShippedWeights | None = None
    load_public: Callable[[Mapping[str, torch.Tensor]], Mapping[str, torch.Tensor]] | None = None
    """The names of the public checkpoint turned into the reference's; None where they are the same."""
    darknet: bool = False
    """Whether the reference defines its layers in the order of darknet's weights file."""
    aliases: tuple[str, ...] = ()
    own_weights: bool = False
    """Whether `reference()` comes with its weights; else seeded ones are put into it where no others are given."""
    input_shape: tuple[int, ...] | None = None
    """Of one batch, where the model takes something else than images of three channels."""
    more_inputs: tuple[tuple[int, ...], ...] = ()
    """The shapes of further inputs, of models that have several; a pipeline takes one alone."""

    @property
    def resolution(self) -> Resolution:
        return self.resolutions[0]

    def check_resolution(self, size: Resolution) -> None:
        if size not in self.resolutions:
            raise ValueError(f"resolution is {size}; {self.title} is tuned for {_listed(self.resolutions)}")

    def example_input(self, *, batch_size: int = 1, resolution: Resolution | None = None, seed: int = 0) -> Any:
        """Seeded images, (batch, 3, height, width), as the reference takes them; noise where it takes no images,
        and a tuple where it takes several inputs."""
        if self.input_shape is not None:
            generator = torch.Generator().manual_seed(seed)
            shapes = (self.input_shape, *self.more_inputs)
            batches = [shape[0] * batch_size // self.input_shape[0] for shape in shapes]  # one may be 1 for all images
            made = tuple(
                torch.randn(n, *shape[1:], generator=generator) for n, shape in zip(batches, shapes, strict=True)
            )
            return made if self.more_inputs else made[0]
        return self.normalize(natural_images(batch_size, resolution or self.resolution, seed))

    def normalize(self, images: torch.Tensor) -> torch.Tensor:
        """NCHW images between 0 and 1 as the reference takes them."""
        mean, std = (torch.tensor(values).view(1, 3, 1, 1) for values in (self.mean, self.std))
        return (images - mean) / std


_ENTRIES: dict[str, ModelEntry] = {}


def register(entry: ModelEntry, *, replace: bool = False) -> None:
    """Make a model known by its name and aliases; `replace` takes the place of others that have them."""
    for name in (entry.name, *entry.aliases):
        if name in _ENTRIES and not replace:
            raise ValueError(f"there is a model {name!r} already ({_ENTRIES[name].title}); choose another name")
    for name in (entry.name, *entry.aliases):
        _ENTRIES[name] = entry


@contextmanager
def registered(entry: ModelEntry) -> Iterator[ModelEntry]:
    """Known by its name for a while, in place of a former one of that name."""
    _discover()  # else a shipped model of that name would come later, and find it taken
    former = _ENTRIES.get(entry.name)
    _ENTRIES[entry.name] = entry
    try:
        yield entry
    finally:
        _ENTRIES.pop(entry.name)
        if former is not None:
            _ENTRIES[entry.name] = former


def list_models(task: Task | None = None) -> list[str]:
    """The names of all models, or of those for one task."""
    _discover()
    return sorted({e.name for e in _ENTRIES.values() if task in (None, e.task)})


def model_entry(name: str) -> ModelEntry:
    """What is known of one model."""
    _discover()
    if name not in _ENTRIES:
        near = get_close_matches(name, list_models(), n=1)
        meant = f"did you mean {near[0]}? There" if near else "there"
        raise ValueError(f"there is no model {name!r}; {meant} are {', '.join(list_models())}")
    return _ENTRIES[name]


def create_reference(
    name: str, *, seed: int | None = None, shipped: bool = False, weights: Path | str | None = None, **options: Any
) -> nn.Module:
    """The PyTorch model in eval mode, with the weights that the package ships, a checkpoint's, or else seeded ones.

    `weights` is a file with the reference's names or the public checkpoint's (safetensors, PyTorch, darknet).
    Seeded weights (seed 0 when none is given) come with batch-norm statistics measured on images, so that
    activations have the sizes that they have in a trained model.
    """
    entry = model_entry(name)
    if shipped + (seed is not None) + (weights is not None) > 1:
        raise ValueError("of shipped=True, seed and weights only one can be given; the weights come from one of them")
    if shipped:
        return _with_shipped_weights(entry, options)
    model = entry.reference(**options)
    if weights is not None:
        load_into(model, weights, entry.load_public, darknet=entry.darknet)
        return model.eval()
    if entry.own_weights and seed is None:
        return model.eval()
    initialize(model, entry.resolution, seed or 0, entry.normalize)
    return model.eval()


def create_tt(
    name: str,
    device: Any,
    reference: nn.Module | None = None,
    *,
    resolution: Resolution | None = None,
    batch_size: int = 1,
    precision: Precision = "tuned",
    config: Mapping[str, LayerSettings] | Path | str | None = None,
) -> TtModel:
    """The model on the card, from the weights of `reference` (a seeded one when none is given).

    `batch_size` is a chip's; on a mesh the batch of the whole is that times the chips. `config` replaces settings of
    layers by their names: a `config.json` that `tt-cnn optimize` wrote, or a mapping.
    """
    entry = model_entry(name)
    size = resolution or entry.resolution
    if size not in entry.resolutions:
        tuned = " or ".join(f"{height}x{width}" for height, width in entry.resolutions)
        raise ValueError(f"resolution is {'x'.join(map(str, size))}; {entry.title} is tuned for {tuned}")
    if batch_size not in entry.batch_sizes:
        raise ValueError(f"batch_size is {batch_size}; {entry.title} is tuned for {_listed(entry.batch_sizes)}")
    if precision not in ("tuned", "bfloat16"):
        raise ValueError(f"precision is {precision!r}; it must be 'tuned' or 'bfloat16'")
    model = create_reference(name) if reference is None else reference
    settings: Mapping[str, LayerSettings] | None
    if isinstance(config, (str, Path)):
        used_for = {"model": entry.name, "resolution": size, "batch_size": batch_size, "precision": precision}
        settings = read_settings(config, **used_for, parameters=_parameters(model))
    else:
        settings = config
    with overriding(settings) as building:
        made = entry.tt(model, device, resolution=size, batch_size=batch_size, precision=precision)
    if building.unused:
        raise ValueError(f"config has settings of {building.unused[0]!r}; {entry.title} has no such layer")
    made.layers = {layer.name: layer for layer in building.layers}
    made.again = _maker(entry, reference, model, size, batch_size, precision, settings)
    return made


def _maker(
    entry: ModelEntry,
    given: nn.Module | None,
    used: nn.Module,
    resolution: Resolution,
    batch_size: int,
    precision: Precision,
    settings: Mapping[str, LayerSettings] | None,
) -> Callable[[Any], TtModel | None]:
    """How the same model is made on another device, without keeping its reference alive."""
    alive = weakref.ref(used) if given is not None else None
    parameters = _parameters(used)

    def again(device: Any) -> TtModel | None:
        reference = alive() if alive is not None else None
        if reference is None:
            reference = entry.reference().eval()
            if _parameters(reference) != parameters:  # the one that it was made from had other options
                return None
        options: dict[str, Any] = {"resolution": resolution, "batch_size": batch_size, "precision": precision}
        return create_tt(entry.name, device, reference, **options, config=settings)

    return again


def _parameters(model: nn.Module) -> int:
    return sum(each.numel() for each in model.parameters())


def _with_shipped_weights(entry: ModelEntry, options: dict[str, Any]) -> nn.Module:
    if entry.shipped is None:
        with_weights = [e.name for e in _ENTRIES.values() if e.shipped is not None]
        raise ValueError(f"no weights of {entry.title} are shipped; there are for {', '.join(sorted(with_weights))}")
    from safetensors.torch import load_file

    model = entry.reference(**{**entry.shipped.options, **options})
    model.load_state_dict({name: value.float() for name, value in load_file(entry.shipped.path).items()})
    return model.eval()


def _discover() -> None:
    package = importlib.import_module("tt_cnn.models")
    for found in pkgutil.iter_modules(package.__path__):
        if not found.ispkg:
            continue
        for entry in importlib.import_module(f"tt_cnn.models.{found.name}").MODELS:
            if entry.name not in _ENTRIES:
                register(entry)


def _listed(values: tuple[Any, ...]) -> str:
    return " or ".join(map(str, values))
