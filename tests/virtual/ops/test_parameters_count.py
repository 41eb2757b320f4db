# SPDX-License-Identifier: Apache-2.0
"""Every parameter of every op, and of every function of `ttnn`, is read: others would be accepted and ignored.

A parameter has to be loaded by the function that takes it (a `del`, or being bound, is not enough), or be asked for by
its name where it travels in `**options`; as an attribute of the call it has to be loaded by the plan, the numbers or
another method of the op. `**_` reads nothing. What goes to a kernel as a whole has to make another kernel.
"""

from __future__ import annotations

import ast
import dis
import enum
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

import pytest

from tests.virtual.ops.careless_ops import Careless, Deaf, Forgetful
from tt_cnn.virtual import ttnn
from tt_cnn.virtual.ops import OPERATIONS
from tt_cnn.virtual.ops.eltwise.unary import Unary
from tt_cnn.virtual.ops.operation import Call, Operation

Function = Callable[..., Any]
ENTRIES = ("arguments", "make_call", "_call")
PLACEMENT = ("input_tensor", "memory_config", "output_tensor", "sub_core_grids")
_NO_DIFFERENCE = "recorded: whatever it is, the steps are the same"

WITHOUT_EFFECT = {
    "as_tensor.cache_dump_mode": "one host has nothing to gather",
    "fill_implicit_tile_padding.memory_config": "recorded: the tensor stays where it is",
    "max.correction": _NO_DIFFERENCE,
    "mean.correction": _NO_DIFFERENCE,
    "min.correction": _NO_DIFFERENCE,
    "prepare_conv_bias.slice_config": "recorded: the bias of slices is that of the whole",
    "prepare_conv_transpose2d_bias.dram_slice_config": "recorded: the bias of slices is that of the whole",
    "prepare_conv_transpose2d_weights.weights_format": "asked: any text is taken for (in, out, height, width)",
    "prepare_conv_weights.weights_format": "asked: any text is taken for (out, in, height, width)",
    "reshape.reshape_tile_mode": _NO_DIFFERENCE,
    "sum.correction": _NO_DIFFERENCE,
    "transformer.attention_softmax.program_config": _NO_DIFFERENCE,
    "transformer.attention_softmax_.program_config": _NO_DIFFERENCE,
    "transformer.scaled_dot_product_attention.windowed_q_token_offset": "recorded: without windows, which are refused",
}
"""Parameters that TT-NN 0.81.1 takes and does not look at either."""

FUNCTIONS_WITHOUT_EFFECT = {
    "ReadDeviceProfiler.args": "there are no counters to read",
    "ReadDeviceProfiler.kwargs": "there are no counters to read",
    "attach_golden_function._": "names by which TT-NN calls what the virtual card does not have",
    "dump_tensor.mode": "one host has nothing to gather",
    "from_torch.preserve_nan_values": "asked: the host's conversions keep them anyway",
    "init_device_compute_kernel_config.arch": "both cards have the same config",
    "to_torch.device": "TT-NN's own function does not look at it",
}


def codes(function: Function) -> Iterator[CodeType]:
    """A function's code and that of the functions within it."""
    waiting = [inspect.unwrap(function).__code__]
    while waiting:
        code = waiting.pop()
        yield code
        waiting += [constant for constant in code.co_consts if isinstance(constant, CodeType)]


def loaded(function: Function) -> set[str]:
    """Names that the function loads; a parameter among them is read."""
    return {
        instruction.argval
        for code in codes(function)
        for instruction in dis.get_instructions(code)
        if instruction.opname.startswith("LOAD") and isinstance(instruction.argval, str)
    }


def strings(function: Function) -> set[str]:
    """Its string constants, also within tuples and of enclosing functions: names by which options are asked for."""
    constants = [constant for code in codes(function) for constant in code.co_consts]
    constants += [cell.cell_contents for cell in inspect.unwrap(function).__closure__ or ()]
    return {
        one
        for constant in constants
        for one in (constant if isinstance(constant, tuple) else (constant,))
        if isinstance(one, str)
    }


def reads(function: Function, name: str) -> bool:
    taken = name in inspect.signature(function).parameters and name in loaded(function)
    return taken or name in strings(function)


def functions_of(owner: Any) -> list[tuple[str, Function]]:
    found = []
    for name, value in vars(owner).items():
        function = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
        if isinstance(function, FunctionType):
            found.append((name, function))
    return found


