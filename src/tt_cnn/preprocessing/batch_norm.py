# SPDX-License-Identifier: Apache-2.0
"""Folding batch norms into the convolutions before them, and finding the pairs that can be folded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx, nn

Convolution = nn.Conv2d | nn.ConvTranspose2d
_CONVOLUTIONS = (nn.Conv2d, nn.ConvTranspose2d)


def fold_batch_norm2d_into_conv2d(conv: Convolution, bn: nn.BatchNorm2d) -> tuple[torch.Tensor, torch.Tensor]:
    """Weight and bias of the one convolution that does what `conv` and then `bn` do in eval mode.

    Grouped and transposed convolutions too; the bias keeps torch's shape.
    """
    if not bn.track_running_stats or bn.running_mean is None or bn.running_var is None:
        raise RuntimeError("BatchNorm2d must have track_running_stats=True to be folded into Conv2d")
    if bn.num_features != conv.out_channels:
        raise ValueError(
            f"the batch norm has {bn.num_features} features; it must have {conv.out_channels}, the output channels of "
            "the convolution"
        )
    with torch.no_grad():
        scale = torch.rsqrt(bn.running_var + bn.eps) if bn.weight is None else _gain(bn)
        shift = torch.zeros_like(bn.running_mean) if bn.bias is None else bn.bias
        mean = bn.running_mean if conv.bias is None else bn.running_mean - conv.bias
        return (conv.weight * _per_output_channel(conv, scale)).detach(), (shift - mean * scale).detach()


def _gain(bn: nn.BatchNorm2d) -> torch.Tensor:
    assert bn.running_var is not None
    return bn.weight / torch.sqrt(bn.running_var + bn.eps)


def _per_output_channel(conv: Convolution, scale: torch.Tensor) -> torch.Tensor:
    """`scale` in a shape that multiplies the weight.

    A transposed convolution's weight is (in, out / groups, height, width): each group of input channels has its own
    output channels.
    """
    if not isinstance(conv, nn.ConvTranspose2d):
        return scale[:, None, None, None]
    by_group = scale.reshape(conv.groups, -1)
    return by_group.repeat_interleave(conv.in_channels // conv.groups, dim=0)[:, :, None, None]


@dataclass
class Pairs:
    """Convolutions with the batch norm that follows them, by their names in the model."""

    batch_norm_of: dict[str, str] = field(default_factory=dict)
    untraced: dict[str, str] = field(default_factory=dict)
    """Modules that torch.fx could not trace and what it said; pairs in their own `forward` were not looked for."""

    def warning(self, model: nn.Module) -> str:
        """What the user should know about batch norms that may have been missed, or nothing."""
        folded = set(self.batch_norm_of.values())
        missed = [
            name
            for name, module in model.named_modules()
            if isinstance(module, nn.BatchNorm2d) and name not in folded and self._nearest_untraced(name) is not None
        ]
        if not missed:
            return ""
        where = "; ".join(f"{name or 'the model'}: {reason}" for name, reason in self.untraced.items())
        return (
            f"torch.fx could not trace everything ({where}), so these batch norms were not folded: {', '.join(missed)}."
            " Fold them in a custom_preprocessor with fold_batch_norm2d_into_conv2d, or pass fold_batch_norm=False "
            "where that is meant."
        )

    def _nearest_untraced(self, name: str) -> str | None:
        parent = name.rpartition(".")[0]
        return parent if parent in self.untraced else None


def find_conv_batch_norm_pairs(model: nn.Module) -> Pairs:
    """All pairs that can be folded: the batch norm is the only one to use the convolution's output, each runs once.

    Where a module cannot be traced, its children are traced one by one, so that a branch on data in the outermost
    `forward` hides no pair inside the blocks.
    """
    pairs = Pairs()
    _search(model, "", pairs)
    return pairs


def _search(module: nn.Module, name: str, pairs: Pairs) -> None:
    if isinstance(module, (nn.ModuleList, nn.ModuleDict)):  # no forward of its own
        reason: str | None = ""
    else:
        reason = _trace(module, name, pairs)
    if reason is None:
        return
    if reason:
        pairs.untraced[name] = reason
    for child_name, child in module.named_children():
        if next(child.children(), None) is not None:
            _search(child, f"{name}.{child_name}" if name else child_name, pairs)


def _trace(module: nn.Module, name: str, pairs: Pairs) -> str | None:
    """Note the pairs in a module; the reason where it cannot be traced."""
    try:
        graph = fx.Tracer().trace(module)
    except Exception as error:  # tracing runs the model's own code, which may raise anything
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no message'}"
    modules = dict(module.named_modules())
    calls: dict[int, int] = {}
    for node in graph.nodes:
        if node.op == "call_module":
            called = id(modules[str(node.target)])
            calls[called] = calls.get(called, 0) + 1
    for node in graph.nodes:
        pair = _pair(node, modules)
        if pair is not None and all(calls[id(modules[each])] == 1 for each in pair):
            conv, bn = (f"{name}.{each}" if name else each for each in pair)
            pairs.batch_norm_of[conv] = bn
    return None


def _pair(node: fx.Node, modules: dict[str, nn.Module]) -> tuple[str, str] | None:
    """The convolution and the batch norm, where `node` calls a batch norm that can be folded."""
    bn = _called(node, modules)
    if not isinstance(bn, nn.BatchNorm2d) or not bn.track_running_stats:
        return None
    before: Any = node.args[0] if node.args else None
    if not isinstance(before, fx.Node) or len(before.users) != 1:
        return None
    conv = _called(before, modules)
    if not isinstance(conv, _CONVOLUTIONS):
        return None
    return str(before.target), str(node.target)


def _called(node: fx.Node, modules: dict[str, nn.Module]) -> nn.Module | None:
    return modules.get(str(node.target)) if node.op == "call_module" else None
