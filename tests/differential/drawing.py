"""Draws random programs. Each statement is tried on a card as it is drawn: what the card refuses is not taken.

`numerics="native"` is compared with a float64 evaluation, which says nothing where a jump hangs on the last bit of a
sum. There, functions that jump (`floor`, comparisons) and functions with a pole take only values that every engine has
exactly: inputs, and what moves or selects them.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from tests.differential.program import FLOATS, Program, Source, values_of

SMOOTH = (
    "relu", "relu6", "sigmoid", "tanh", "silu", "gelu", "mish", "hardswish", "hardsigmoid", "elu", "selu", "celu",
    "softplus", "softsign", "abs", "neg", "square", "sin", "cos", "erf", "tanhshrink", "identity", "swish",
    "softshrink", "log_sigmoid", "exp", "exp2", "expm1", "sigmoid_accurate", "hardtanh", "atan", "asinh", "erfc",
    "hardmish", "cosh", "sinh",
)  # fmt: skip
JUMPING = (
    "floor", "ceil", "round", "trunc", "frac", "sign", "eqz", "nez", "gtz", "ltz", "gez", "lez", "isfinite", "isinf",
    "isnan", "isposinf", "isneginf", "logical_not", "signbit", "hardshrink", "log", "log2", "log10", "log1p", "sqrt",
    "rsqrt", "reciprocal", "acos", "asin", "atanh", "acosh", "erfinv", "cbrt", "tan", "lgamma", "digamma", "i0",
    "logit", "deg2rad", "rad2deg",
)  # fmt: skip
WITH_NUMBER = (
    "leaky_relu({0}, {1})", "clamp({0}, -0.5, {1})", "relu_max({0}, {1})", "relu_min({0}, {1})", "elu({0}, alpha={1})",
    "add({0}, {1})", "multiply({0}, {1})", "subtract({0}, {1})", "rsub({0}, {1})", "maximum({0}, {1})",
    "minimum({0}, {1})", "div({0}, {1})", "hardtanh({0}, min_val=-{1}, max_val={1})", "add({0}, 0.0)",
    "multiply({0}, 1.0)", "subtract({0}, 0.0)", "softplus({0}, beta={1}, threshold=10.0)", "celu({0}, alpha={1})",
    "softshrink({0}, lambd={1})",
)  # fmt: skip
JUMPING_WITH_NUMBER = (
    "gt({0}, {1})", "lt({0}, {1})", "ge({0}, {1})", "le({0}, {1})", "eq({0}, 1.0)", "ne({0}, 0.0)", "pow({0}, 2.0)",
    "pow({0}, 3)", "rdiv({0}, {1})", "heaviside({0}, {1})", "threshold({0}, {1}, 0.25)", "remainder({0}, {1})",
    "fmod({0}, {1})", "hardshrink({0}, lambd={1})",
)  # fmt: skip
BINARY = ("add", "subtract", "multiply", "maximum", "minimum", "squared_difference", "rsub", "add", "multiply")
JUMPING_BINARY = (
    "gt", "lt", "eq", "ne", "ge", "le", "div", "logical_and", "logical_or", "logical_xor", "atan2", "hypot", "fmod",
    "remainder", "xlogy",
)  # fmt: skip
SMOOTH_BINARY = ("logaddexp",)
OF_INTEGERS = ("add", "subtract", "multiply", "bitwise_and", "bitwise_or", "bitwise_xor", "maximum", "minimum", "gt")
ACTIVATIONS = ("RELU", "SILU", "TANH", "SIGMOID", "GELU", "MISH", "HARDSWISH")
INTERLEAVED = ("ttnn.DRAM_MEMORY_CONFIG", "ttnn.L1_MEMORY_CONFIG")
SELECTING = (
    "relu",
    "relu6",
    "abs",
    "neg",
    "identity",
    "hardtanh",
    "sign",
    "maximum",
    "minimum",
    "relu_max",
    "relu_min",
)
"""They make no new numbers."""


@dataclass(frozen=True)
class Info:
    """What a draw must know of a tensor beside its spec."""

    exact: bool
    """Every engine has the same numbers."""
    image: tuple[int, int, int, int] | None = None
    """(batch, height, width, channels) where it is one, flattened."""


@dataclass(frozen=True)
class Taste:
    """Which programs are drawn."""

    native: bool = False
    """Compared within a tolerance, not bit for bit."""
    families: tuple[str, ...] = ()
    """Only these; all where it is empty."""
    length: tuple[int, int] = (2, 14)
    special: float = 0.2
    """How many of the programs have NaN, infinities and denormals among their inputs."""
    largest: int = 1 << 16
    """Elements of a tensor."""


class Drawing:
    """One program in the making."""

    def __init__(self, seed: int, taste: Taste, ttnn: Any, device: Any) -> None:
        self.random, self.taste, self.ttnn, self.device = random.Random(seed), taste, ttnn, device
        self.seed = seed
        self.sources: list[Source] = []
        self.setup: list[str] = []
        self.body: list[str] = []
        self.names: dict[str, Any] = {"ttnn": ttnn, "device": device}
        self.infos: dict[str, Info] = {}
        """Tensors that may be used."""
        self._count = 0
        self._special = self.random.random() < taste.special

    # --- the program ---------------------------------------------------------------------------------------------

    def program(self) -> Program | None:
        """None where the card took nothing of what was drawn."""
        first = self.source(role="input")
        for _ in range(self.random.randint(0, 2)):
            alike = {"shape": self.shape(first), "image": self.image_like(first)} if self.random.random() < 0.5 else {}
            self.source(role="input", **alike)
        if self.random.random() < 0.4:
            self.source(role="state", shape=self.shape(first), image=self.image_like(first), dtype=self.dtype(first))
        wanted, tries = self.random.randint(*self.taste.length), 0
        chosen = self.taste.families or self.random.choice(STYLES)
        families = [f for f in FAMILIES if not chosen or f in chosen]
        weights = [FAMILIES[f][0] for f in families]
        while len(self.body) < wanted and tries < 8 * wanted:
            tries += 1
            FAMILIES[self.random.choices(families, weights)[0]][1](self)
        made = [name for name in self.infos if name.startswith("t")]
        if not made:
            return None
        results = self._results(made)
        return Program(tuple(self.sources), tuple(self.setup), tuple(self.body), results, self.seed)

    def _results(self, made: list[str]) -> tuple[str, ...]:
        """The last, some others, and now and then an input or the state."""
        found = [made[-1], *(name for name in made[:-1] if self.random.random() < 0.15)]
        found += [s.name for s in self.sources if s.name in self.infos and s.role == "state"]
        found += [s.name for s in self.sources if s.name in self.infos and self.random.random() < 0.05]
        return tuple(dict.fromkeys(found))

    def source(self, role: str, **given: Any) -> str:
        """A tensor that is there before the trace."""
        name = f"{role[0]}{self._next()}"
        shape, image = self._shape() if "shape" not in given else (given["shape"], given.get("image"))
        kinds = ("normal", "normal", "normal", "wide", "small", "whole", "sparse", "positive", "zeros")
        if self._special and role == "input":
            kinds = ("special", "infinite", "special", "normal")
        dtype = given.get("dtype") or self.random.choice(("bfloat16",) * 5 + ("float32",) * 2 + ("bfloat8_b", "int32"))
        layout = given.get("layout") or self.random.choice(("TILE", "TILE", "TILE", "ROW_MAJOR"))
        source = Source(
            name, shape, dtype, "TILE" if dtype == "bfloat8_b" else layout, self.random.choice(INTERLEAVED),
            given.get("kind") or self.random.choice(kinds), role,
        )  # fmt: skip
        host = source.on_host(self.ttnn, self.seed * 100 + len(self.sources))
        self.names[name] = self.ttnn.to_device(host, self.device, memory_config=eval(source.memory, self.names))
        self.sources.append(source)
        self.infos[name] = Info(exact=True, image=image)
        return name

    def _shape(self) -> tuple[tuple[int, ...], tuple[int, int, int, int] | None]:
        pick = self.random.random()
        if pick < 0.45:
            n, h, w = self.random.choice((1, 1, 1, 2)), self.random.randint(2, 16), self.random.randint(2, 16)
            if self.random.random() < 0.4:
                h = w = self.random.choice((8, 12, 16))
            c = self.random.choice((3, 8, 16, 16, 32, 32, 48, 64))
            return (1, 1, n * h * w, c), (n, h, w, c)
        if pick < 0.75:  # channels where the kernels have theirs
            n, c = self.random.choice((1, 1, 2)), self.random.choice((16, 16, 32, 17))
            return (n, c, self.random.choice((1, 7, 32, 32)), self.random.choice((5, 32, 32))), None
        rank = self.random.randint(2, 4)
        return tuple(self.random.choice((1, 2, 3, 7, 16, 32, 33)) for _ in range(rank)), None

    def _next(self) -> int:
        self._count += 1
        return self._count

    # --- statements ----------------------------------------------------------------------------------------------

    def attempt(self, statement: str, result: str | None, info: Info) -> bool:
        """Run a statement and keep it, where the card takes it."""
        before = dict(self.names)
        try:
            exec(statement, self.names)
            self.ttnn.synchronize_device(self.device)
            if result is not None:
                self._look(self.names[result])
        except Exception:
            self.names = before
            return False
        self.body.append(statement)
        if result is not None:
            self.infos[result] = info
        return True

    def _look(self, tensor: Any) -> None:
        if not 0 < math.prod(tensor.shape) <= self.taste.largest:
            raise ValueError("too large, or empty")
        values_of([tensor])

    def make(self, call: str, exact: bool = False, image: tuple[int, int, int, int] | None = None) -> bool:
        """A new tensor from a call."""
        name = f"t{self._next()}"
        return self.attempt(f"{name} = {call}", name, Info(exact, image))

    def pick(self, test: Callable[[str], bool] = lambda name: True) -> str | None:
        """A tensor, the latest more often. One without axes says little."""
        names = [name for name in self.infos if self.shape(name) and test(name)]
        if not names:
            return None
        return names[-1] if self.random.random() < 0.5 else self.random.choice(names)

    def number(self) -> str:
        return self.random.choice(("0.5", "1.5", "2.0", "0.25", "3.0", "1.0", "0.1"))

    def is_float(self, name: str) -> bool:
        return self.dtype(name) in FLOATS

    def dtype(self, name: str) -> str:
        return str(self.names[name].dtype).rsplit(".", 1)[-1].lower()

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self.names[name].shape)

    def free_to_jump(self, name: str) -> bool:
        return not self.taste.native or self.infos[name].exact

    def image_like(self, name: str) -> tuple[int, int, int, int] | None:
        return self.infos[name].image


# --- families of statements ----------------------------------------------------------------------------------------


def unary(draw: Drawing) -> None:
    x = draw.pick(draw.is_float)
    if x is None:
        return
    jumps = draw.free_to_jump(x) and draw.random.random() < 0.4
    numbered = draw.random.random() < 0.35
    if numbered:
        form = draw.random.choice(JUMPING_WITH_NUMBER if jumps else WITH_NUMBER)
    else:
        form = draw.random.choice(JUMPING if jumps else SMOOTH) + "({0})"
    exact = draw.infos[x].exact and form.split("(")[0] in SELECTING
    draw.make("ttnn." + form.format(x, draw.number()), exact, draw.image_like(x))


def binary(draw: Drawing) -> None:
    a = draw.pick(draw.is_float)
    if a is None:
        return
    shape = draw.shape(a)
    b = a if draw.random.random() < 0.15 else draw.pick(lambda n: draw.is_float(n) and _fits(draw.shape(n), shape))
    if b is None:
        return
    if draw.random.random() < 0.3:
        a, b = b, a
    names, both = BINARY, draw.free_to_jump(a) and draw.free_to_jump(b)
    if both and draw.random.random() < 0.25:
        names = JUMPING_BINARY
    elif draw.random.random() < 0.05:
        names = SMOOTH_BINARY
    name = draw.random.choice(names)
    more = ""
    if draw.random.random() < 0.15:
        more = f", activations=[ttnn.UnaryWithParam(ttnn.UnaryOpType.{draw.random.choice(ACTIVATIONS)})]"
    exact = name in SELECTING and not more and draw.infos[a].exact and draw.infos[b].exact
    image = draw.image_like(a) if draw.shape(a) == shape else draw.image_like(b)
    draw.make(f"ttnn.{name}({a}, {b}{more})", exact, image if shape in (draw.shape(a), draw.shape(b)) else None)


def _fits(shape: tuple[int, ...], other: tuple[int, ...]) -> bool:
    pairs = zip(reversed(shape), reversed(other), strict=False)
    return all(m == n or 1 in (m, n) for m, n in pairs)


def in_place(draw: Drawing) -> None:
    """On the state, on an input (which is written again before the next replay), or on something of the trace's own."""
    state = [n for n in draw.infos if n.startswith("s")]
    if state and draw.random.random() < 0.5:
        a: str | None = state[0]
    else:
        a = draw.pick(lambda n: not n.startswith("c") and draw.is_float(n))
    b = None if a is None else draw.pick(lambda n: n != a and draw.dtype(n) == draw.dtype(a) and _same(draw, n, a))
    if a is None or b is None:
        return
    pick = draw.random.random() if draw.is_float(a) else 0.0
    # what grows with every replay would soon be infinite
    names = ("add_", "subtract_", "rsub_") if a.startswith("s") else ("add_", "subtract_", "multiply_", "rsub_")
    if pick < 0.6:
        statement = f"ttnn.{draw.random.choice(names)}({a}, {b})"
    elif pick < 0.8:
        statement = f"ttnn.{draw.random.choice(('relu', 'sigmoid', 'tanh'))}({b}, output_tensor={a})"
    elif pick < 0.9:
        statement = f"ttnn.add({a}, {b}, output_tensor={a})"
    else:
        statement = f"ttnn.copy({b}, {a})"
    if draw.attempt(statement, None, Info(False)):
        for name, tensor in draw.names.items():  # views of it are changed too
            if name in draw.infos and tensor._buffer is draw.names[a]._buffer:
                draw.infos[name] = replace(draw.infos[name], exact=False)


