"""as_tensor: from_torch with a file that keeps the converted values.

The file is our own: a line of JSON that says what the tensor is, then the carriers' bytes. It holds numbers only, so
reading one never runs what somebody put into it.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import NoneType
from typing import Any

import torch

from tt_cnn.virtual.conversion import from_torch
from tt_cnn.virtual.device import MeshDevice
from tt_cnn.virtual.errors import CardError, fatal
from tt_cnn.virtual.mesh import TensorToMesh
from tt_cnn.virtual.ops.operation import Call, Operation, op
from tt_cnn.virtual.storage import CARRIER, HostStorage
from tt_cnn.virtual.tensor import Tensor
from tt_cnn.virtual.transfers import to_device
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import Shape
from tt_cnn.virtual.types.memory_config import DRAM_MEMORY_CONFIG, MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

_MAGIC = "tt-cnn tensor 1"


def cache_path(name: str | Path, dtype: DataType | None, layout: Layout) -> Path:
    """TT-NN's name for the file: what the tensor was asked to be is part of it."""
    return Path(f"{name}_dtype_{dtype.name if dtype else None}_layout_{layout.name}.tensorbin")


def save(tensor: Tensor, path: Path) -> None:
    """Written beside and moved into place, so that a reader never sees half a file."""
    values = [v.contiguous() for v in tensor.host_values("as_tensor")]
    spec = tensor.spec
    head = {
        "format": _MAGIC,
        "shape": list(spec.shape),
        "dtype": spec.dtype.name,
        "layout": spec.layout.name,
        "alignment": list(spec.alignment),
        "parts": len(values),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(json.dumps(head).encode() + b"\n")
            for value in values:
                file.write(value.view(torch.uint8).numpy().tobytes() if value.numel() else b"")
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def load(path: Path) -> Tensor:
    try:
        with path.open("rb") as file:
            head = json.loads(file.readline())
            if head["format"] != _MAGIC:
                raise ValueError(head["format"])
            dtype = DataType[head["dtype"]]
            spec = Spec(Shape(head["shape"]), dtype, Layout[head["layout"]], alignment=tuple(head["alignment"]))
            size = spec.padded_shape.volume() * torch.empty(0, dtype=CARRIER[dtype]).element_size()
            values = [_values(file.read(size), spec, size) for _ in range(int(head["parts"]))]
    except (ValueError, KeyError, TypeError, RuntimeError, UnicodeDecodeError) as error:
        raise CardError(
            f"{path} is not a tensor file of this library: {error}",
            "  delete it; it is made anew from the torch tensor",
        ) from error
    return Tensor.on_host(spec, HostStorage(values))


def _values(data: bytes, spec: Spec, size: int) -> torch.Tensor:
    if len(data) != size:
        raise ValueError(f"it ends after {len(data)} of {size} bytes of values")
    carrier = CARRIER[spec.dtype]
    if not size:
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
        """A file that is there is believed: the torch tensor is not looked at."""
        path = cache_path(a["file"], a["dtype"], a["layout"])
        if path.exists():
            return load(path)
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
