# SPDX-License-Identifier: Apache-2.0
"""Draws random programs. Each statement is tried on a card as it is drawn: what the card refuses is not taken.

`numerics="native"` is compared with a float64 evaluation, which says nothing where a jump hangs on the last bit of a
sum. There, functions that jump (`floor`, comparisons) and functions with a pole take only values that every engine has
exactly: inputs, and what moves or selects them.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from tests.differential.program import FLOATS, Program, Source, values_of

ACTIVATIONS = ("RELU", "SILU", "TANH", "SIGMOID", "GELU", "MISH, 0.0", "HARDSWISH")
INTERLEAVED = ("ttnn.DRAM_MEMORY_CONFIG", "ttnn.L1_MEMORY_CONFIG")


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
    largest_stored: int = 1 << 20
    """With the padding of its tiles, of which one alone may be 1024 times as much: a reversed (1, 1, 512, 64) has 32 Mi
    elements there, and every op and every evaluation in float64 computes them all."""


class Family(NamedTuple):
    """Statements of a kind."""

    weight: float
    draw: Callable[[Drawing], None]
    """Adds one to a program, where one can be made."""


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

    def program(self, all_families: Mapping[str, Family], styles: Sequence[Sequence[str]]) -> Program | None:
        """None where the card took nothing of what was drawn."""
        first = self.source(role="input")
        for _ in range(self.random.randint(0, 2)):
            alike = {"shape": self.shape(first), "image": self.image_like(first)} if self.random.random() < 0.5 else {}
            self.source(role="input", **alike)
        if self.random.random() < 0.4:
            self.source(role="state", shape=self.shape(first), image=self.image_like(first), dtype=self.dtype(first))
        wanted, tries = self.random.randint(*self.taste.length), 0
        chosen = self.taste.families or self.random.choice(styles)
        families = [family for name, family in all_families.items() if not chosen or name in chosen]
        weights = [family.weight for family in families]
        while len(self.body) < wanted and tries < 8 * wanted:
            tries += 1
            self.random.choices(families, weights)[0].draw(self)
        made = [name for name in self.infos if name.startswith("t")]
        if not made:
            return None
        results = self._results(made)
        held = {id(self.names[name]._buffer) for name in results}
        sources = [self._placed(one, id(self.names[one.name]._buffer) in held) for one in self.sources]
        return Program(tuple(sources), tuple(self.setup), tuple(self.body), results, self.seed)

    def _placed(self, source: Source, is_result: bool) -> Source:
        """Some inputs are allocated anew for every replay. What is read after it must stay."""
        anew = source.role == "input" and not is_result and self.random.random() < 0.15
        return replace(source, anew=True) if anew else source

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
        kinds = ("normal", "normal", "normal", "wide", "small", "whole", "sparse", "positive", "zeros", "tiny", "below")
        if self._special and role == "input":
            kinds = ("special", "infinite", "special", "normal")
        dtype = given.get("dtype") or self.random.choice(
            ("bfloat16",) * 5 + ("float32",) * 2 + ("bfloat8_b", "int32", "uint32", "uint16")
        )
        layout = given.get("layout") or self.random.choice(("TILE", "TILE", "TILE", "ROW_MAJOR"))
        source = Source(
            name, shape, dtype, "TILE" if dtype == "bfloat8_b" else layout, self.random.choice(INTERLEAVED),
            given.get("kind") or self.random.choice(kinds), role,
        )  # fmt: skip
        host = source.on_host(self.ttnn, self.seed * 100 + len(self.sources))
        self.names[name] = self.ttnn.to_device(host, self.device, memory_config=eval(source.memory, self.names))
        self.sources.append(source)
        self.infos[name] = Info(exact=role != "state", image=image)  # what state carries over is computed
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
        """Run a statement and keep it, where the card takes it. It refuses in many ways, all of them at the call."""
        before = dict(self.names)
        try:
            exec(statement, self.names)
        except Exception:
            self.names = before
            return False
        self.ttnn.synchronize_device(self.device)  # what was taken must run
        if result is not None and not self._usable(self.names[result]):
            self.names = before
            return False
        self.body.append(statement)
        if result is not None:
            self.infos[result] = info
        return True

    def _usable(self, tensor: Any) -> bool:
        """Not empty, and not too large."""
        if not 0 < math.prod(tensor.shape) <= self.taste.largest:
            return False
        if math.prod(tensor.padded_shape) > self.taste.largest_stored:
            return False
        values_of([tensor])
        return True

    def make(self, call: str, exact: bool = False, image: tuple[int, int, int, int] | None = None) -> bool:
        """A new tensor from a call."""
        name = f"t{self._next()}"
        return self.attempt(f"{name} = {call}", name, Info(exact, image))

    def shared(self, name: str) -> bool:
        """Whether others lie in the same memory."""
        buffer = self.names[name]._buffer
        return any(n != name and getattr(t, "_buffer", 0) is buffer for n, t in self.names.items())

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