def _same(draw: Drawing, one: str, other: str) -> bool:
    return draw.shape(one) == draw.shape(other)


def freed(draw: Drawing) -> None:
    """Memory given back in the middle of the trace, so that what follows lies there."""
    made = [n for n in draw.infos if n.startswith("t")]
    if len(made) < 3:
        return
    name = draw.random.choice(made[:-1])
    shared = [n for n, t in draw.names.items() if n != name and getattr(t, "_buffer", 0) is draw.names[name]._buffer]
    if not shared and draw.attempt(f"ttnn.deallocate({name})", None, Info(False)):
        del draw.infos[name]


def integers(draw: Drawing) -> None:
    a = draw.pick(lambda n: not draw.is_float(n))
    if a is None:
        x = draw.pick(lambda n: draw.is_float(n) and draw.infos[n].exact)
        if x is not None:
            draw.make(f"ttnn.typecast({x}, ttnn.{draw.random.choice(('int32', 'uint32', 'uint16'))})", True)
        return
    if draw.random.random() < 0.3:
        draw.make(f"ttnn.typecast({a}, ttnn.{draw.random.choice(('bfloat16', 'float32', 'int32'))})", True)
        return
    b = draw.pick(lambda n: draw.dtype(n) == draw.dtype(a) and _fits(draw.shape(n), draw.shape(a)))
    if b is not None:
        draw.make(f"ttnn.{draw.random.choice(OF_INTEGERS)}({a}, {b})", True)


