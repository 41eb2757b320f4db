# SPDX-License-Identifier: Apache-2.0
"""The values of a matmul step, as its kernel computes them: blocks of the inner dimension, stored partial sums, bias,
activation, pack (kernel `bmm_large_block_zm_fused_bias_activation`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tt_cnn.virtual.engines import Engine
from tt_cnn.virtual.numerics import matrix_unit
from tt_cnn.virtual.numerics.convolution.compute import packer_sum
from tt_cnn.virtual.numerics.fidelity import to_source
from tt_cnn.virtual.numerics.packer import pack
from tt_cnn.virtual.numerics.primitive import primitive
from tt_cnn.virtual.ops.eltwise.numbers import apply_activation
from tt_cnn.virtual.ops.matmul.problem import Problem
from tt_cnn.virtual.ops.matmul.program import MatmulProgram
from tt_cnn.virtual.types.enums import DataType, MathFidelity
from tt_cnn.virtual.types.geometry import TILE_SIZE

_ROUNDINGS = 8
"""Blocks of the inner dimension after which quick products are rounded, at most."""


def product_value(
    engine: Engine, p: Problem, program: MatmulProgram, left: Tensor, right: Tensor, bias: Tensor | None
) -> Tensor:
    """The output before it is packed, in the padded shape. Operands are padded values in their own orientation."""
    a, b = _oriented(left, p.transpose_a), _oriented(right, p.transpose_b)
    inner = p.a[-1]
    if inner < a.shape[-1]:  # the readers clear what the last tile holds beyond the inner dimension
        beyond = a.shape[-1] - inner
        a, b = F.pad(a[..., :inner], (0, beyond)), F.pad(b[..., :inner, :], (0, 0, 0, beyond))
    rank = max(a.dim(), b.dim())
    a, b = (x.reshape((1,) * (rank - x.dim()) + tuple(x.shape)) for x in (a, b))
    if engine.numerics == "native":
        value = torch.matmul(a, b)
        return _finished_natively(engine, program, value, bias)
    a, b = to_source(a, p.left.dtype), to_source(b, p.right.dtype)
    value = _quick(program, a, b) if engine.numerics == "device" else _batched(engine, program, a, b)
    return _finished(engine, p, program, value, bias)


def _oriented(x: Tensor, transpose: bool) -> Tensor:
    return x.transpose(-1, -2).contiguous() if transpose else x


def _quick(program: MatmulProgram, a: Tensor, b: Tensor) -> Tensor:
    """Rounded once for each block of the inner dimension, for a few of them where there are many."""
    blocks = max(1, program.inner // program.depth)
    depth, compute = -(-a.shape[-1] // min(blocks, _ROUNDINGS)), program.compute
    return block_products(a, b, depth=depth, stored=program.partials, fidelity=compute.fidelity, fp32_dest=compute.fp32)


def _product_shape(a: Sequence[int], b: Sequence[int], **_: Any) -> Sequence[int]:
    return (*torch.broadcast_shapes(a[:-2], b[:-2]), a[-2], b[-1])


@primitive("block_products", shape=_product_shape)
def block_products(
    a: Tensor, b: Tensor, *, depth: int, stored: DataType, fidelity: MathFidelity, fp32_dest: bool
) -> Tensor:
    """Register values after blocks of `depth` of the inner dimension, stored in a format between two of them."""
    register: Tensor | None = None
    for start in range(0, a.shape[-1], depth):
        register = matrix_unit.matmul(
            a[..., start : start + depth],
            b[..., start : start + depth, :],
            fidelity,
            fp32_dest=fp32_dest,
            register=None if register is None else pack(register, stored),
            exact=False,
        )
    assert register is not None
    return register


def _batched(engine: Engine, program: MatmulProgram, a: Tensor, b: Tensor) -> Tensor:
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    if b.shape[:-2].numel() == 1:  # all rows of all batches meet the same right matrix
        rows = a.reshape(-1, a.shape[-1])
        value = _blocked(engine, program, rows, b.reshape(b.shape[-2:]))
        return value.reshape(*batch, a.shape[-2], b.shape[-1])
    matrices_a = a.expand(*batch, *a.shape[-2:]).reshape(-1, *a.shape[-2:])
    matrices_b = b.expand(*batch, *b.shape[-2:]).reshape(-1, *b.shape[-2:])
    products = [_blocked(engine, program, x, y) for x, y in zip(matrices_a, matrices_b, strict=True)]
    return torch.stack(products).reshape(*batch, a.shape[-2], b.shape[-1])


def _blocked(engine: Engine, program: MatmulProgram, a: Tensor, b: Tensor) -> Tensor:
    """Register values after the last block of the inner dimension.

    Between blocks partial sums are stored and loaded again. With packer accumulation the packer adds a block's sum to
    what is stored; without a bias the last block is added in the register.
    """
    depth = program.depth * TILE_SIZE
    stored, in_l1 = program.partials, program.accumulates
    starts = range(0, a.shape[1], depth)
    partial: Tensor | None = None
    register = a.new_zeros(())
    for start in starts:
        in_register = start == starts[-1] and not program.adds_bias
        loaded = partial if not in_l1 or in_register else None
        register = matrix_unit.matmul(
            a[:, start : start + depth],
            b[start : start + depth],
            program.compute.fidelity,
            fp32_dest=program.compute.fp32,
            register=loaded,
        )
        if in_l1 and partial is not None and not in_register:
            register = packer_sum(partial, register, stored)
        partial = engine.pack(register, stored)
    return register


def _finished(engine: Engine, p: Problem, program: MatmulProgram, value: Tensor, bias: Tensor | None) -> Tensor:
    if bias is not None and p.bias is not None:
        partial = to_source(engine.pack(value, program.partials), program.partials)
        row = to_source(bias, p.bias.dtype)
        value = matrix_unit.add(partial, row, fp32_dest=program.compute.fp32, exact=engine.numerics == "exact")
    if program.activation is not None:
        value = apply_activation(engine, value, program.activation, fp32_dest=program.compute.fp32)
    return value


def _finished_natively(engine: Engine, program: MatmulProgram, value: Tensor, bias: Tensor | None) -> Tensor:
    if bias is not None:
        value = value + bias
    if program.activation is not None:
        value = apply_activation(engine, value, program.activation)
    return value
