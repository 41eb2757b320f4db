# SPDX-License-Identifier: Apache-2.0
"""The kernels' roundings against the torch functions that define them, bit for bit, and sums rounded in between."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from tt_cnn.virtual.engines.replay.capture import graph_of
from tt_cnn.virtual.engines.replay.graph import Node, ordered
from tt_cnn.virtual.engines.replay.hosts import Kernels
from tt_cnn.virtual.engines.replay.kernels.alike import OUTSIDE_TRACES
from tt_cnn.virtual.engines.replay.kernels.fusion import fuse
from tt_cnn.virtual.engines.replay.kernels.pairs import paired_weights
from tt_cnn.virtual.engines.replay.primitives import _KERNELS as VECTOR_KERNELS
from tt_cnn.virtual.engines.replay.primitives import HOST_FUNCTIONS
from tt_cnn.virtual.kernel_library import library
from tt_cnn.virtual.numerics import matrix_unit
from tt_cnn.virtual.numerics.bits import flush_denormals, keep_mantissa
from tt_cnn.virtual.numerics.convolution.inner import Piece
from tt_cnn.virtual.numerics.convolution.quick import Plan, sums
from tt_cnn.virtual.numerics.convolution.windows import Window
from tt_cnn.virtual.numerics.packer import pack
from tt_cnn.virtual.numerics.primitive import compiled as outside_traces
from tt_cnn.virtual.numerics.vector_unit import VectorUnit, run_binary, run_unary
from tt_cnn.virtual.numerics.vector_unit.unit import round_to_bfloat16_even, stored
from tt_cnn.virtual.types.enums import DataType

Program = Callable[[torch.Tensor], torch.Tensor]
HEIGHT, WIDTH = 24, 31

ROUNDINGS: dict[str, Program] = {
    "bfloat16": lambda x: pack(x, DataType.BFLOAT16),
    "bfloat8_b": lambda x: pack(x, DataType.BFLOAT8_B),
    "bfloat8_b, precise": lambda x: pack(x, DataType.BFLOAT8_B, precise=True),
    "bfloat4_b": lambda x: pack(x, DataType.BFLOAT4_B),
    "matrix unit": matrix_unit.round_away,
    "vector unit, even": round_to_bfloat16_even,
    "vector unit, stored": stored,
    "cut to 4": lambda x: keep_mantissa(x, 4),
    "cut to 10": lambda x: keep_mantissa(x, 10),
    "flush": flush_denormals,
}


INF, NAN, MOST = float("inf"), float("nan"), 3.4028234663852886e38
SPECIALS = torch.tensor(
    [
        0.0, -0.0, 1e-45, -1e-45, 1e-40, -1e-40, 2.0**-126, -(2.0**-126), 3.3895e38, MOST, -MOST, INF, -INF, NAN, -NAN,
        1.0, -127.5, 88.5, -88.5, 1e20, 1e4, -1e4, 20.5, -3.0,
    ]
)  # fmt: skip


def images(channels: int) -> dict[str, torch.Tensor]:
    """Rows of pixels, channels last: all that a register can hold, and what roundings find hard."""
    torch.manual_seed(0)
    shape = (1, HEIGHT, WIDTH, channels)
    normal = torch.randn(shape)
    wild = torch.randint(-(2**31), 2**31, shape).to(torch.int32).view(torch.float32)
    near = torch.randint(-300, 300, shape) / 4.0
    mixed = SPECIALS[torch.randint(0, len(SPECIALS), shape)]
    scaled = normal * 2.0 ** torch.randint(-140, 127, (1, HEIGHT, WIDTH, 1))
    return {"normal": normal, "bits": wild, "ties": near, "specials": mixed, "scales": scaled, "zeros": normal * 0}


def compiled(program: Program, x: torch.Tensor) -> tuple[torch.Tensor, list[Node]]:
    """What the kernels make of an image, and the graph that they were given."""
    image = x.permute(0, 3, 1, 2).contiguous()
    nodes = graph_of(lambda value: [program(value.permute(0, 2, 3, 1))], [image])
    return Kernels(nodes, 2)([image])[0], nodes


def same_bits(one: torch.Tensor, two: torch.Tensor) -> bool:
    """All NaN count as the same."""
    nan = one.isnan() & two.isnan()
    return bool((nan | (one.view(torch.int32) == two.view(torch.int32))).all())


@pytest.mark.parametrize("name", ROUNDINGS)
def test_a_rounding_is_that_of_torch_bit_for_bit(name: str) -> None:
    for kind, x in images(48).items():
        found, nodes = compiled(ROUNDINGS[name], x)
        assert [one.node.kind for one in fuse(nodes).values() if one is not None], "torch computed it"
        assert same_bits(found, ROUNDINGS[name](x)), kind


@pytest.mark.parametrize("dtype", [DataType.BFLOAT8_B, DataType.BFLOAT4_B])
def test_what_fills_the_last_block_counts_as_zeros(dtype: DataType) -> None:
    """Also where the step's values would be others there."""

    def program(x: torch.Tensor) -> torch.Tensor:
        return pack(F.pad(torch.sigmoid(x), (0, 12)), dtype)[..., :20]

    x = images(20)["normal"]
    found, _ = compiled(program, x)
    assert torch.equal(found, program(x))


