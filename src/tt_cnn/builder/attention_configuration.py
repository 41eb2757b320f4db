# SPDX-License-Identifier: Apache-2.0
"""The configuration of attention over tokens, in one image or in windows of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from tt_cnn import ttnn
from tt_cnn.builder.configuration import Configuration
from tt_cnn.builder.rules import Rule, check, flags, instance, wholes

_TENSOR_RULES = (
    instance("bias", None, ttnn.Tensor),
    Rule(
        "bias",
        lambda c: c.bias is None or _square(c.bias, (1,), (1, c.heads)),
        lambda c: f"of shape (1, 1 or {c.heads}, queries, keys)",
    ),
    instance("mask", None, ttnn.Tensor),
    Rule(
        "mask",
        lambda c: c.mask is None or (_square(c.mask, None, (1, c.heads)) and c.batch_size % c.mask.shape[0] == 0),
        lambda c: f"of shape (a divisor of batch_size ({c.batch_size}), 1 or {c.heads}, queries, keys)",
    ),
    Rule(
        "mask",
        lambda c: c.mask is None or c.bias is None or tuple(c.mask.shape)[2:] == tuple(c.bias.shape)[2:],
        lambda c: f"for as many queries and keys as bias, {tuple(c.bias.shape)[2:]}",
    ),
)


@dataclass(frozen=True, eq=False)
class AttentionConfiguration(Configuration):
    """softmax(scale * q k^T + bias + mask) v, for each head."""

    heads: int
    head_dim: int
    batch_size: int = 1
    """Sequences: images, or all windows of all images."""
    scale: float | None = None
    """None: 1 / sqrt(head_dim)."""
    bias: Any = field(default=None, repr=False)
    """(1, heads, queries, keys), on the host: relative positions, say. The same for all sequences."""
    mask: Any = field(default=None, repr=False)
    """(windows, 1, queries, keys), on the host: 0, or very negative where a query must not see a key. The windows of
    one image; those of the next image have the same ones."""

    math_fidelity: Any = ttnn.MathFidelity.HiFi2
    fp32_dest_acc_en: bool = False
    packer_l1_acc: bool = False

    memory_config: Any = None
    """None: interleaved, in the memory that the queries are in."""
    deallocate_input: bool = False
    """Whether all tensors that it is called with are given back."""

    tensors = ("bias", "mask")
    rules = (
        *wholes("heads", "head_dim", "batch_size"),
        Rule("scale", lambda c: c.scale is None or isinstance(c.scale, float), "None or a number"),
        instance("math_fidelity", ttnn.MathFidelity),
        *flags("fp32_dest_acc_en", "packer_l1_acc", "deallocate_input"),
        instance("memory_config", None, ttnn.MemoryConfig),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self, _TENSOR_RULES)

    @classmethod
    def from_torch(
        cls,
        heads: int,
        head_dim: int,
        batch_size: int = 1,
        bias: torch.Tensor | None = None,
        mask: torch.Tensor | None = None,
        mesh_mapper: Any = None,
        **settings: Any,
    ) -> AttentionConfiguration:
        """With PyTorch's tensors: bias (heads, queries, keys), mask (windows, queries, keys), or with the dimension of
        1 that they have in the configuration."""
        return cls(
            heads,
            head_dim,
            batch_size,
            bias=None if bias is None else _host(bias.reshape(1, -1, *bias.shape[-2:]), mesh_mapper),
            mask=None if mask is None else _host(mask.reshape(mask.shape[0], -1, *mask.shape[-2:]), mesh_mapper),
            **settings,
        )


def _host(values: torch.Tensor, mesh_mapper: Any) -> Any:
    return ttnn.from_torch(values.detach().float().contiguous(), dtype=ttnn.float32, mesh_mapper=mesh_mapper)


def _square(tensor: Any, firsts: tuple[int, ...] | None, seconds: tuple[int, ...]) -> bool:
    shape = tuple(tensor.shape)
    return len(shape) == 4 and (firsts is None or shape[0] in firsts) and shape[1] in seconds