def selection(draw: Drawing) -> None:
    c = draw.pick(lambda n: draw.is_float(n) and draw.free_to_jump(n))
    x = None if c is None else draw.pick(lambda n: draw.is_float(n) and draw.shape(n) == draw.shape(c))
    y = None if c is None else draw.pick(lambda n: draw.is_float(n) and draw.shape(n) == draw.shape(c))
    if c and x and y:
        draw.make(f"ttnn.where({c}, {x}, {y})", draw.infos[x].exact and draw.infos[y].exact, draw.image_like(x))


def rearrangement(draw: Drawing) -> None:
    x = draw.pick()
    if x is None:
        return
    shape, rank, pick = draw.shape(x), len(draw.shape(x)), draw.random.choice
    axis = draw.random.randrange(rank)
    dims = list(range(rank))
    draw.random.shuffle(dims)
    low = [draw.random.randint(0, max(0, n // 3)) for n in shape]
    high = [draw.random.randint(n - n // 3, n) for n in shape]
    flat = math.prod(shape)
    shapes = [
        (1, 1, flat // shape[-1], shape[-1]),
        (flat // shape[-1], shape[-1]),
        (1, 1, 1, flat),
        tuple(reversed(shape)),
    ]
    shapes += [(1, 1, flat // n, n) for n in (16, 32, 64) if flat % n == 0]
    image = draw.image_like(x)
    if image:
        shapes.append(image)
    padding = ", ".join(f"({pick((0, 0, 1, 2))}, {pick((0, 1, 3))})" for _ in shape)
    forms = [
        f"ttnn.reshape({x}, {pick(shapes)})",
        f"ttnn.reshape({x}, {pick(shapes)})",
        f"ttnn.permute({x}, {tuple(dims)})",
        f"ttnn.transpose({x}, {axis}, {draw.random.randrange(rank)})",
        f"ttnn.slice({x}, {low}, {high})",
        f"ttnn.pad({x}, [{padding}], {pick((0.0, 0.0, 1.5))})",
        f"ttnn.repeat({x}, {tuple(2 if i == axis else 1 for i in range(rank))})",
        f"ttnn.repeat_interleave({x}, 2, {axis})",
        f"ttnn.unsqueeze({x}, 0)",
        f"ttnn.squeeze({x}, 0)",
        f"ttnn.roll({x}, {pick((1, 3))}, {axis})",
        f"ttnn.clone({x})",
        f"ttnn.to_layout({x}, ttnn.{pick(('TILE', 'ROW_MAJOR'))}_LAYOUT)",
        f"ttnn.to_memory_config({x}, {pick(INTERLEAVED)})",
        f"ttnn.typecast({x}, ttnn.{pick(('bfloat16', 'float32', 'bfloat8_b'))})",
    ]
    form = pick(forms)
    moved = form.startswith(("ttnn.clone", "ttnn.to_", "ttnn.typecast"))
    exact = draw.infos[x].exact and (not form.startswith("ttnn.typecast") or not draw.taste.native)
    if not draw.is_float(x) and "typecast" in form:
        return
    draw.make(form, exact, image if moved else None)


def sharding(draw: Drawing) -> None:
    """Into shards and out of them; what comes between works on shards."""
    x = draw.pick(lambda n: draw.infos[n].image is not None or len(draw.shape(n)) == 4)
    if x is None:
        return
    rows, columns = math.prod(draw.shape(x)[:-1]), draw.shape(x)[-1]
    cores = draw.random.choice((1, 2, 4, 8))
    kind = draw.random.choice(("HEIGHT", "WIDTH", "BLOCK"))
    if draw.names[x].is_sharded():
        draw.make(
            f"ttnn.sharded_to_interleaved({x}, {draw.random.choice(INTERLEAVED)})",
            draw.infos[x].exact,
            draw.image_like(x),
        )
        return
    tall, wide = -(-rows // 32) * 32, -(-columns // 32) * 32
    shard = {
        "HEIGHT": (-(-tall // 32 // cores) * 32, wide),
        "WIDTH": (tall, -(-wide // 32 // cores) * 32),
        "BLOCK": (-(-tall // 32 // 2) * 32, -(-wide // 32 // 2) * 32),
    }[kind]
    grid = (2, 2) if kind == "BLOCK" else (cores, 1)
    config = (
        f"ttnn.create_sharded_memory_config({shard}, core_grid=ttnn.CoreGrid(x={grid[0]}, y={grid[1]}), "
        f"strategy=ttnn.ShardStrategy.{kind}, use_height_and_width_as_shard_shape=True)"
    )
    draw.make(f"ttnn.to_memory_config({x}, {config})", draw.infos[x].exact, draw.image_like(x))


def joining(draw: Drawing) -> None:
    x = draw.pick()
    if x is None:
        return
    shape = draw.shape(x)
    axis = draw.random.randrange(len(shape))
    if draw.random.random() < 0.4:
        name, other = f"t{draw._next()}", f"t{draw._next()}"
        call = draw.random.choice(
            (f"ttnn.split({x}, {max(1, shape[axis] // 2)}, {axis})", f"ttnn.chunk({x}, 2, {axis})")
        )
        if draw.attempt(f"{name}, {other} = {call}", name, Info(draw.infos[x].exact)):
            draw.infos[other] = Info(draw.infos[x].exact)
        return

    def joins(name: str) -> bool:
        other = draw.shape(name)
        same = len(other) == len(shape) and draw.dtype(name) == draw.dtype(x)
        return same and all(m == n for i, (m, n) in enumerate(zip(other, shape, strict=False)) if i != axis)

    parts = [x, *(one for _ in range(draw.random.randint(1, 2)) if (one := draw.pick(joins)) is not None)]
    image, exact = None, all(draw.infos[p].exact for p in parts)
    if axis == len(shape) - 1 and all(draw.image_like(p) for p in parts):
        n, h, w, _ = draw.image_like(x) or (0, 0, 0, 0)
        image = (n, h, w, sum(draw.shape(p)[-1] for p in parts))
    draw.make(f"ttnn.concat([{', '.join(parts)}], {axis})", exact, image)


def _square(draw: Drawing) -> tuple[str, tuple[int, int, int, int]] | None:
    """An image; one is made where there is none."""
    x = draw.pick(lambda n: draw.infos[n].image is not None and draw.is_float(n))
    if x is None:
        n, h, w, c = 1, draw.random.randint(3, 12), draw.random.randint(3, 12), draw.random.choice((8, 16, 32))
        x = draw.source("input", shape=(1, 1, n * h * w, c), image=(n, h, w, c), dtype="bfloat16")
    image = draw.infos[x].image
    assert image is not None
    return x, image


def _weights(draw: Drawing, shape: tuple[int, ...], bias: int) -> str:
    """Host weights under a name that the body refills with prepared ones."""
    name = f"w{draw._next()}"
    row = (
        f"ttnn.from_torch(torch.randn(1, 1, 1, {bias}), dtype=ttnn.bfloat16)" if draw.random.random() < 0.7 else "None"
    )
    fan = max(1, math.prod(shape[1:])) ** 0.5
    seed = draw.seed * 100 + 50 + draw._count
    line = (
        f"torch.manual_seed({seed}); {name} = "
        f"[ttnn.from_torch(torch.randn({shape}) / {fan:.3f}, dtype=ttnn.bfloat16), {row}]"
    )
    import torch

    draw.names["torch"] = torch
    exec(line, draw.names)
    draw.setup.append(line)
    return name


def convolution(draw: Drawing) -> None:
    found = _square(draw)
    if found is None:
        return
    x, (n, h, w, c) = found
    pick = draw.random.choice
    kernel = pick(((3, 3), (3, 3), (1, 1), (5, 5), (1, 3), (2, 2)))
    stride = pick(((1, 1), (1, 1), (2, 2)))
    padding = pick(((kernel[0] // 2, kernel[1] // 2), (0, 0)))
    dilation = pick(((1, 1), (1, 1), (1, 1), (2, 2)))
    out, groups = pick((8, 16, 32, 48)), 1
    if draw.random.random() < 0.15:
        out, groups = c, c
    oh, ow = (
        (side + 2 * p - d * (k - 1) - 1) // s + 1
        for side, p, d, k, s in zip((h, w), padding, dilation, kernel, stride, strict=True)
    )
    if oh < 1 or ow < 1:
        return
    names = _weights(draw, (out, c // groups, *kernel), out)
    config = ""
    options = []
    if draw.random.random() < 0.5:
        options.append(f"activation=ttnn.UnaryWithParam(ttnn.UnaryOpType.{pick(ACTIVATIONS)})")
    if draw.random.random() < 0.5:
        options.append(f"shard_layout=ttnn.TensorMemoryLayout.{pick(('HEIGHT', 'BLOCK', 'WIDTH'))}_SHARDED")
    if draw.random.random() < 0.2:
        options.append("output_layout=ttnn.ROW_MAJOR_LAYOUT")
    if options:
        config = f", conv_config=ttnn.Conv2dConfig({', '.join(options)})"
    if draw.random.random() < 0.4:
        fidelity, wide = pick(("LoFi", "HiFi2", "HiFi4")), pick((True, False))
        config += (
            f", compute_config=ttnn.init_device_compute_kernel_config(device.arch(), "
            f"math_fidelity=ttnn.MathFidelity.{fidelity}, fp32_dest_acc_en={wide})"
        )
    if draw.random.random() < 0.2:
        config += f", dtype=ttnn.{pick(('bfloat16', 'bfloat8_b', 'float32'))}"
    name = f"t{draw._next()}"
    statement = (
        f"{name}, {names}[:] = ttnn.conv2d(input_tensor={x}, weight_tensor={names}[0], bias_tensor={names}[1], "
        f"device=device, in_channels={c}, out_channels={out}, batch_size={n}, input_height={h}, input_width={w}, "
        f"kernel_size={kernel}, stride={stride}, padding={padding}, dilation={dilation}, groups={groups}{config}, "
        "return_weights_and_bias=True)"
    )
    if not draw.attempt(statement, name, Info(False, (n, oh, ow, out))):
        draw.setup.pop()


def transposed_convolution(draw: Drawing) -> None:
    found = _square(draw)
    if found is None:
        return
    x, (n, h, w, c) = found
    pick = draw.random.choice
    kernel, stride, padding = pick((((2, 2), (2, 2), (0, 0)), ((3, 3), (2, 2), (1, 1)), ((3, 3), (1, 1), (1, 1))))
    out = pick((8, 16, 32))
    oh, ow = ((side - 1) * s - 2 * p + k for side, s, p, k in zip((h, w), stride, padding, kernel, strict=True))
    names, name = _weights(draw, (c, out, *kernel), out), f"t{draw._next()}"
    statement = (
        f"{name}, {names}[:] = ttnn.conv_transpose2d(input_tensor={x}, weight_tensor={names}[0], "
        f"bias_tensor={names}[1], device=device, in_channels={c}, out_channels={out}, batch_size={n}, "
        f"input_height={h}, input_width={w}, kernel_size={kernel}, stride={stride}, padding={padding}, "
        "output_padding=(0, 0), dilation=(1, 1), groups=1, return_weights_and_bias=True)"
    )
    if not draw.attempt(statement, name, Info(False, (n, oh, ow, out))):
        draw.setup.pop()


def pool(draw: Drawing) -> None:
    found = _square(draw)
    if found is None:
        return
    x, (n, h, w, c) = found
    pick = draw.random.choice
    kernel, stride, padding = pick(
        (
            ([2, 2], [2, 2], [0, 0]),
            ([3, 3], [2, 2], [1, 1]),
            ([3, 3], [1, 1], [1, 1]),
            ([5, 5], [1, 1], [2, 2]),
        )
    )
    oh, ow = ((side + 2 * p - k) // s + 1 for side, p, k, s in zip((h, w), padding, kernel, stride, strict=True))
    if oh < 1 or ow < 1:
        return
    common = (
        f"input_tensor={x}, batch_size={n}, input_h={h}, input_w={w}, channels={c}, kernel_size={kernel}, "
        f"stride={stride}, padding={padding}"
    )
    if draw.random.random() < 0.5:
        draw.make(f"ttnn.max_pool2d({common}, dilation=[1, 1])", draw.infos[x].exact, (n, oh, ow, c))
    elif draw.random.random() < 0.8:
        counted = pick((True, False))
        draw.make(f"ttnn.avg_pool2d({common}, ceil_mode=False, count_include_pad={counted})", False, (n, oh, ow, c))
    else:
        draw.make(f"ttnn.global_avg_pool2d(ttnn.reshape({x}, {(n, h, w, c)}))", False)


def upsampling(draw: Drawing) -> None:
    found = _square(draw)
    if found is None:
        return
    x, (n, h, w, c) = found
    mode = draw.random.choice(("nearest", "nearest", "bilinear"))
    image = f"ttnn.reshape(ttnn.to_layout({x}, ttnn.ROW_MAJOR_LAYOUT), {(n, h, w, c)})"
    flat = f"ttnn.reshape(ttnn.upsample({image}, 2, mode={mode!r}), (1, 1, {4 * n * h * w}, {c}))"
    exact = draw.infos[x].exact and mode == "nearest"
    draw.make(f"ttnn.to_layout({flat}, ttnn.TILE_LAYOUT)", exact, (n, 2 * h, 2 * w, c))


def product(draw: Drawing) -> None:
    x = draw.pick(lambda n: draw.is_float(n) and len(draw.shape(n)) >= 2)
    if x is None:
        return
    inner = draw.shape(x)[-1]
    pick = draw.random.random()
    more = ""
    if draw.random.random() < 0.3:
        more = f", activation={draw.random.choice(('relu', 'silu', 'gelu'))!r}"
    if pick < 0.5:
        columns = draw.random.choice((8, 32, 40))
        dtype = draw.random.choice(("bfloat16", "bfloat8_b"))
        w = draw.source("constant", shape=(inner, columns), dtype=dtype, kind="weights", layout="TILE")
        bias = ""
        if draw.random.random() < 0.5:
            row = draw.source("constant", shape=(1, columns), dtype="bfloat16", kind="normal", layout="TILE")
            bias = f", bias={row}"
        draw.make(f"ttnn.linear({x}, {w}{bias}{more})")
    elif pick < 0.8:
        y = draw.pick(lambda n: draw.is_float(n) and len(draw.shape(n)) == len(draw.shape(x)))
        draw.make(f"ttnn.matmul({x}, ttnn.transpose({y}, -2, -1))")
    else:
        draw.make(f"ttnn.matmul({x}, ttnn.transpose({x}, -2, -1))")


def reduction(draw: Drawing) -> None:
    x = draw.pick(draw.is_float)
    if x is None:
        return
    rank = len(draw.shape(x))
    dim = draw.random.choice((-1, -2, rank - 1, 0, None, (-2, -1)))
    names = ("mean", "sum", "max", "min", "mean", "sum", "var", "std")
    name = draw.random.choice(names)
    if name in ("var", "std") and not draw.free_to_jump(x):
        return
    keep = draw.random.choice((True, True, False))
    draw.make(f"ttnn.{name}({x}, dim={dim}, keepdim={keep})", draw.infos[x].exact and name in ("max", "min"))


def ordering(draw: Drawing) -> None:
    """Answers that hang on which value is larger."""
    x = draw.pick(lambda n: draw.is_float(n) and draw.free_to_jump(n))
    if x is None:
        return
    pick = draw.random.random()
    if pick < 0.3:
        draw.make(f"ttnn.argmax({x}, dim=-1)", True)
        return
    name, other = f"t{draw._next()}", f"t{draw._next()}"
    call = f"ttnn.sort({x}, dim=-1)" if pick < 0.6 else f"ttnn.topk({x}, 32, dim=-1)"
    if draw.attempt(f"{name}, {other} = {call}", name, Info(draw.infos[x].exact)):
        draw.infos[other] = Info(True)


def normalization(draw: Drawing) -> None:
    x = draw.pick(draw.is_float)
    if x is None:
        return
    width, pick = draw.shape(x)[-1], draw.random.random()
    if pick < 0.35:
        draw.make(f"ttnn.softmax({x}, dim={draw.random.choice((-1, -1, -2))})", image=draw.image_like(x))
    elif pick < 0.55:
        draw.make(f"ttnn.rms_norm({x}, epsilon=1e-2)", image=draw.image_like(x))
    elif pick < 0.8:
        gamma = draw.source("constant", shape=(1, width), dtype="bfloat16", kind="positive", layout="TILE")
        draw.make(f"ttnn.layer_norm({x}, weight={gamma}, epsilon=1e-2)", image=draw.image_like(x))
    else:
        draw.make(f"ttnn.cumsum({x}, dim={draw.random.choice((0, 1, -1))})")


FAMILIES: dict[str, tuple[float, Callable[[Drawing], None]]] = {
    "unary": (4, unary),
    "binary": (5, binary),
    "in_place": (1.5, in_place),
    "freed": (0.7, freed),
    "integers": (0.7, integers),
    "selection": (0.5, selection),
    "rearrangement": (3, rearrangement),
    "sharding": (0.8, sharding),
    "joining": (1.5, joining),
    "convolution": (2, convolution),
    "transposed_convolution": (0.4, transposed_convolution),
    "pool": (1, pool),
    "upsampling": (0.5, upsampling),
    "product": (1, product),
    "reduction": (1, reduction),
    "ordering": (0.3, ordering),
    "normalization": (1, normalization),
}


STYLES: tuple[tuple[str, ...], ...] = (
    (),
    (),
    ("unary", "binary"),
    ("unary", "binary", "in_place", "freed", "rearrangement", "joining"),
    ("in_place", "ordering", "selection", "integers", "unary", "binary"),
    ("convolution", "transposed_convolution", "pool", "upsampling", "binary", "unary", "joining"),
    ("rearrangement", "joining", "binary", "reduction", "normalization", "product"),
)
"""Programs of all families, and of those whose statements meet in one step of an engine."""


def drawn(seed: int, taste: Taste, ttnn: Any, device: Any) -> Program | None:
    """A program that the card takes."""
    import warnings

    with warnings.catch_warnings(), suppress(ValueError):
        warnings.simplefilter("ignore")
        return Drawing(seed, taste, ttnn, device).program()
    return None
