# SPDX-License-Identifier: Apache-2.0
"""A random program: TT-NN statements as text, so that it runs, shrinks and prints without a second form.

`setup` makes tensors before the trace (inputs, weights, state), `body` is what the trace holds, `results` are the names
that it returns. A program that fails is printed as a script of its own (`script.py`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

DTYPES = ("bfloat16", "float32", "bfloat8_b", "uint32", "int32", "uint16")
FLOATS = ("bfloat16", "float32", "bfloat8_b")
KEPT = Path(__file__).with_name("kept_programs.json")


@dataclass(frozen=True)
class Source:
    """A tensor that is on the card before the trace begins."""

    name: str
    shape: tuple[int, ...]
    dtype: str = "bfloat16"
    layout: str = "TILE"
    memory: str = "ttnn.DRAM_MEMORY_CONFIG"
    kind: str = "normal"
    """Which values it gets (`VALUES`)."""
    role: str = "input"
    """An `input` is written before every replay, a `constant` once; `state` too, and the trace may write it."""
    anew: bool = False
    """An input that is freed and allocated again before every replay, where it was."""

    def values(self, seed: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(seed)
        if self.dtype not in FLOATS:
            return torch.randint(0, 200, self.shape, generator=generator, dtype=torch.int32)
        return VALUES[self.kind](torch.randn(self.shape, generator=generator), generator)

    def on_host(self, ttnn: Any, seed: int) -> Any:
        return ttnn.from_torch(
            self.values(seed), dtype=getattr(ttnn, self.dtype), layout=getattr(ttnn, f"{self.layout}_LAYOUT")
        )


def _special(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Here and there a number that is none."""
    odd = torch.tensor([float("nan"), float("inf"), float("-inf"), 1e-40, -1e-39, 0.0, -0.0, 1e30, 1e-38])
    picked = odd[torch.randint(0, len(odd), x.shape, generator=generator)]
    return torch.where(torch.rand(x.shape, generator=generator) < 0.02, picked, x)


def _zeroes(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Mostly zeros of both signs."""
    odd = torch.tensor([0.0, -0.0, 0.0, -0.0, 0.0, -0.0, 1e-40, -1e-40, 1.0, -1.0, float("nan")])
    return odd[torch.randint(0, len(odd), x.shape, generator=generator)]


def _infinite(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return torch.where(torch.rand(x.shape, generator=generator) < 0.005, torch.full_like(x, float("inf")), x)


VALUES: dict[str, Callable[[torch.Tensor, torch.Generator], torch.Tensor]] = {
    "normal": lambda x, _: x,
    "weights": lambda x, _: x / max(1, x[0].numel()) ** 0.5,
    "positive": lambda x, _: x.abs() + 0.5,
    "wide": lambda x, _: x * torch.pow(10.0, x.roll(1, -1)),
    "small": lambda x, _: x * 1e-3,
    "tiny": lambda x, _: x * 1e-5,
    "below": lambda x, _: x - 15,
    "whole": lambda x, _: (4 * x).round(),
    "zeros": lambda x, _: torch.zeros_like(x),
    "sparse": lambda x, g: torch.where(torch.rand(x.shape, generator=g) < 0.9, torch.zeros_like(x), x),
    "special": _special,
    "infinite": _infinite,
    "zeroes": _zeroes,
}


@dataclass(frozen=True)
class Program:
    sources: tuple[Source, ...]
    setup: tuple[str, ...]
    """Statements after the sources are on the card: prepared weights and the like."""
    body: tuple[str, ...]
    results: tuple[str, ...]
    seed: int = 0

    def text(self) -> str:
        """The body as a function of the names that setup has made."""
        lines = [*self.body, f"return [{', '.join(self.results)}]"]
        return "def body(ttnn, {names}):\n" + "".join(f"    {line}\n" for line in lines)


def kept(name: str) -> Program:
    """A program that once went wrong, as it was drawn then: what a seed gives changes with the generator."""
    found = json.loads(KEPT.read_text())[name]
    sources = tuple(Source(**one | {"shape": tuple(one["shape"])}) for one in found["sources"])
    lines = (tuple(found[part]) for part in ("setup", "body", "results"))
    return Program(sources, *lines, seed=found["seed"])


class Moved(Exception):
    """An input came to lie elsewhere, so that replays would not read it."""


class Running:
    """A program's tensors on a device; `call` runs its body, eagerly or into a trace."""

    def __init__(self, program: Program, ttnn: Any, device: Any) -> None:
        self.program, self.ttnn, self.device = program, ttnn, device
        names: dict[str, Any] = {"ttnn": ttnn, "device": device, "torch": torch}
        for i, source in enumerate(program.sources):
            host = source.on_host(ttnn, seed_of(program, i))
            names[source.name] = ttnn.to_device(host, device, memory_config=eval(source.memory, {"ttnn": ttnn}))
        for line in program.setup:
            exec(line, names)
        self.made = {name: value for name, value in names.items() if name not in _GIVEN}
        namespace: dict[str, Any] = {}
        exec(program.text().format(names=", ".join(self.made)), {"device": device}, namespace)
        self._body = namespace["body"]
        self.traced = False
        """A trace reads the inputs where they are."""

    def write(self, round_: int) -> None:
        """New values for the inputs."""
        for i, source in enumerate(self.program.sources):
            if source.role == "input":
                host = source.on_host(self.ttnn, seed_of_input(self.program, i, round_))
                if source.anew:
                    self._replace(source, host)
                else:
                    self.ttnn.copy_host_to_device_tensor(host, self.made[source.name])

    def _replace(self, source: Source, host: Any) -> None:
        """It comes to lie where it was, unless another hole in memory suits it better."""
        before = self.made[source.name].buffer_address()
        self.ttnn.deallocate(self.made[source.name])
        memory = eval(source.memory, {"ttnn": self.ttnn})
        self.made[source.name] = self.ttnn.to_device(host, self.device, memory_config=memory)
        if self.traced and before != self.made[source.name].buffer_address():
            raise Moved(f"{source.name} lies elsewhere now")

    def reset(self) -> None:
        """The state as it was in the beginning."""
        for i, source in enumerate(self.program.sources):
            if source.role == "state":
                host = source.on_host(self.ttnn, seed_of(self.program, i))
                self.ttnn.copy_host_to_device_tensor(host, self.made[source.name])

    def call(self) -> list[Any]:
        found: list[Any] = self._body(self.ttnn, **self.made)
        return found


_GIVEN = ("ttnn", "device", "torch", "__builtins__")


def seed_of(program: Program, number: int) -> int:
    return program.seed * 100 + number


def seed_of_input(program: Program, number: int, round_: int) -> int:
    return seed_of(program, number) + 1000 * (round_ + 1)


def values_of(tensors: Sequence[Any]) -> list[torch.Tensor]:
    """What tensors on a card hold, without padding, in the numbers that the card carries them in."""
    found = []
    for tensor in tensors:
        value = tensor.cpu().host_values()[0]
        shape = tuple(tensor.shape)
        found.append(value.reshape((1,) * (len(shape) - value.dim()) + tuple(value.shape))[_corner(value, shape)])
    return [one.reshape(tuple(t.shape)).clone() for one, t in zip(found, tensors, strict=True)]


def _corner(value: torch.Tensor, shape: tuple[int, ...]) -> tuple[Any, ...]:
    extra = value.dim() - len(shape)
    return (0,) * max(0, extra) + tuple(slice(0, n) for n in shape)