def methods(cls: type) -> list[tuple[str, Function]]:
    """Those of an op's own classes, of the calls it makes, and the functions that stand beside them."""
    bases = [base for base in cls.__mro__ if base not in (object, Operation)]
    found = [pair for base in bases for pair in functions_of(base)]
    for module in {sys.modules[base.__module__] for base in bases}:
        found += [(name, f) for name, f in functions_of(module) if f.__module__ == module.__name__]
        calls = [c for c in vars(module).values() if isinstance(c, type) and issubclass(c, Call) and c is not Call]
        found += [pair for call in calls for pair in functions_of(call)]
    return found


def call_attributes(function: Function) -> set[str]:
    """Attributes that a function gives its call."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    made = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)]
    keywords = [k.arg for n in made if n.func.id.endswith("Call") for k in n.keywords]  # type: ignore[attr-defined]
    return {name for name in keywords if name is not None} - {"queue", "device"}


def parameters(function: Function) -> list[str]:
    signature = inspect.signature(function).parameters
    return [name for name, p in signature.items() if name != "self" and p.kind is not p.VAR_KEYWORD]


def ignored(operation: Operation) -> list[str]:
    """Parameters that nothing reads, and attributes of the call that nothing reads."""
    cls = type(operation)
    own = methods(cls)
    arguments: Function = cls.arguments
    others = [f for name, f in own if name not in ENTRIES]
    in_turn = [f for name, f in own if name in ENTRIES and f is not arguments]
    handed_on = hasattr(arguments, "__signature__") or "locals" in loaded(arguments)
    """`make_call` gets all of them by name, and an attribute of the call may have a parameter's name."""

    def is_read(name: str) -> bool:
        if handed_on:
            return any(reads(f, name) for f in in_turn + others)
        return name in loaded(arguments)

    names = parameters(arguments)
    if issubclass(cls, Unary) and hasattr(cls, "make_kernel"):
        found = _ignored_by_kernel(cls.make_kernel, arguments)
        names = [name for name in names if name in PLACEMENT]
    else:
        found = []
    found += [name for name in names if not is_read(name)]
    entries = [f for f in [arguments, *in_turn] if f.__name__ in ENTRIES and not hasattr(f, "__signature__")]
    attributes = {name for entry in entries for name in call_attributes(entry)}
    return found + [f"{name} of the call" for name in sorted(attributes) if not any(reads(f, name) for f in others)]


def _ignored_by_kernel(make_kernel: Function, arguments: Function) -> list[str]:
    """Parameters whose value makes no other kernel and is not refused."""
    signature = inspect.signature(arguments).parameters
    given = {
        name: 0.5 if p.default in (p.empty, None) else p.default
        for name, p in signature.items()
        if name not in (*PLACEMENT, "self")
    }

    def kernel(values: dict[str, Any]) -> Any:
        try:
            return make_kernel(**values)
        except (RuntimeError, NotImplementedError) as refused:
            return str(refused)

    return [name for name in given if kernel(given) == kernel({**given, name: _another(given[name])})]


def _another(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, enum.Enum):
        return next(other for other in type(value) if other is not value)
    return value + 1


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_every_parameter_of_an_op_is_read(name: str) -> None:
    assert [one for one in ignored(OPERATIONS[name]) if f"{name}.{one}" not in WITHOUT_EFFECT] == []


def public_functions() -> dict[str, Function]:
    found = {name: getattr(ttnn, name) for name in vars(ttnn) if not name.startswith("_")}
    return {name: f for name, f in found.items() if isinstance(f, FunctionType)}


@pytest.mark.parametrize("name", sorted(public_functions()))
def test_every_parameter_of_a_function_is_read(name: str) -> None:
    function = inspect.unwrap(public_functions()[name])
    unread = [one for one in inspect.signature(function).parameters if one not in loaded(function)]
    assert [one for one in unread if f"{name}.{one}" not in FUNCTIONS_WITHOUT_EFFECT] == []


def test_what_has_no_effect_is_there_and_is_not_read() -> None:
    for entry in WITHOUT_EFFECT:
        op, _, name = entry.rpartition(".")
        assert name in ignored(OPERATIONS[op]), entry
    for entry in FUNCTIONS_WITHOUT_EFFECT:
        op, _, name = entry.rpartition(".")
        function = inspect.unwrap(public_functions()[op])
        assert name in inspect.signature(function).parameters and name not in loaded(function), entry


def test_the_check_can_fail() -> None:
    assert ignored(Careless()) == ["bound", "deleted", "swallowed of the call", "unread of the call"]
    assert ignored(Forgetful()) == ["lost"]
    assert ignored(Deaf()) == ["alpha"]
