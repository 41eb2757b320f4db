# SPDX-License-Identifier: Apache-2.0
"""An op that runs in torch on the host, and a text to file about it, with a script that shows it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch
from torch import nn

from tt_cnn.bringup.op_facts import Shape, dtype_text, schema_of, shape_text, shapes, short_arguments
from tt_cnn.bringup.tables import fenced
from tt_cnn.bringup.torch_graph import Parameter, TorchNode
from tt_cnn.virtual.ttnn.missing import VERSION, real_names

NO_RULE = "TT-NN has no such op"
"""What the lowering says of ops that it has no rule for, without looking into TT-NN."""

_OTHER_NAMES: Mapping[str, tuple[str, ...]] = {
    "cat": ("concat",),
    "sub": ("subtract",),
    "rsub": ("rsub",),
    "mul": ("multiply",),
    "div": ("divide",),
    "amax": ("max",),
    "amin": ("min",),
    "grid_sampler": ("grid_sample",),
    "grid_sampler_2d": ("grid_sample",),
    "upsample_nearest2d": ("upsample",),
    "upsample_bilinear2d": ("upsample",),
    "scaled_dot_product_attention": ("transformer.scaled_dot_product_attention",),
    "constant_pad_nd": ("pad",),
}
"""TT-NN's names for ops that it calls otherwise."""


@dataclass(frozen=True)
class Operand:
    """A tensor that the op is given."""

    name: str
    shape: Shape
    dtype: str


@dataclass(frozen=True)
class Fallback:
    """One op that runs in torch, with the transfers around it."""

    name: str
    op: str
    target: str
    module: str
    module_class: str
    line: str
    reason: str
    arguments: str
    operands: tuple[Operand, ...]
    outputs: tuple[Shape, ...]
    dtype: str
    bytes_to_host: int
    """bfloat16, as the card holds it."""
    bytes_to_card: int
    in_ttnn: tuple[str, ...]
    """Names of TT-NN 0.81.1 that do this or something like it; empty where it has none."""
    call: str
    """The op as Python, on the names of the operands."""

    @property
    def why(self) -> str:
        """The reason, checked against what TT-NN has."""
        if not self.in_ttnn:
            return f"TT-NN {VERSION} has no such op" if self.reason == NO_RULE else self.reason
        has = ", ".join(f"ttnn.{name}" for name in self.in_ttnn)
        lacking = "TT-CNN has no rule for it yet" if self.reason == NO_RULE else self.reason
        return f"{lacking} (TT-NN {VERSION} has {has})"


def describe_fallback(node: TorchNode, model: nn.Module, bytes_to_host: int, bytes_to_card: int) -> Fallback:
    """`node` as it is after the passes, which say in it why it falls back."""
    target, arguments = _callable(node)
    operands: list[Operand] = []
    call = _call(target, arguments, operands, model)
    return Fallback(
        name=node.name,
        op=node.op,
        target=target,
        module=node.call.name,
        module_class=node.call.kind,
        line=node.line,
        reason=str(node.fused.get("fallback", "no rule")),
        arguments=short_arguments(node),
        operands=tuple(operands),
        outputs=shapes(node),
        dtype=dtype_text(node.dtype),
        bytes_to_host=bytes_to_host,
        bytes_to_card=bytes_to_card,
        in_ttnn=names_in_ttnn(node.op),
        call=call,
    )


def names_in_ttnn(op: str) -> tuple[str, ...]:
    plain = op.lstrip("_")
    candidates = (plain, *_OTHER_NAMES.get(plain, ()), f"experimental.{plain}")
    return tuple(name for name in dict.fromkeys(candidates) if name in real_names())


def _callable(node: TorchNode) -> tuple[str, dict[str, Any]]:
    """torch's op of the node; passes rename ops (matmul to attention) and leave the target as it was."""
    arguments = dict(node.arguments)
    biases = list(node.fused.get("biases", ()))
    if biases:
        arguments["attn_mask"] = biases[0] if len(biases) == 1 else Sum(biases)
    target = node.target
    schema = schema_of(target)
    if schema is not None and str(schema.name).split("::")[-1].rstrip("_") != node.op.rstrip("_"):
        target = f"aten.{node.op}.default"
    return target, arguments


class Sum(list[Any]):
    """Tensors that are added up for one argument."""


def _call(target: str, arguments: Mapping[str, Any], operands: list[Operand], model: nn.Module) -> str:
    schema = schema_of(target)
    if schema is None:
        given = ", ".join(_code(value, key, operands, model) for key, value in arguments.items())
        return f"operator.{target}({given})"
    positional: list[str] = []
    named: list[str] = []
    for argument in schema.arguments:
        if argument.name not in arguments:
            continue
        code = _code(arguments[argument.name], argument.name, operands, model)
        if argument.kwarg_only:
            if code != "None":
                named.append(f"{argument.name}={code}")
        elif len(positional) < schema.arguments.index(argument):
            named.append(f"{argument.name}={code}")
        else:
            positional.append(code)
    return f"torch.ops.{target}({', '.join([*positional, *named])})"


