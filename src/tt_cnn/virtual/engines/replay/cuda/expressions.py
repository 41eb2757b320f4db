# SPDX-License-Identifier: Apache-2.0
"""Element-wise nodes, slices, permutations and concatenations as one kernel: a function of the place in the result.

The function is Python text that is written once: Triton compiles it for the GPU, and torch runs it on the CPU.
"""

from __future__ import annotations

import hashlib
import linecache
import math
import sys
from collections.abc import Callable, Sequence
from functools import cache
from types import ModuleType, SimpleNamespace
from typing import Any

import torch

from tt_cnn.virtual.engines.replay.graph import Node


def _larger(a: str, b: str) -> str:
    """Triton gives the other number for NaN unless asked not to."""
    return f"tl.maximum({a}, {b}, tl.PropagateNan.ALL)"


def _smaller(a: str, b: str) -> str:
    return f"tl.minimum({a}, {b}, tl.PropagateNan.ALL)"


_UP_TO_6 = _smaller(_larger("{0} + 3.0", "0.0"), "6.0")
_E_TO_20 = f"tl.exp({_smaller('{0}', '20.0')})"
_MISH = f"({_E_TO_20} * ({_E_TO_20} + 2.0))"
_SQUARE = "({0} * {0})"
_NEAR_0 = (
    f"((((-5.70498872745e-3 * {_SQUARE} + 2.06390887954e-2) * {_SQUARE} - 5.37397155531e-2) * {_SQUARE}"
    f" + 1.33314422036e-1) * {_SQUARE} - 3.33332819422e-1) * {_SQUARE} * {{0}} + {{0}}"
)
"""Of a tanh, where the difference of two numbers near 1 is too coarse."""
_UNARY = {
    "Relu": _larger("{0}", "0.0"), "Sigmoid": "1.0 / (1.0 + tl.exp(-{0}))", "Exp": "tl.exp({0})",
    "Tanh": f"tl.where({_SQUARE} < 0.390625, {_NEAR_0}, 1.0 - 2.0 / (1.0 + tl.exp(2.0 * {{0}})))",
    "Log": "tl.log({0})", "Sqrt": "tl.sqrt_rn({0})", "Neg": "-{0}", "Abs": "tl.abs({0})",
    "Reciprocal": "tl.div_rn(1.0, {0})", "Floor": "tl.floor({0})", "Ceil": "tl.ceil({0})",
    "silu": "{0} / (1.0 + tl.exp(-{0}))", "rsqrt": "tl.div_rn(1.0, tl.sqrt_rn({0}))",
    "leaky_relu": "tl.where({0} > 0, {0}, {0} * {1})", "clip": _smaller(_larger("{0}", "{1}"), "{2}"),
    "HardSwish": f"{{0}} * {_UP_TO_6} / 6.0", "hardsigmoid": f"{_UP_TO_6} / 6.0",
    "mish": f"{{0}} * ({_MISH} / ({_MISH} + 2.0))",
}  # fmt: skip
"""Roots and quotients that round to nearest also take denormals, which the quick ones flush."""
_BINARY = {
    "add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "div": "tl.div_rn({0}, {1})",
    "max": _larger("{0}", "{1}"), "min": _smaller("{0}", "{1}"),
}  # fmt: skip
VIEWS = ("reshape", "permute", "slice", "expand")


def is_expression(node: Node) -> bool:
    """Whether a function of the place can say the node's values."""
    if node.kind == "unary":
        return node.params[0] in _UNARY and None not in node.params
    return (node.kind == "binary" and node.params[0] in _BINARY) or node.kind in (*VIEWS, "cat", "pad", "repeat")