@pytest.mark.parametrize(
    "program, left",
    [
        (lambda x: pack(pack(x, DataType.BFLOAT8_B), DataType.BFLOAT8_B), 1),
        (lambda x: pack(torch.relu(pack(x, DataType.BFLOAT8_B)), DataType.BFLOAT8_B), 1),
        (lambda x: pack(pack(x, DataType.BFLOAT8_B), DataType.BFLOAT16), 1),
        (lambda x: pack(pack(x, DataType.BFLOAT16), DataType.BFLOAT8_B), 2),
        (lambda x: keep_mantissa(pack(x, DataType.BFLOAT8_B), 6), 1),
        (lambda x: keep_mantissa(pack(x, DataType.BFLOAT16), 6), 2),
        (lambda x: flush_denormals(matrix_unit.round_away(x)), 1),
        (lambda x: pack(matrix_unit.round_away(x), DataType.BFLOAT16), 2),  # NaN
        (lambda x: pack(pack(x, DataType.BFLOAT8_B).transpose(2, 3).contiguous()[..., :16], DataType.BFLOAT8_B), 2),
        (lambda x: pack(torch.cat([pack(x, DataType.BFLOAT16)] * 2, -1), DataType.BFLOAT8_B), 2),
    ],
)
def test_roundings_that_change_nothing_go_and_others_stay(program: Program, left: int) -> None:
    for kind, x in images(32).items():
        found, nodes = compiled(program, x)
        assert same_bits(found, program(x)), kind
        kinds = {id(one) for one in ordered(nodes) if one.kind == "blocks" or one.kind == "unary"}
        relu = sum(one.kind == "unary" and one.params[0] == "Relu" for one in ordered(nodes))
        assert len(kinds) - relu == left, kind


def pieces(kernel: int, channels: int, shares: int) -> tuple[tuple[Piece, ...], ...]:
    size = channels // shares
    return tuple(
        (Piece((row, row + 1), (share * size, (share + 1) * size)),) for row in range(kernel) for share in range(shares)
    )


@pytest.mark.parametrize("between", [(None,), (DataType.BFLOAT16, DataType.BFLOAT8_B), (DataType.BFLOAT16,)])
@pytest.mark.parametrize("kernel, stride, padding", [(3, 1, 1), (3, 2, 1), (1, 1, 0), (1, 2, 0), (2, 1, 0)])
@pytest.mark.parametrize("outputs", [16, 40, 96])
def test_sums_are_rounded_between_pieces(
    kernel: int, stride: int, padding: int, outputs: int, between: tuple[DataType | None, ...]
) -> None:
    """With small whole numbers all sums are exact: every bit must agree."""
    torch.manual_seed(0)
    weight = torch.randint(-4, 5, (outputs, 32, kernel, kernel)).float()
    plan = Plan(Window((kernel, kernel), (stride, stride), (padding,) * 4), 1, pieces(kernel, 32, 2), between, between)
    x = torch.randint(-20, 21, (2, 9, 11, 32)).float()
    found, nodes = compiled(lambda image: sums(image, weight, plan=plan), x)
    assert any(one.kind == "sums" for one in ordered(nodes))
    assert torch.equal(found, sums(x, weight, plan=plan))


