# SPDX-License-Identifier: Apache-2.0
"""as_tensor: from_torch with a file that keeps the converted values.

The file is our own: a line of JSON that says what the tensor is, then the carriers' bytes. It holds numbers only, so
reading one never runs what was put into it. One that is damaged, or no such file, is written again.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable
from pathlib import Path
from types import NoneType
from typing import Any

import torch

from tt_cnn.cache_folder import replacing
from tt_cnn.virtual.devices.device import MeshDevice
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.layout.transfers import to_device
from tt_cnn.virtual.ops.operation import Call, Operation, op
from tt_cnn.virtual.tensors.conversion import from_torch
from tt_cnn.virtual.tensors.mesh import TensorToMesh
from tt_cnn.virtual.tensors.storage import CARRIER, HostStorage
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import Shape
from tt_cnn.virtual.types.memory_config import DRAM_MEMORY_CONFIG, MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

log = logging.getLogger("tt_cnn.virtual")

_MAGIC = "tt-cnn tensor 2"


def cache_path(name: str | Path, dtype: DataType | None, layout: Layout) -> Path:
    """TT-NN's name for the file: what the tensor was asked to be is part of it."""
    return Path(f"{name}_dtype_{dtype.name if dtype else None}_layout_{layout.name}.tensorbin")


def save(tensor: Tensor, path: Path) -> None:
    """Written whole; where it cannot be, the log says so and nothing is kept."""
    values = [v.contiguous() for v in tensor.host_values("as_tensor")]
    data = b"".join(value.view(torch.uint8).numpy().tobytes() if value.numel() else b"" for value in values)
    spec = tensor.spec
    head = {
        "format": _MAGIC,
        "shape": list(spec.shape),
        "dtype": spec.dtype.name,
        "layout": spec.layout.name,
        "alignment": list(spec.alignment),
        "parts": len(values),
        "digest": hashlib.sha256(data).hexdigest(),
    }
    try:
        with replacing(path) as beside:
            beside.write_bytes(json.dumps(head).encode() + b"\n" + data)
    except OSError as error:
        log.warning("the converted tensor is not kept: %s", error)


def load(path: Path) -> Tensor | None:
    """The tensor of a file that `save` wrote; None, and a line in the log, where it is none."""
    try:
        line, _, data = path.read_bytes().partition(b"\n")
        head = json.loads(line)
        if head["format"] != _MAGIC or head["digest"] != hashlib.sha256(data).hexdigest():
            raise ValueError("it is damaged, or of another version")
        dtype = DataType[head["dtype"]]
        spec = Spec(Shape(head["shape"]), dtype, Layout[head["layout"]], alignment=tuple(head["alignment"]))
        parts = int(head["parts"])
        size = spec.padded_shape.volume() * torch.empty(0, dtype=CARRIER[dtype]).element_size()
        if parts < 1 or parts * size != len(data):
            raise ValueError(f"it has {len(data)} bytes of values, not {parts * size}")
        values = [_values(data[part * size : (part + 1) * size], spec) for part in range(parts)]
    except Exception as error:  # whatever a malformed file leads to
        log.warning("%s is not used and will be written again: %s", path, error)
        return None
    return Tensor.on_host(spec, HostStorage(values))


def _values(data: bytes, spec: Spec) -> torch.Tensor:
    carrier = CARRIER[spec.dtype]
    if not data:
        return torch.zeros(tuple(spec.padded_shape), dtype=carrier)
    return torch.frombuffer(bytearray(data), dtype=carrier).reshape(tuple(spec.padded_shape))


@op("as_tensor")
class AsTensor(Operation):
    def arguments(
        self,
        tensor: Any,
        dtype: DataType | None = None,
        *,
        layout: Layout | None = Layout.ROW_MAJOR,
        device: MeshDevice | None = None,
        memory_config: MemoryConfig | None = None,
        cache_file_name: str | Path | None = None,
        preprocess: Callable[[Any], Any] | None = None,
        mesh_mapper: TensorToMesh | None = None,
        cache_dump_mode: Any = None,
    ) -> Call:
        if not isinstance(cache_file_name, (str, Path, NoneType)):
            raise TypeError(f"cache_file_name is a {type(cache_file_name).__name__}; it must be a path or None")
        fatal(device is None or memory_config is not None, "memory_config must be specified when device is specified")
        return Call(
            [],
            source=tensor,
            dtype=dtype,
            layout=layout or Layout.ROW_MAJOR,
            on=device,
            memory_config=memory_config,
            file=cache_file_name,
            preprocess=preprocess,
            mapper=mesh_mapper,
        )

    def shortcut(self, call: Call) -> Tensor:
        a = call.attributes
        host = self._from_file(a) if a["file"] is not None else self._convert(a)
        config = a["memory_config"] or DRAM_MEMORY_CONFIG
        return host if a["on"] is None else to_device(host, a["on"], config)

    def _from_file(self, a: dict[str, Any]) -> Tensor:
        """A file that is there and whole is believed: the torch tensor is not looked at."""
        path = cache_path(a["file"], a["dtype"], a["layout"])
        kept = load(path) if path.exists() else None
        if kept is not None:
            return kept
        host = self._convert(a)
        save(host, path)
        return host

    def _convert(self, a: dict[str, Any]) -> Tensor:
        source = a["preprocess"](a["source"]) if a["preprocess"] is not None else a["source"]
        made = from_torch(
            source, a["dtype"], layout=a["layout"], memory_config=a["memory_config"], mesh_mapper=a["mapper"]
        )
        fatal(made is not None, "ttnn.as_tensor was given None and no file to read")
        assert made is not None
        return made