def _code(value: Any, name: str, operands: list[Operand], model: nn.Module) -> str:
    """An argument as Python; tensors become operands."""
    if isinstance(value, (TorchNode, Parameter)):
        return _operand(value, name, operands, model)
    if isinstance(value, Sum):
        return " + ".join(_code(each, name, operands, model) for each in value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_code(each, name, operands, model) for each in value) + "]"
    if isinstance(value, torch.device):
        return repr(str(value.type)) if value.type != "meta" else "'cpu'"
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)


def _operand(value: TorchNode | Parameter, name: str, operands: list[Operand], model: nn.Module) -> str:
    base = "x" if name in ("self", "input") or name.isdigit() else name
    taken = {each.name for each in operands}
    called, number = base, 2
    while called in taken:
        called, number = f"{base}{number}", number + 1
    dtype = value.dtype if isinstance(value, TorchNode) else _parameter_dtype(value, model)
    shape = shapes(value)[0] if isinstance(value, TorchNode) else value.shape
    operands.append(Operand(called, shape, dtype_text(dtype)))
    return called


def _parameter_dtype(parameter: Parameter, model: nn.Module) -> torch.dtype:
    if parameter.constant is not None:
        return parameter.constant.dtype
    held = {**dict(model.named_parameters(remove_duplicate=False)), **dict(model.named_buffers(remove_duplicate=False))}
    return held[parameter.path].dtype if parameter.path in held else torch.float32


# --- texts ----------------------------------------------------------------------------------------------------------


def reproducer(fallback: Fallback) -> str:
    """A script: the op on random inputs of these shapes, and what TT-NN has of it. Needs torch, and ttnn or tt_cnn."""
    names = fallback.in_ttnn or (fallback.op.lstrip("_"), *_OTHER_NAMES.get(fallback.op, ()))
    imports = "import operator\n\nimport torch" if fallback.call.startswith("operator.") else "import torch"
    tensors = "\n".join(f"{each.name} = {_random(each)}" for each in fallback.operands)
    return f'''"""{_docstring(fallback.target)} in torch, and what TT-NN has of it."""

{imports}

torch.manual_seed(0)
{tensors}
result = {fallback.call}
print("torch:", tuple(result.shape), result.dtype)


def has(name):
    try:
        import ttnn
    except ImportError:  # no card here: the names of TT-NN {VERSION}
        from tt_cnn.virtual.ttnn.missing import real_names

        return name in real_names()
    for part in name.split("."):
        ttnn = getattr(ttnn, part, None)
    return ttnn is not None


for name in {list(names)!r}:
    print(f"ttnn.{{name}}:", "there" if has(name) else "no such op")
print({_ascii(fallback.why)})
'''


def _ascii(text: str) -> str:
    return ascii(" ".join(text.split()))


def _docstring(text: str) -> str:
    return text.replace("\\", "/").replace('"', "'")


def _random(operand: Operand) -> str:
    size = ", ".join(map(str, operand.shape))
    shape = f"({size},)" if len(operand.shape) == 1 else f"({size})"
    dtype = getattr(torch, operand.dtype)
    if dtype is torch.bool:
        return f"torch.rand({shape}) > 0.5"
    if dtype.is_floating_point or dtype.is_complex:
        return f"torch.randn({shape}, dtype=torch.{operand.dtype})"
    return f"torch.randint(0, 2, {shape}, dtype=torch.{operand.dtype})"


def issue_text(fallback: Fallback, others: Sequence[Fallback] = ()) -> str:
    """Markdown, ready to file: the first line is the title. `others` are the same op at other places of the model."""
    if fallback.in_ttnn:
        title = f"{fallback.target} runs on the host: {' '.join(fallback.why.split())}"
    else:
        title = f"TT-NN has no op for torch's {fallback.target}"
    facts = [
        ("op", f"{fallback.target} {fallback.arguments}".strip()),
        *((each.name, f"{shape_text(each.shape)} {each.dtype}") for each in fallback.operands),
        ("result", f"{', '.join(map(shape_text, fallback.outputs))} {fallback.dtype}"),
        ("in", f"{fallback.module or 'the model'} ({fallback.module_class})"),
        ("line", fallback.line),
        ("moved", f"{fallback.bytes_to_host:,} B to the host, {fallback.bytes_to_card:,} B back, each inference"),
        *(("also in", f"{each.module or 'the model'}, {_given(each)}, {each.line}") for each in others),
        ("torch", str(torch.__version__)),
        ("tt_cnn", tt_cnn_version()),
        ("TT-NN", VERSION),
    ]
    width = max(len(what) for what, _ in facts)
    listed = "\n".join(f"{what:<{width}}  {said}" for what, said in facts if said)
    return (
        f"# {title}\n\n{' '.join(fallback.why.split())}. The op runs in torch on the host, and its tensors are moved "
        f"both ways.\n\n{fenced(listed)}\n\nReproducer:\n\n{fenced(reproducer(fallback), 'python')}\n"
    )


def _given(fallback: Fallback) -> str:
    return " ".join(shape_text(each.shape) for each in fallback.operands)


def tt_cnn_version() -> str:
    try:
        return version("tt-cnn")
    except PackageNotFoundError:
        return "not installed (run from its sources)"
