# SPDX-License-Identifier: Apache-2.0
"""`tt/model.py`: the classes of the model's modules, and the model itself."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import cast

from tt_cnn.bringup.codegen.blocks import Flow, build_tree
from tt_cnn.bringup.codegen.classes import BlockWriter, ClassWriter, camel
from tt_cnn.bringup.forms import IMAGE, order_of
from tt_cnn.bringup.lowering.program import Program, Value
from tt_cnn.bringup.torch_graph import Shape, TorchNode

_TORCH_LAYERS = (
    "batch_norm_of",
    "conv_of",
    "conv_transpose_of",
    "group_norm_of",
    "layer_norm_of",
    "linear_of",
    "prelu_of",
)
_BROUGHT_UP = ("BroughtUpPictureModel", "BroughtUpTensorModel", "TorchShape", "image_of", "pixels_of", "rows_of")


def takes_pictures(program: Program) -> bool:
    return program.statements[0].layer.method == "picture"


def model_class(program: Program) -> str:
    return f"Tt{camel(type(program.graph.model).__name__)}"


@dataclass(frozen=True)
class ModelFile:
    code: str
    optional: frozenset[str]
    """Layers that the table of settings must name, because the code asks it whether they are there."""


def model_file(program: Program, title: str) -> ModelFile:
    root = build_tree(program)
    writer = ClassWriter(program, Flow(program))
    writer.write_inside(root)
    block = BlockWriter(writer, root, "reference", named=False)
    init, call, parameters = block.write()
    name = model_class(program)
    for each in writer.classes:
        if each.name == name:  # a module inside has the model's own class
            each.name = f"{name}Block"
    body = "\n\n\n".join(each.code() for each in writer.classes)
    pictures = takes_pictures(program)
    base = "BroughtUpPictureModel" if pictures else "BroughtUpTensorModel"
    shape = cast(Shape, program.graph.inputs[0].shape)
    if len(program.inputs) > 1:
        call = [f"{', '.join(block.name_of(value) for value in program.inputs)} = inputs", *call]
        parameters = ["inputs"]
    resolution = tuple(shape[-2:]) if len(shape) == 4 else tuple(([*shape, 1])[1:3])
    outputs = ", ".join(f'"{each}"' for each in program.graph.output_names)
    forms = [_torch_shape(value, cast(Shape, node.shape)) for value, node in _outputs(program)]
    one = len(program.outputs) == 1
    head = [
        f"class {name}({base}):",
        f'    """{_described(program)}"""',
        "",
        f"    outputs = ({outputs}{',' if one else ''})",
        *_tuple("    output_shapes = ", forms),
    ]
    if not pictures:
        head.append(f"    input_shape = TorchShape({tuple(shape)})")
        more = [f"TorchShape({tuple(node.shape)})" for node in program.graph.inputs[1:]]
        head += _tuple("    more_inputs = ", more) if more else []
    head += [
        "",
        "    def __init__(",
        "        self,",
        "        reference: Any,",
        "        device: Any,",
        "        *,",
        f"        resolution: tuple[int, int] = {resolution},",
        f"        batch_size: int = {shape[0]},",
        '        precision: Precision = "tuned",',
        "    ) -> None:",
        "        self.device, self.resolution, self.batch_size = device, resolution, batch_size",
        "        layers = LayerFactory(reference, device, batch_size, settings_for(LAYERS, precision))",
        *(f"        {line}" for line in init),
        "",
        f"    def __call__(self, {', '.join(f'{each}: Any' for each in parameters)}) -> Any:",
        *(f"        {line}" for line in call),
    ]
    code = "\n".join(head)
    everything = f"{body}\n\n\n{code}" if body else code
    text = f'"""{title}"""\n\n{_imports(everything)}\n\n\n{everything}\n'
    return ModelFile(text, frozenset(writer.optional))


def _outputs(program: Program) -> list[tuple[Value, TorchNode]]:
    return list(zip(program.outputs, program.graph.outputs, strict=True))


def _torch_shape(value: Value, shape: tuple[int, ...]) -> str:
    order = order_of(value.form)
    usual = IMAGE if len(shape) == 4 else tuple(range(len(shape)))
    if order is None or value.form.lies_in(usual):
        return f"TorchShape({shape})"
    return f"TorchShape({shape}, order={order})"


def _tuple(before: str, elements: list[str]) -> list[str]:
    one = f"{before}({', '.join(elements)}{',' if len(elements) == 1 else ''})"
    if len(one) <= 120:
        return [one]
    return [f"{before}(", *(f"        {each}," for each in elements), "    )"]


def _described(program: Program) -> str:
    inputs = " and ".join(str(tuple(node.shape)) for node in program.graph.inputs)
    outputs = ", ".join(str(tuple(node.shape)) for node in program.graph.outputs)
    return f"{inputs} to {outputs}."


def _imports(code: str) -> str:
    lines = ["from __future__ import annotations", "", "from typing import Any", ""]
    if re.search(r"\btorch\.(ops|tensor)\b", code):
        lines.append("import torch")
    if "nn." in re.sub(r"torch\.nn\.", "", code):
        lines.append("from torch import nn")
    if lines[-1]:
        lines.append("")
    used = [name for name in _BROUGHT_UP if re.search(rf"\b{name}\b", code)]
    lines += _import("tt_cnn.models.brought_up", [*used, "settings_for"])
    lines.append("from tt_cnn.models.layer_factory import LayerFactory")
    made = [name for name in _TORCH_LAYERS if re.search(rf"\b{name}\b", code)]
    functional = _import("tt_cnn.models.torch_layers", made) if made else []
    lines += [*functional, "from tt_cnn.models.tt_model import Precision", "", "from .config import LAYERS"]
    return "\n".join(lines)


def _import(module: str, names: list[str]) -> list[str]:
    one = f"from {module} import {', '.join(names)}"
    if len(one) <= 120:
        return [one]
    return [f"from {module} import (", *(f"    {name}," for name in names), ")"]
