# SPDX-License-Identifier: Apache-2.0
"""An ONNX file, loaded and checked by ONNX's own package: its checker, its inliner and its shape inference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tt_cnn.bringup.imported.graph import Unreadable

OLDEST_OPSET = 13
_DOMAINS = frozenset(["", "ai.onnx"])
_LARGEST_CHECKED = 2**31 - 2**20
"""Bytes beyond which a model is no message that the checker and the shape inference take."""


def onnx_package() -> Any:
    try:
        import onnx
    except ImportError as error:
        raise Unreadable(
            'an .onnx file needs the package onnx, which is not installed: pip install "tt-cnn[cpu]"'
        ) from error
    return onnx


def load_onnx(file: Path, shapes: Sequence[tuple[int, ...]] | None) -> Any:
    """The model with inferred shapes; `shapes` are those of its inputs where the file leaves sizes open."""
    onnx = onnx_package()
    try:
        model = onnx.load_model(file, load_external_data=False)
    except Exception as error:  # protobuf raises its own kinds, which differ from release to release
        raise Unreadable(f"{file} is no ONNX file, or not a whole one: {error}") from error
    if not model.graph.node and not model.graph.output:
        raise Unreadable(f"{file} is no ONNX file: it has no graph")
    opset_of(model, file)
    _load_external_data(model, file)
    if model.ByteSize() > _LARGEST_CHECKED:
        raise Unreadable(f"{file} is of {model.ByteSize() / 2**30:.1f} GiB; ONNX checks models up to 2 GiB")
    _check(onnx, model, file)
    if model.functions:
        from onnx.inliner import inline_local_functions

        model = inline_local_functions(model)
    _give_shapes(model, shapes, file)
    try:
        return onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    except Exception as error:
        said = str(error).strip().split("\n")[0]
        raise Unreadable(f"{file}: ONNX cannot infer its shapes: {said}") from error


def opset_of(model: Any, file: Path) -> int:
    """The version of ONNX's ops that the model is written in."""
    newest = onnx_package().defs.onnx_opset_version()
    versions = [each.version for each in model.opset_import if each.domain in _DOMAINS]
    if not versions:
        raise Unreadable(f"{file} does not say which version of ONNX's ops it has")
    found = int(versions[0])
    if not OLDEST_OPSET <= found <= newest:
        raise Unreadable(
            f"{file} has opset {found}; from {OLDEST_OPSET} to {newest} are read: convert it with "
            "onnx.version_converter.convert_version, or export it again"
        )
    return found


def inputs_of(model: Any) -> list[Any]:
    """What the user gives: older files name the weights among the inputs, too."""
    held = {each.name for each in model.graph.initializer}
    return [each for each in model.graph.input if each.name not in held]


def shape_of(value: Any) -> tuple[int | None, ...]:
    sizes = value.type.tensor_type.shape.dim
    return tuple(int(size.dim_value) if size.HasField("dim_value") and size.dim_value > 0 else None for size in sizes)


def _check(onnx: Any, model: Any, file: Path) -> None:
    try:
        onnx.checker.check_model(model, full_check=True)
    except Exception as error:
        said = str(error).strip().split("\n")[0]
        raise Unreadable(f"{file} does not pass ONNX's checker: {said}") from error


def _tensors(graph: Any) -> Iterator[Any]:
    """Of a graph and of all graphs in it."""
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        yield from _of_node(node)


def _of_node(node: Any) -> Iterator[Any]:
    for attribute in node.attribute:
        yield from attribute.tensors
        if attribute.HasField("t"):
            yield attribute.t
        for inner in [*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])]:
            yield from _tensors(inner)


def _load_external_data(model: Any, file: Path) -> None:
    """Weights in files beside the model; a file elsewhere is not opened, whatever the model says."""
    from onnx import external_data_helper

    folder = file.resolve().parent
    tensors = [
        *_tensors(model.graph),
        *(each for one in model.functions for node in one.node for each in _of_node(node)),
    ]
    for tensor in tensors:
        if tensor.data_location != tensor.EXTERNAL:
            continue
        said = {each.key: each.value for each in tensor.external_data}
        location = said.get("location", "")
        target = folder / location
        outside = not location or Path(location).is_absolute() or folder not in target.resolve().parents
        if outside or target.is_symlink():
            raise Unreadable(
                f"{file}: the weight {tensor.name} is said to be in {location!r}, which is not beneath the "
                "model's folder; it is not opened"
            )
        if not target.is_file():
            raise Unreadable(f"{file} needs {target}, where the weight {tensor.name} is, and there is no such file")
        try:
            external_data_helper.load_external_data_for_tensor(tensor, str(folder))
        except Exception as error:
            raise Unreadable(f"{file}: the weight {tensor.name} cannot be read from {target}: {error}") from error
        tensor.data_location = tensor.DEFAULT
        del tensor.external_data[:]


def _give_shapes(model: Any, shapes: Sequence[tuple[int, ...]] | None, file: Path) -> None:
    inputs = inputs_of(model)
    if shapes is None:
        open_ones = [each.name for each in inputs if None in shape_of(each) or not shape_of(each)]
        if open_ones:
            raise open_sizes(str(file), {each.name: shape_of(each) for each in inputs})
        return
    check_shapes(str(file), {each.name: shape_of(each) for each in inputs}, shapes)
    for value, shape in zip(inputs, shapes, strict=True):
        for dimension, size in zip(value.type.tensor_type.shape.dim, shape, strict=True):
            dimension.dim_value = size


def open_sizes(file: str, inputs: dict[str, tuple[int | None, ...]]) -> Unreadable:
    """The error where the file leaves sizes open and the user has not said them."""
    return Unreadable(
        f"{file} leaves sizes of its inputs open ({_shown(inputs)}); say them: "
        + " ".join(
            "--input " + "x".join("N" if size is None else str(size) for size in each) for each in inputs.values()
        )
    )


def check_shapes(file: str, inputs: dict[str, tuple[int | None, ...]], shapes: Sequence[tuple[int, ...]]) -> None:
    """Whether the shapes that the user says are those of the file, wherever it says some."""
    given = " ".join("--input " + "x".join(map(str, shape)) for shape in shapes)
    fits = len(shapes) == len(inputs) and all(
        len(shape) == len(own) and all(size in (None, other) for size, other in zip(own, shape, strict=True))
        for own, shape in zip(inputs.values(), shapes, strict=True)
    )
    if not fits:
        raise Unreadable(
            f"{file} takes {_shown(inputs)}, and {given} was given; export it for these shapes, or leave it out"
        )


def _shown(inputs: dict[str, tuple[int | None, ...]]) -> str:
    return ", ".join(
        f"{name} " + "x".join("?" if size is None else str(size) for size in own) for name, own in inputs.items()
    )