class Expression:
    """The text of a node's values. `is_stored` says which nodes have values in memory, `tensor` how those lie."""

    def __init__(
        self, node: Node, is_stored: Callable[[Node], bool], tensor: Callable[[Node], torch.Tensor], last: bool
    ) -> None:
        self.node = node
        self.stored: list[Node] = []
        """What the kernel reads, in the order of its parameters."""
        self.lines: list[str] = []
        self._is_stored, self._tensor = is_stored, tensor
        self._known: dict[tuple[Any, ...], str] = {}
        order = (0, 2, 3, 1) if last and len(node.shape) == 4 else range(len(node.shape))
        index: list[Any] = [0] * len(node.shape)
        inner = 1
        for axis in reversed(order):
            index[axis] = self._place("i", inner, node.shape[axis], math.prod(node.shape))
            inner *= node.shape[axis]
        self.result = self._value(node, tuple(index), "m")

    def _named(self, text: str) -> str:
        key = ("text", text)
        if key not in self._known:
            self._known[key] = f"v{len(self._known)}"
            self.lines.append(f"{self._known[key]} = {text}")
        return self._known[key]

    def _place(self, flat: str, inner: int, size: int, total: int) -> Any:
        """The index along an axis of `size`, behind which lie `inner` cells, of a cell of `total`."""
        if size == 1:
            return 0
        text = flat if inner == 1 else f"{flat} // {inner}"
        return self._named(text if inner * size == total else f"({text}) % {size}")

    def _value(self, node: Node, index: tuple[Any, ...], mask: str) -> str:
        key = (id(node), index, mask)
        if key not in self._known:
            if node.value is not None and node.value.numel() == 1:
                return _number(float(node.value))
            if node.value is not None or self._is_stored(node):
                text = self._load(node, index, mask)
            else:
                text = getattr(self, f"_{node.kind}")(node, index, mask)
            self._known[key] = self._named(text)
        return self._known[key]

    def _load(self, node: Node, index: tuple[Any, ...], mask: str) -> str:
        if not any(node is one for one in self.stored):
            self.stored.append(node)
        number = next(i for i, one in enumerate(self.stored) if one is node)
        strides = self._tensor(node).stride()
        terms = [f"{i} * {s}" for i, s in zip(index, strides, strict=True) if i != 0]
        return f"load(p{number}, i * 0 + {' + '.join(terms) or '0'}, {mask})"

    # --- kinds of nodes ------------------------------------------------------------------------------------------

    def _unary(self, node: Node, index: tuple[Any, ...], mask: str) -> str:
        numbers = [_number(float(one)) for one in node.params[1:]]
        return _UNARY[node.params[0]].format(self._value(node.source, index, mask), *numbers)

    def _binary(self, node: Node, index: tuple[Any, ...], mask: str) -> str:
        values = []
        for one in node.inputs:
            own = index[len(index) - len(one.shape) :]
            own = tuple(0 if size == 1 else i for i, size in zip(own, one.shape, strict=True))
            values.append(f"({self._value(one, own, mask)})")
        return _BINARY[node.params[0]].format(*values)

    def _reshape(self, node: Node, index: tuple[Any, ...], mask: str) -> str:
        terms, inner = [], 1
        for i, size in zip(reversed(index), reversed(node.shape), strict=True):
            terms += [] if i == 0 else [f"{i} * {inner}"]
            inner *= size
        flat = self._named(" + ".join(terms) or "i * 0")
        places: list[Any] = []
        total, inner = inner, 1
        for size in reversed(node.source.shape):
            places.append(self._place(flat, inner, size, total))
            inner *= size
        return self._value(node.source, tuple(reversed(places)), mask)

    def _permute(self, node: Node, index: tuple[Any, ...], mask: str) -> str:
        there = {axis: i for axis, i in zip(node.params[0], index, strict=True)}
        return self._value(node.source, tuple(there[axis] for axis in range(len(index))), mask)

    def _slice(self, node: Node, index: tuple[Any, ...], mask: str) -> str:
        starts, _, steps = node.params
        moved = tuple(self._moved(i, a, s) for i, a, s in zip(index, starts, steps, strict=True))
        return self._value(node.source, moved, mask)

    def _moved(self, index: Any, start: int, step: int) -> Any:
        if index == 0:
            return start
        return index if (start, step) == (0, 1) else self._named(f"{index} * {step} + {start}")

    def _expand(self, node: Node, index: tuple[Any, ...], mask: str) -> str:
        own = index[len(index) - len(node.source.shape) :]
        return self._value(
            node.source, tuple(0 if n == 1 else i for i, n in zip(own, node.source.shape, strict=True)), mask
        )

    def _repeat(self, node: Node, index: tuple[Any, ...], mask: str) -> str:
        times = node.params[0]
        own = tuple(i if t == 1 or i == 0 else self._named(f"{i} // {t}") for i, t in zip(index, times, strict=True))
        return self._value(node.source, own, mask)

    def _cat(self, node: Node, index: tuple[Any, ...], mask: str) -> str:
        axis, at, text = node.params[0], 0, "0.0"
        for part in node.inputs:
            here = index[axis]
            size = part.shape[axis]
            inside = self._named(f"(i >= 0) & ({here} >= {at}) & ({here} < {at + size})")
            own = 0 if size == 1 else self._moved(here, -at, 1)
            both = self._named(f"{mask} & {inside}")
            value = self._value(part, (*index[:axis], own, *index[axis + 1 :]), both)
            text = self._named(f"tl.where({inside}, {value}, {text})")
            at += size
        return text

    def _pad(self, node: Node, index: tuple[Any, ...], mask: str) -> str:
        before, _, fill = node.params
        conditions, own = ["(i >= 0)"], []
        for i, b, size in zip(index, before, node.source.shape, strict=True):
            moved = self._moved(i, -b, 1)
            conditions += [] if moved == 0 else [f"({moved} >= 0)", f"({moved} < {size})"]
            own.append(0 if size == 1 else moved)
        inside = self._named(" & ".join(conditions))
        both = self._named(f"{mask} & {inside}")
        return f"tl.where({inside}, {self._value(node.source, tuple(own), both)}, {_number(fill)})"

    # --- running it ----------------------------------------------------------------------------------------------

    def by_torch(self, parameters: Sequence[torch.Tensor]) -> torch.Tensor:
        """All values in the order of the cells, as torch computes them."""
        cells = torch.arange(math.prod(self.node.shape), device=parameters[0].device)
        names = ", ".join(f"p{i}" for i in range(len(parameters)))
        body = "\n    ".join([*self.lines, f"return {self.result}"])
        namespace: dict[str, Any] = {"tl": _TORCH, "load": _torch_load}
        exec(f"def function(i, m, {names}):\n    {body}", namespace)
        result: torch.Tensor = namespace["function"](cells, torch.ones_like(cells, dtype=torch.bool), *parameters)
        return result

    def by_triton(self) -> Any:
        """The kernel: (result, number of cells, *parameters, PDL, BLOCK)."""
        names = ", ".join(f"p{i}" for i in range(len(self.stored)))
        text = _KERNEL.format(names=names, body="\n    ".join(self.lines), result=self.result)
        name = f"expression_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
        return _kernel(name, text)


