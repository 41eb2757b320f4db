# SPDX-License-Identifier: Apache-2.0
"""Models that call their modules in all the ways that a tracer has to follow; `module_args.json` has TT-NN's answers.

Recorded with `python traced_models.py > module_args.json` where TT-NN 0.81.1 is installed. Nothing of ours is imported.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

Run = Callable[[nn.Module], Any]
KEPT = ("Conv2dArgs", "ConvTranspose2dArgs", "MaxPool2dArgs", "GroupNormArgs")


def conv(inputs: int = 4, outputs: int = 4, size: int = 1, **more: Any) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, size, **more)


class Block(nn.Module):
    def __init__(self, inputs: int = 4, outputs: int = 4, act: bool = True) -> None:
        super().__init__()
        self.conv = conv(inputs, outputs, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(outputs)
        self.act = nn.SiLU() if act else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.bn(self.conv(x)))


class Looping(nn.Module):
    """A `ModuleList`, a `Sequential` that is gone over and not called, and one that is called."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block(4, 8)])
        self.stages = nn.Sequential(Block(8, 8), nn.MaxPool2d(2), Block(8, 2))
        self.tail = nn.Sequential(conv(2, 2), nn.ReLU(), Block(2, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        for stage in self.stages:
            x = stage(x)
        return self.tail(x)


class Yolo(nn.Module):
    """Layers in a list, each with the numbers of those that it takes."""

    def __init__(self) -> None:
        super().__init__()
        self.model = nn.Sequential(Block(3, 4), Block(4, 4), nn.Upsample(scale_factor=2), conv(8, 2))
        self.sources = (-1, -1, -1, (0, -1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept: list[torch.Tensor] = []
        for layer, source in zip(self.model, self.sources, strict=True):
            if isinstance(source, tuple):
                first, last = kept[source[0]], kept[source[1]]
                x = torch.cat([functional.interpolate(first, last.shape[-2:]), last], 1)
            x = layer(x)
            kept.append(x)
        return x


class Csp(nn.Module):
    """Chunks, comprehensions, a list that grows."""

    def __init__(self) -> None:
        super().__init__()
        self.cv1, self.cv2 = Block(4, 8), Block(16, 4)
        self.m = nn.ModuleList(Block(4, 4) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = list(self.cv1(x).chunk(2, 1))
        parts.extend(one(parts[-1]) for one in self.m)
        return self.cv2(torch.cat(parts, 1))


class Heads(nn.Module):
    """Two lists with the same numbers in one module; a list of `Sequential`s; several inputs and outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.cv2 = nn.ModuleList(nn.Sequential(Block(4, 4), conv(4, 8)) for _ in range(2))
        self.cv3 = nn.ModuleList(nn.Sequential(Block(4, 2), conv(2, 3)) for _ in range(2))

    def forward(self, maps: list[torch.Tensor]) -> tuple[torch.Tensor, list[torch.Tensor]]:
        found = [torch.cat((self.cv2[i](one), self.cv3[i](one)), 1) for i, one in enumerate(maps)]
        return torch.cat([one.flatten(2) for one in found], 2), found


class Pyramid(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.down, self.heads = Block(3, 4), nn.MaxPool2d(2), Heads()

    def forward(self, x: torch.Tensor) -> Any:
        fine = self.stem(x)
        return self.heads([fine, self.down(fine)])


class Twice(nn.Module):
    """The same module on two sizes, and the same under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.shared = conv()
        self.alias = self.shared
        self.pool = nn.MaxPool2d(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.alias(self.pool(self.pool(self.shared(x))))


class Shared(nn.Module):
    """A module that two others hold, and a list that has one twice."""

    def __init__(self) -> None:
        super().__init__()
        common = conv()
        self.left, self.right = nn.Sequential(common, nn.ReLU()), nn.Sequential(nn.ReLU(), common)
        again = conv(4, 4, 3)
        self.repeated = nn.ModuleList([again, again, conv(4, 2, 2)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.right(self.left(x))
        for layer in self.repeated:
            x = layer(x)
        return x


class Unregistered(nn.Module):
    """Modules in a plain list and modules made while running have no name."""

    def __init__(self) -> None:
        super().__init__()
        self.first = conv()
        self.plain = [conv(4, 6), Block(6, 2)]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for layer in self.plain:
            x = layer(x)
        return nn.AvgPool2d(2)(x)


class Named(nn.Module):
    """Names found with `getattr`, a `ModuleDict`, names with digits."""

    def __init__(self) -> None:
        super().__init__()
        for index in range(3):
            setattr(self, f"layer{index}", Block())
        self.add_module("7", conv())
        self.parts = nn.ModuleDict({"a": conv(), "b": nn.ConvTranspose2d(4, 2, 2, 2)})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for index in range(3):
            x = getattr(self, f"layer{index}")(x)
        x = self._modules["7"](x)
        return self.parts["b"](self.parts["a"](x))


class Keywords(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.unused, self.norm = Inner(), conv(), nn.GroupNorm(2, 4)

    def forward(self, x: torch.Tensor, scale: float = 2.0, flag: bool = False) -> dict[str, Any]:
        left, right = self.inner(first=x * scale, second=(x, [x.mean(1, keepdim=True)]), kind="sum")
        return {"left": self.norm(left), "right": right, "nothing": None}


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = conv(4, 4, 3, padding=1), conv(1, 4)

    def forward(self, *, first: torch.Tensor, second: Any, kind: str) -> Any:
        return self.one(first), self.other(second[1][0])


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.proj, self.pe = Block(4, 12, act=False), nn.Linear(4, 4), conv(4, 4, 3, padding=1, groups=4)
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, channels, height, width = x.shape
        q, k, v = self.qkv(x).view(batch, 3, channels, height * width).unbind(1)
        weights = (q.transpose(-2, -1) @ k * self.scale).softmax(-1)
        mixed = (v @ weights.transpose(-2, -1)).view(batch, channels, height, width)
        mixed = mixed + self.pe(v.reshape(batch, channels, height, width))
        return self.proj(mixed.flatten(2).transpose(1, 2))


class Partial(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features, self.classifier = nn.Sequential(conv(), nn.ReLU(), Block()), nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.features(x).mean((2, 3)))


class Deep(nn.Module):
    def __init__(self, depth: int = 3) -> None:
        super().__init__()
        self.here = conv()
        self.below = nn.ModuleList([Deep(depth - 1), Deep(depth - 1)]) if depth else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.here(x)
        for part in self.below or ():
            x = part(x)
        return x


def image(channels: int = 4, height: int = 16, width: int = 12, batch: int = 1) -> torch.Tensor:
    return torch.ones(batch, channels, height, width)


def whole(*shape: int) -> Run:
    return lambda model: model(image(*shape))


CASES: dict[str, tuple[Callable[[], nn.Module], Run]] = {
    "block": (Block, whole()),
    "looping": (Looping, whole(4, 16, 12, 2)),
    "yolo": (Yolo, whole(3)),
    "csp": (Csp, whole()),
    "pyramid": (Pyramid, whole(3)),
    "twice": (Twice, whole()),
    "shared": (Shared, whole()),
    "unregistered": (Unregistered, whole()),
    "named": (Named, whole()),
    "keywords": (Keywords, lambda model: model(image(), scale=3.0)),
    "attention": (Attention, whole()),
    "partial": (Partial, whole()),
    "only the features": (Partial, lambda model: model.features(image())),
    "features and then the rest": (Partial, lambda model: model.classifier(model.features(image()).mean((2, 3)))),
    "called twice": (Partial, lambda model: (model(image()), model(image(4, 8, 8)))),
    "deep": (Deep, whole()),
    "sequential": (
        lambda: nn.Sequential(conv(), nn.Sequential(Block(), nn.MaxPool2d(3, 2, 1, ceil_mode=True))),
        whole(),
    ),
    "a convolution": (conv, whole()),
    "a pool": (lambda: nn.MaxPool2d((2, 3), dilation=1), whole()),
    "a transposed convolution": (lambda: nn.ConvTranspose2d(4, 2, 3, 2, 1, 1, bias=False), whole()),
    "a group norm": (lambda: nn.GroupNorm(2, 4, affine=False), whole()),
    "input made while tracing": (Block, lambda model: model(torch.rand(1, 4, 5, 6) + torch.zeros(1, 4, 5, 6))),
}


def plain(value: Any) -> Any:
    """Arguments as JSON has them: a list of keys and values, so that 0 and "0" are two; layers as TT-NN has them."""
    if not isinstance(value, dict):
        return list(value) if isinstance(value, (tuple, torch.Size)) else str(value) if not _is_plain(value) else value
    kind = type(value).__name__
    if kind == "DotAccessDict":
        return [[key, plain(inside)] for key, inside in value.items()]
    if kind not in KEPT:
        return []
    return {"kind": kind, **{key: plain(inside) for key, inside in value.items() if key != "ceil_mode"}}


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, str, list))


def answers(infer: Callable[..., Any]) -> dict[str, Any]:
    found = {}
    for name, (build, run) in CASES.items():
        torch.manual_seed(0)
        found[name] = plain(infer(model=build().eval(), run_model=run, device=None))
    return found


if __name__ == "__main__":
    import ttnn.model_preprocessing as real  # type: ignore[import-not-found]

    real.visualize = lambda *_, **__: None  # it needs the `dot` of graphviz
    print(json.dumps(answers(real.infer_ttnn_module_args)))