@pytest.mark.parametrize("scale", [1.0, 1.0 + 3.4e-4 * 18])
@pytest.mark.parametrize(
    "kernel, stride, outputs, shares", [(3, 1, 64, 2), (3, 2, 40, 1), (1, 1, 96, 4), (1, 1, 33, 1)]
)
def test_pairs_of_bfloat16_numbers_are_multiplied_at_once(
    kernel: int, stride: int, outputs: int, shares: int, scale: float
) -> None:
    """Where the processor can; a factor in the weights is put off until after the sum."""
    torch.manual_seed(0)
    numbers = torch.randint(-4, 5, (outputs, 32, kernel, kernel)).float()
    window = Window((kernel, kernel), (stride, stride), (kernel // 2,) * 4)
    plan = Plan(window, 1, pieces(kernel, 32, shares), (None,), (None,), scale, narrow=True)

    def program(image: torch.Tensor) -> torch.Tensor:
        return sums(pack(image, DataType.BFLOAT16), numbers * scale, plan=plan)

    x = torch.randint(-20, 21, (1, 9, 11, 32)).float()
    found, nodes = compiled(program, x)
    steps = [one for one in fuse(nodes).values() if one is not None]
    assert [one.node.kind for one in steps] == ["unary", "sums"]
    assert (paired_weights(numbers * scale, scale, 2) is not None) == bool(library().multiplies_pairs())
    expected = program(x)
    if scale == 1.0:
        assert torch.equal(found, expected)
    torch.testing.assert_close(found, expected, rtol=2.0**-7, atol=1e-4)  # zero, or what float32 leaves of it
    assert (found == expected).float().mean() > 0.99


def test_a_walk_is_drawn_from_the_sums() -> None:
    torch.manual_seed(0)
    weight = torch.randn(24, 32, 1, 1)
    plan = Plan(Window((1, 1)), 1, ((Piece((0, 1), (0, 32)),),), (), (), walk=1e-7)
    x = torch.randint(-20, 21, (1, 40, 41, 32)).float()
    found, _ = compiled(lambda image: sums(image, weight.round(), plan=plan), x)
    expected = sums(x, weight.round(), plan=plan)
    torch.testing.assert_close(found, expected, rtol=2e-6, atol=1e-6)
    assert not torch.equal(found, found.round())


@pytest.mark.parametrize("name", ["relu", "leaky_relu", "sigmoid", "mish", "silu", "gelu", "tanh"])
def test_the_vector_unit_rounds_what_the_host_computes(name: str) -> None:
    """The host's functions differ in their last bits, which a rounding seldom shows."""
    unit = VectorUnit(exact=False)
    x = images(32)["normal"]
    found, _ = compiled(lambda value: run_unary(name, value, unit=unit), x)
    expected = run_unary(name, x, unit=unit)
    assert (found == expected).float().mean() > 0.998
    torch.testing.assert_close(found, expected, rtol=2.0**-7, atol=1e-30)


@pytest.mark.parametrize("fp32_dest", [False, True])
@pytest.mark.parametrize("name", [*HOST_FUNCTIONS, *VECTOR_KERNELS, "identity"])
def test_a_function_has_the_same_bits_within_a_trace_and_outside(name: str, fp32_dest: bool) -> None:
    """And what is no number is where the function that defines it has it; registers of bfloat16 hold no NaN."""
    unit = VectorUnit(exact=False, fp32_dest=fp32_dest)
    for kind in ("bits", "specials", "scales"):
        x = images(20)[kind]
        found, _ = compiled(lambda value: run_unary(name, value, unit=unit), x)
        with outside_traces(OUTSIDE_TRACES):
            outside = run_unary(name, x, unit=unit)
        assert same_bits(found, outside), kind
        defined = run_unary(name, x, unit=unit)
        assert torch.equal(found.isnan(), defined.isnan()), kind
        known = ~x.isnan()  # a rounding looks at the bits of a NaN, which are not the same on all machines
        ends = known & (~defined.isfinite() | (defined.abs() > 3e38))  # one of two neighbours may be infinite
        assert torch.equal(found[ends].nan_to_num(), defined[ends].nan_to_num()), kind
        near = (found - defined).abs() <= 2.0**-7 * defined.abs() + 2e-43
        assert bool(near[known & ~ends].all()), kind


@pytest.mark.parametrize("name", ["add", "sub"])
@pytest.mark.parametrize("fp32_dest", [False, True])
def test_sums_of_two_have_the_bits_of_torch(name: str, fp32_dest: bool) -> None:
    unit = VectorUnit(exact=False, fp32_dest=fp32_dest)
    for kind, x in images(40).items():
        found, _ = compiled(lambda value: run_binary(name, value[:, 1:], value[:, :-1], unit=unit), x)
        assert same_bits(found, run_binary(name, x[:, 1:], x[:, :-1], unit=unit)), kind


@pytest.mark.parametrize("outputs", [40, 64])
@pytest.mark.parametrize("between", [(None,), (DataType.BFLOAT16, DataType.BFLOAT8_B), (DataType.BFLOAT4_B,)])
def test_columns_that_are_not_there_stay_out_of_rounded_sums(
    between: tuple[DataType | None, ...], outputs: int
) -> None:
    """An infinity times their weights, which are zeros, is NaN."""
    torch.manual_seed(0)
    weight = torch.randint(1, 5, (outputs, 32, 1, 1)).float()
    plan = Plan(Window((1, 1)), 1, pieces(1, 32, 2), between, between)
    x = torch.randint(1, 21, (1, 9, 11, 32)).float()
    x[0, 2, 3, 5], x[0, 4, 4, 20], x[0, 6, 7, 30] = INF, -INF, NAN
    found, _ = compiled(lambda image: sums(image, weight, plan=plan), x)
    assert same_bits(found, sums(x, weight, plan=plan))
