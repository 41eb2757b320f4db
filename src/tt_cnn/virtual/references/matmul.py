# SPDX-License-Identifier: Apache-2.0
"""Products of matrices."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tt_cnn.virtual.references.eltwise import activated
from tt_cnn.virtual.references.registry import golden


@golden("matmul", "linear")
def _matmul(
    input_tensor_a: Tensor,
    input_tensor_b: Tensor,
    *,
    bias: Tensor | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
    activation: Any = None,
    program_config: Any = None,
    **_: Any,
) -> Tensor:
    a = input_tensor_a.mT if transpose_a else input_tensor_a
    b = input_tensor_b.mT if transpose_b else input_tensor_b
    result = torch.matmul(a, b)
    if bias is not None:
        result = result + bias[..., :1, :] if bias.dim() > 1 else result + bias
    return activated(result, activation or getattr(program_config, "fused_activation", None))


@golden("addmm")
def _addmm(
    input_tensor: Tensor, mat1_tensor: Tensor, mat2_tensor: Tensor, *, alpha: float = 1.0, beta: float = 1.0, **_: Any
) -> Tensor:
    return beta * input_tensor + alpha * torch.matmul(mat1_tensor, mat2_tensor)


@golden("transformer.scaled_dot_product_attention")
def _attention(**arguments: Any) -> Tensor:
    query, key, value, *_ = arguments.values()
    groups = query.shape[1] // key.shape[1]
    return F.scaled_dot_product_attention(
        query,
        key.repeat_interleave(groups, dim=1),
        value.repeat_interleave(groups, dim=1),
        attn_mask=arguments.get("attn_mask"),
        is_causal=bool(arguments.get("is_causal")),
        scale=arguments.get("scale"),
    )


@golden("embedding")
def _embedding(**arguments: Any) -> Tensor:
    indices, weight, *_ = arguments.values()
    return F.embedding(indices.long(), weight.reshape(weight.shape[-2:]))
