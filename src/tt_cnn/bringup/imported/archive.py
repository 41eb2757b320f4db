# SPDX-License-Identifier: Apache-2.0
"""The `.pt2` archive: a zip with the graph as JSON and each tensor as its bytes.

`torch.export.load` is not used: it unpickles sample inputs and whatever else the archive says is pickled, evaluates
expressions, and loads compiled libraries. Here only JSON and bytes are read, and pickled tensors only as torch reads
them with `weights_only`.
"""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from tt_cnn.bringup.imported.graph import Unreadable

_COMPILED = "data/aotinductor/"
_LARGEST_JSON = 2**28
_WEIGHTS, _CONSTANTS = "data/weights/", "data/constants/"


class Archive:
    """Records by their names, without the folder that all of them are in."""

    def __init__(self, file: Path) -> None:
        self.file = file
        try:
            self._zip = zipfile.ZipFile(file)
        except (zipfile.BadZipFile, OSError) as error:
            raise Unreadable(f"{file} is no .pt2 file, or not a whole one: {error}") from error
        self._names = {name.partition("/")[2] or name: name for name in self._zip.namelist()}

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    def program(self) -> dict[str, Any]:
        """The exported program as data."""
        if "serialized_exported_program.json" in self._zip.namelist():
            raise Unreadable(f"{self.file} was saved by a torch before 2.8; save it again with torch.export.save")
        models = [name for name in self._names if name.startswith("models/") and name.endswith(".json")]
        if not models:
            compiled = any(name.startswith(_COMPILED) for name in self._names)
            what = "a compiled library, which is not executed, and" if compiled else ""
            raise Unreadable(
                f"{self.file} has {what} no exported program; write it with torch.export.save".replace("  ", " ")
            )
        if len(models) > 1:
            names = ", ".join(name[len("models/") : -len(".json")] for name in models)
            raise Unreadable(f"{self.file} has {len(models)} programs ({names}); save one alone with torch.export.save")
        found = self._json(models[0])
        if not isinstance(found, dict) or "graph_module" not in found:
            raise Unreadable(f"{self.file}: {models[0]} is no exported program")
        return found

    def tensors(self, what: str) -> dict[str, torch.Tensor]:
        """Those of `weights` or `constants`; the same bytes are the same tensor."""
        folder = {"weights": _WEIGHTS, "constants": _CONSTANTS}[what]
        config = f"{folder}model_{what}_config.json"
        if config not in self._names:
            if f"{folder}model.pt" in self._names:
                raise Unreadable(f"{self.file} was saved by a torch before 2.9; save it again with torch.export.save")
            return {}
        try:
            return self._listed(folder, self._json(config)["config"])
        except (KeyError, TypeError, AttributeError, IndexError, OverflowError) as error:
            raise Unreadable(f"{self.file}: {config} is not as torch writes it: {error!r}") from error

    def _listed(self, folder: str, entries: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        found: dict[str, torch.Tensor] = {}
        made: dict[str, torch.Tensor] = {}
        for name, each in entries.items():
            key = json.dumps([each["path_name"], each.get("tensor_meta")], sort_keys=True)
            if key not in made:
                made[key] = self._tensor(folder, name, each)
            found[name] = made[key]
        return found

    def _tensor(self, folder: str, name: str, entry: Mapping[str, Any]) -> torch.Tensor:
        record = self._bytes(folder + entry["path_name"])
        if entry.get("use_pickle"):
            return self._pickled(record, name)
        meta = entry["tensor_meta"]
        dtype = dtype_of(meta["dtype"], self.file)
        sizes, strides = _numbers(meta["sizes"]), _numbers(meta["strides"])
        offset = _numbers([meta["storage_offset"]])[0]
        width = torch._utils._element_size(dtype)
        needed = offset + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True)) + 1
        if 0 in sizes:
            return torch.zeros(sizes, dtype=dtype)
        if offset < 0 or min([0, *sizes, *strides]) < 0 or needed * width > len(record):
            raise Unreadable(f"{self.file}: {name} has {len(record)} bytes; its shape {sizes} needs {needed * width}")
        whole = torch.frombuffer(bytearray(record), dtype=dtype, count=len(record) // width)
        return whole.as_strided(sizes, strides, offset).clone()

    def _pickled(self, record: bytes, name: str) -> torch.Tensor:
        try:
            value = torch.load(io.BytesIO(record), weights_only=True, map_location="cpu")
        except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
            raise Unreadable(f"{self.file}: {name} is pickled and more than a tensor; it is not unpickled") from error
        if not isinstance(value, torch.Tensor):
            raise Unreadable(f"{self.file}: {name} is a {type(value).__name__}; it must be a tensor")
        return value.detach()

    def _json(self, name: str) -> Any:
        if self._zip.getinfo(self._names[name]).file_size > _LARGEST_JSON:
            raise Unreadable(f"{self.file}: {name} is larger than {_LARGEST_JSON // 2**20} MiB")
        try:
            return json.loads(self._bytes(name))
        except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Unreadable(f"{self.file}: {name} is no JSON: {error}") from error

    def _bytes(self, name: str) -> bytes:
        if name not in self._names:
            raise Unreadable(f"{self.file} has no {name}, which it needs")
        try:
            return self._zip.read(self._names[name])
        except (zipfile.BadZipFile, OSError, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
            raise Unreadable(f"{self.file}: {name} cannot be read: {error}") from error


def dtype_of(number: int, file: Path) -> torch.dtype:
    """A scalar type as torch's schema of exported programs numbers it."""
    from torch._export.serde.serialize import _SERIALIZE_TO_TORCH_DTYPE

    found = _SERIALIZE_TO_TORCH_DTYPE.get(number)
    if found is None:
        raise Unreadable(f"{file} has values of a type that torch {torch.__version__} has not (number {number})")
    return found


def _numbers(sizes: list[Mapping[str, Any]]) -> list[int]:
    found = [size.get("as_int") for size in sizes]
    if not all(isinstance(each, int) for each in found):
        raise Unreadable("a weight has a shape that is no number")
    return [int(each) for each in found if each is not None]