@cache
def _kernel(name: str, text: str) -> Any:
    """Made once: loading a kernel is not allowed while a CUDA graph is captured.

    Triton reads the text of its functions where tracebacks do; with it there, no file needs to be written and trusted.
    """
    module = module_of(name, text)
    return module.kernel


def module_of(name: str, text: str) -> ModuleType:
    """A module made from a text that has no file."""
    place = f"<{name}>"
    linecache.cache[place] = (len(text), None, text.splitlines(keepends=True), place)
    module = ModuleType(name)
    sys.modules[name] = module  # where Triton looks for what the function refers to
    exec(compile(text, place, "exec"), module.__dict__)
    return module


_KERNEL = """import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@triton.jit
def load(p, offset, mask):
    return tl.load(p + offset, mask=mask, other=0.0).to(tl.float32)


@triton.jit
def kernel(out, size, {names}, PDL: tl.constexpr, BLOCK: tl.constexpr):
    if PDL:
        gdc_wait()
        gdc_launch_dependents()
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < size
    {body}
    tl.store(out + i, {result}, mask=m)
"""


def _number(value: float) -> str:
    return repr(value) if math.isfinite(value) else f"float('{value}')"


def _either(function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Callable[..., torch.Tensor]:
    """With numbers in place of tensors; torch keeps NaN by itself."""

    def run(*operands: Any) -> torch.Tensor:
        a, b = (torch.as_tensor(one, dtype=torch.float32) for one in operands[:2])
        return function(a, b)

    return run


def _torch_load(p: torch.Tensor, offset: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    size = 1 + sum((n - 1) * s for n, s in zip(p.shape, p.stride(), strict=True))
    cells = p.as_strided((size,), (1,))
    return torch.where(mask, cells[torch.where(mask, offset, 0)].float(), torch.zeros((), device=p.device))


_TORCH = SimpleNamespace(
    exp=torch.exp, log=torch.log, sqrt_rn=torch.sqrt, abs=torch.abs, floor=torch.floor, ceil=torch.ceil,
    maximum=_either(torch.maximum), minimum=_either(torch.minimum), div_rn=_either(torch.div),
    PropagateNan=SimpleNamespace(ALL=None),
    where=lambda c, a, b: torch.where(c, *(torch.as_tensor(one, dtype=torch.float32) for one in (a, b))),
)  # fmt: skip
