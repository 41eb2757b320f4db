# SPDX-License-Identifier: Apache-2.0
"""`preprocess_model_parameters`: the parameters of a torch model as TT-NN takes them."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import nn

from tt_cnn import ttnn
from tt_cnn.preprocessing import cache
from tt_cnn.preprocessing.batch_norm import find_conv_batch_norm_pairs
from tt_cnn.preprocessing.parameters import ParameterDict, ParameterList
from tt_cnn.preprocessing.tensors import Conversion
from tt_cnn.preprocessing.walking import Chooser, Preprocessor, Walk, everything, move_to_device

log = logging.getLogger(__name__)


class BatchNormNotFolded(RuntimeError):
    """Folding was asked for, and torch.fx could not see through the model."""


def preprocess_model_parameters(
    *,
    model_name: str | None = None,
    version: str | None = None,
    initialize_model: Callable[[], nn.Module],
    convert_to_ttnn: Chooser | None = None,
    custom_preprocessor: Preprocessor | None = None,
    device: Any = None,
    prefix: str | None = "",
    fold_batch_norm: bool | None = None,
    dtype: Any = None,
    layout: Any = None,
    mesh_mapper: Any = None,
    cache_dir: str | os.PathLike[str] | None = None,
) -> ParameterDict | ParameterList:
    """The parameters of the model that `initialize_model` makes, nested as the model is, as TT-NN tensors.

    `custom_preprocessor(model, name[, ttnn_module_args][, convert_to_ttnn])` is asked about every module, the model
    itself first; a dictionary from it takes the place of the module and all inside it, nothing leaves it to us.
    `convert_to_ttnn(model, name)` says which modules become TT-NN tensors; the others stay torch tensors.
    Without either of them, batch norms go into the convolutions before them; `fold_batch_norm` decides otherwise.
    dtype (of parameters with fractions; bfloat16), layout and mesh_mapper hold for what we convert.
    Tensors are on the host unless a `device` is given.

    Results are kept in `cache_dir` where one is given, or where `ttnn.CONFIG.enable_model_cache` is on and
    `model_name` is set, in `ttnn.CONFIG.model_cache_path`. They are found again by the model with all that it holds,
    the options, and the code of the functions among them with all that it refers to. Where some of that cannot be seen
    (a file, the environment, chance, an object that hides what it holds), nothing is kept, and the log says why. Code
    of installed packages counts by the files that are referred to directly; `version` is one more thing to depend on.
    """
    model = initialize_model()
    if not isinstance(model, nn.Module):
        raise TypeError(f"initialize_model returned a {type(model).__name__}; it must return a torch.nn.Module")
    if model.training:
        log.info("putting the model in eval mode")
        model.eval()
    fold = fold_batch_norm
    if fold is None and custom_preprocessor is None and convert_to_ttnn is None:
        fold = True
    options = {
        "version": version,
        "convert_to_ttnn": convert_to_ttnn,
        "custom_preprocessor": custom_preprocessor,
        "prefix": prefix,
        "fold": bool(fold),
        "dtype": dtype,
        "layout": layout,
        "mesh_mapper": mesh_mapper,
    }
    folder = cache_folder(model_name, cache_dir)
    conversion = Conversion(dtype, layout, mesh_mapper)
    strict = fold_batch_norm is True
    return convert_model(
        model,
        lambda: Walk(
            convert_to_ttnn or everything, custom_preprocessor, conversion, _foldable(model, strict) if fold else {}
        ),
        prefix or "",
        device,
        mesh_mapper=mesh_mapper,
        cached=None if folder is None else (folder, model_name or type(model).__name__, options),
    )


def convert_model(
    model: nn.Module,
    make_walk: Callable[[], Walk],
    name: str,
    device: Any,
    *,
    arguments: Any = None,
    mesh_mapper: Any = None,
    cached: tuple[Path, str, dict[str, Any]] | None = None,
) -> ParameterDict | ParameterList:
    """What a walk finds, or what an earlier one left in the cache: a folder, a name, and what the result depends on."""
    path = key = None
    if cached is not None:
        folder, file_name, options = cached
        key = _key(model, options)
        path = cache.path_of(folder, file_name, key) if key else None
    parameters = cache.load(path, key, mesh_mapper) if path and key else None
    if parameters is None:
        parameters = make_walk().module(model, name, arguments)
        if path and key:
            cache.save(path, key, parameters)
    return parameters if device is None else move_to_device(parameters, device)


def cache_folder(model_name: str | None, cache_dir: str | os.PathLike[str] | None = None) -> Path | None:
    if cache_dir is not None:
        return Path(cache_dir)
    if model_name is not None and ttnn.CONFIG.enable_model_cache:
        return Path(ttnn.CONFIG.model_cache_path)
    return None


def _key(model: nn.Module, options: dict[str, Any]) -> str | None:
    try:
        return cache.key_of(model, options)
    except cache.NotCacheable as reason:
        log.warning("the converted parameters are not cached: %s", reason)
        return None


def _foldable(model: nn.Module, strict: bool) -> dict[nn.Module, nn.BatchNorm2d]:
    pairs = find_conv_batch_norm_pairs(model)
    message = pairs.warning(model)
    if message and strict:
        raise BatchNormNotFolded(message)
    if message:
        warnings.warn(message, stacklevel=3)
    modules: dict[str, Any] = dict(model.named_modules())
    return {modules[conv]: modules[bn] for conv, bn in pairs.batch_norm_of.items()}
