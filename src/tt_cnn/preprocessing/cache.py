# SPDX-License-Identifier: Apache-2.0
"""Converted parameters on disk, in safetensors: tensors and a description in JSON, nothing that could run.

A file's name carries the key: model, weights and options. A file that is truncated, damaged or not ours is no answer,
and is written again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import nn

from tt_cnn import ttnn
from tt_cnn.cache_folder import replacing
from tt_cnn.preprocessing.fingerprint import NotCacheable, fingerprint
from tt_cnn.preprocessing.parameters import ParameterDict, ParameterList

log = logging.getLogger(__name__)

FORMAT = "tt-cnn parameters 1"
_PLAIN = (str, int, float, bool, type(None))


def key_of(model: nn.Module, options: Mapping[str, Any]) -> str:
    """The same for the same model, weights and options; another one when any of them changes."""
    return hashlib.sha256(f"{FORMAT} {fingerprint(model, options)}".encode()).hexdigest()


def path_of(folder: Path, name: str, key: str) -> Path:
    return folder / f"{re.sub(r'[^A-Za-z0-9._-]+', '_', name)}-{key[:24]}.safetensors"


def save(path: Path, key: str, parameters: ParameterDict | ParameterList) -> bool:
    """Write a tree, all or nothing. False, and a line in the log, where it cannot be written."""
    tensors: dict[str, torch.Tensor] = {}
    try:
        tree = _encode(parameters, tensors)
    except NotCacheable as reason:
        log.warning("the converted parameters are not cached: %s", reason)
        return False
    metadata = {"format": FORMAT, "key": key, "tree": json.dumps(tree), "digest": _digest(tensors)}
    try:
        with replacing(path) as beside:
            save_file(tensors, beside, metadata)
    except (OSError, SafetensorError) as error:
        log.warning("the converted parameters are not cached: %s", error)
        return False
    return True


def load(path: Path, key: str, mesh_mapper: Any = None) -> ParameterDict | ParameterList | None:
    """The tree of a file that `save` wrote for this key; None where there is none."""
    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != FORMAT or metadata.get("key") != key:
                raise ValueError("it was not written for these parameters")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no iterator
        if _digest(tensors) != metadata.get("digest"):
            raise ValueError("its contents are damaged")
        decoded = _decode(json.loads(metadata["tree"]), tensors, mesh_mapper)
        if not isinstance(decoded, (ParameterDict, ParameterList)):
            raise ValueError(f"it holds a {type(decoded).__name__}")
    except Exception as error:  # whatever a malformed file leads to
        log.warning("%s is not used and will be written again: %s", path, error)
        return None
    return decoded


def _bytes(value: torch.Tensor) -> Any:
    return value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()


def _digest(tensors: Mapping[str, torch.Tensor]) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(f"{name} {tensors[name].dtype} {tuple(tensors[name].shape)}".encode())
        digest.update(_bytes(tensors[name]))
    return digest.hexdigest()


# --- a tree as JSON: every node is a list of its kind and what it holds ------------------------------------------


def _encode(value: Any, tensors: dict[str, torch.Tensor]) -> list[Any]:
    if isinstance(value, ParameterDict):
        return ["dict", [[key, _encode(child, tensors)] for key, child in _plain_items(value)]]
    if isinstance(value, (ParameterList, list, tuple)):
        kind = "parameters" if isinstance(value, ParameterList) else type(value).__name__
        return [kind, [_encode(child, tensors) for child in value]]
    if isinstance(value, ttnn.Tensor):
        torch_value, replicated = _on_the_host(value)
        name = _add(tensors, torch_value)
        return ["ttnn", name, value.dtype.name, value.layout.name, replicated]
    if isinstance(value, torch.Tensor):
        return ["torch", _add(tensors, value.detach().cpu())]
    if isinstance(value, _PLAIN):
        return ["plain", value]
    raise NotCacheable(f"there is a {type(value).__name__} among them")


def _plain_items(value: ParameterDict) -> Iterable[tuple[Any, Any]]:
    for key, child in value.items():
        if not isinstance(key, (str, int)) or isinstance(key, bool):
            raise NotCacheable(f"an entry has the name {key!r}")
        yield key, child


def _add(tensors: dict[str, torch.Tensor], value: torch.Tensor) -> str:
    name = str(len(tensors))
    tensors[name] = value.clone(memory_format=torch.contiguous_format)
    return name


def _on_the_host(tensor: Any) -> tuple[torch.Tensor, bool]:
    """The values of a tensor, and whether each chip of a mesh has them all."""
    parts = [ttnn.to_torch(part) for part in ttnn.get_device_tensors(tensor)]
    first, *others = parts
    if not all(torch.equal(first, other) for other in others):
        raise NotCacheable("a tensor is distributed over the mesh")
    return first, bool(others)


def _decode(node: list[Any], tensors: Mapping[str, torch.Tensor], mesh_mapper: Any) -> Any:
    kind, content, *rest = node
    if kind == "dict":
        return ParameterDict({key: _decode(child, tensors, mesh_mapper) for key, child in content})
    if kind in _SEQUENCES:
        return _SEQUENCES[kind](_decode(child, tensors, mesh_mapper) for child in content)
    if kind == "torch":
        return tensors[content]
    if kind == "ttnn":
        dtype, layout, replicated = rest
        if replicated and mesh_mapper is None:
            raise ValueError("its tensors belong to a mesh, and no mesh_mapper was given")
        return ttnn.from_torch(
            tensors[content],
            dtype=getattr(ttnn.DataType, dtype),
            layout=getattr(ttnn.Layout, layout),
            mesh_mapper=mesh_mapper if replicated else None,
        )
    return content


_SEQUENCES: dict[str, Any] = {"parameters": ParameterList, "list": list, "tuple": tuple}
