# SPDX-License-Identifier: Apache-2.0
"""Values of ops of three operands, of gated units, of scaled sums and of quotients rounded down, beside PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tt_cnn.virtual import ttnn
from tt_cnn.virtual.devices.device import MeshDevice
from tt_cnn.virtual.ops.eltwise.ternary_plan import Broadcast, TernaryProgram, broadcast_of
from tt_cnn.virtual.types.geometry import Shape

TOLERANCE = {ttnn.float32: 1e-4, ttnn.bfloat16: 0.03, ttnn.bfloat8_b: 0.2}
SHAPES = {
    "alike": ((2, 3, 64, 96),) * 3,
    "a row": ((1, 1, 64, 96), (1, 1, 1, 96), (1, 1, 64, 96)),
    "a column and one number": ((1, 1, 64, 96), (1, 1, 64, 1), (1, 1, 1, 1)),
    "images and channels": ((2, 1, 64, 32), (1, 3, 64, 32), (1, 1, 64, 32)),
}
THREE: dict[str, Callable[..., torch.Tensor]] = {
    "addcmul": lambda a, b, c: torch.addcmul(a, b, c, value=0.5),
    "addcdiv": lambda a, b, c: torch.addcdiv(a, b, c, value=0.5),
    "lerp": lambda a, b, c: a + c * (b - a),
    "mac": lambda a, b, c: a * b + c,
}


@pytest.fixture(params=["device", "exact", "native"])
def device(request: pytest.FixtureRequest) -> Iterator[MeshDevice]:
    opened = ttnn.open_device(device_id=0, numerics=request.param)
    yield opened
    ttnn.close_device(opened)


def put(device: MeshDevice, *values: torch.Tensor, dtype: Any = ttnn.bfloat16) -> list[Any]:
    return [ttnn.from_torch(one, dtype, layout=ttnn.TILE_LAYOUT, device=device) for one in values]


def assert_near(found: Any, expected: torch.Tensor, dtype: Any) -> None:
    value = ttnn.to_torch(found).float()
    assert ((value - expected).abs() / (1 + expected.abs())).max() < TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("op", THREE)
def test_three_tensors(device: MeshDevice, op: str, shapes: tuple[tuple[int, ...], ...], dtype: Any) -> None:
    generator = torch.Generator().manual_seed(0)
    a, b, c = (torch.randn(shape, generator=generator) for shape in shapes)
    c = c.sign() * (c.abs() + 0.5)
    options = {"value": 0.5} if op.startswith("addc") else {}
    found = getattr(ttnn, op)(*put(device, a, b, c, dtype=dtype), **options)
    assert_near(found, THREE[op](a, b, c), dtype)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_scalars_among_the_operands(device: MeshDevice, dtype: Any) -> None:
    a, b = torch.randn(2, 1, 1, 64, 96, generator=torch.Generator().manual_seed(0))
    x, y = put(device, a, b, dtype=dtype)
    assert_near(ttnn.lerp(x, y, 0.25), torch.lerp(a, b, 0.25), dtype)
    assert_near(ttnn.mac(x, y, 0.5), a * b + 0.5, dtype)
    assert_near(ttnn.mac(x, 0.5, y), a * 0.5 + b, dtype)
    assert_near(ttnn.mac(x, 0.5, 2), a * 0.5 + 2, dtype)
    assert_near(ttnn.addalpha(x, y, 0.25), torch.add(a, b, alpha=0.25), dtype)
    assert_near(ttnn.subalpha(x, y, alpha=0.25), torch.sub(a, b, alpha=0.25), dtype)


def test_integers(device: MeshDevice) -> None:
    a, b, c = torch.randint(-50, 50, (3, 1, 1, 32, 64), dtype=torch.int32)
    x, y, z = put(device, a, b, c, dtype=ttnn.int32)
    assert torch.equal(ttnn.to_torch(ttnn.addcmul(x, y, z, value=3)), torch.addcmul(a, b, c, value=3))
    assert torch.equal(ttnn.to_torch(ttnn.mac(x, y, z)), a * b + c)
    assert torch.equal(ttnn.to_torch(ttnn.lerp(x, y, z)), a + c * (b - a))
    assert torch.equal(ttnn.to_torch(ttnn.addalpha(x, y, 2)), a + 2 * b)


GATED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "glu": torch.sigmoid,
    "reglu": F.relu,
    "swiglu": F.silu,
    "geglu": F.gelu,
}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("op", GATED)
def test_gated_units(device: MeshDevice, op: str, dtype: Any) -> None:
    x = torch.randn(1, 2, 64, 128, generator=torch.Generator().manual_seed(0))
    left, right = x.chunk(2, -1)
    assert_near(getattr(ttnn, op)(*put(device, x, dtype=dtype)), left * GATED[op](right), dtype)


def test_gated_units_keep_the_padding_of_rows(card: MeshDevice) -> None:
    """The halves are cut from the padded tensor: recorded for (2, 3, 40, 128)."""
    x = torch.randn(2, 3, 40, 128)
    found = ttnn.glu(*put(card, x))
    assert tuple(found.shape) == (2, 3, 64, 64)
    torch.testing.assert_close(ttnn.to_torch(found)[:, :, :40].float(), F.glu(x, -1), rtol=0.02, atol=0.02)


def test_geglu_takes_a_variant_of_gelu(card: MeshDevice) -> None:
    x = torch.randn(1, 1, 32, 64)
    left, right = x.chunk(2, -1)
    found = ttnn.geglu(*put(card, x), variant=ttnn.GeluVariant.Tanh)
    assert_near(found, left * F.gelu(right, approximate="tanh"), ttnn.bfloat16)


@pytest.mark.parametrize("dtype", [ttnn.bfloat16, ttnn.float32])
def test_quotients_rounded_down(device: MeshDevice, dtype: Any) -> None:
    a = torch.arange(-512.0, 512.0).reshape(1, 1, 32, 32) / 8 + 0.0625
    b = torch.tensor([3.0, -2.0, 4.0, 0.5]).repeat(1, 1, 32, 8)
    (x, y) = put(device, a, b, dtype=dtype)
    a = ttnn.to_torch(x).float()
    assert torch.equal(ttnn.to_torch(ttnn.floor_div(x, y)).float(), torch.floor_divide(a, b))
    assert torch.equal(ttnn.to_torch(ttnn.floor_div(x, 4)).float(), torch.floor_divide(a, torch.tensor(4.0)))


def test_native_division_by_zero_is_that_of_torch() -> None:
    device = ttnn.open_device(device_id=0, numerics="native")
    try:
        a = torch.tensor([0.0, 1.0, -1.0, 2.0]).repeat(1, 1, 32, 8)
        zero = torch.zeros_like(a)
        first = ttnn.to_torch(ttnn.floor_div(*put(device, a), 0))[0, 0, 0, :3].tolist()
        second = ttnn.to_torch(ttnn.addcdiv(*put(device, zero, a, zero, dtype=ttnn.bfloat8_b)))[0, 0, 0, :3].tolist()
        for found in (first, second):
            assert math.isnan(found[0]) and found[1:] == [math.inf, -math.inf]
    finally:
        ttnn.close_device(device)


def test_an_output_that_was_given_is_written_even_where_other_ops_make_the_result(card: MeshDevice) -> None:
    a, b, c = torch.randn(1, 1, 64, 96), torch.randn(1, 1, 1, 96), torch.randn(1, 1, 64, 96)
    x, y, z, out = put(card, a, b, c, torch.zeros_like(a), dtype=ttnn.bfloat8_b)
    assert ttnn.addcmul(x, y, z, output_tensor=out).buffer_unique_id() == out.buffer_unique_id()
    assert_near(out, torch.addcmul(a, b, c), ttnn.bfloat8_b)


@pytest.mark.parametrize(
    ("shapes", "kind"),
    [
        ([(1, 1, 64, 96)] * 3, Broadcast.NONE),
        ([(2, 1, 64, 96), (1, 3, 64, 96)], Broadcast.OUTER),
        ([(64, 96), (1, 96), (1, 96)], Broadcast.ROW),
        ([(64, 96), (64, 1)], Broadcast.COLUMN),
        ([(64, 96), (1, 1), (64, 96)], Broadcast.SCALAR),
        ([(64, 96), (1, 1)], Broadcast.SCALAR_OF_TWO),
        ([(64, 1), (1, 96), (1, 1)], Broadcast.ROW_AND_COLUMN),
        ([(64, 96), (64, 32)], Broadcast.INVALID),
    ],
)
def test_how_operands_are_spread(shapes: list[tuple[int, ...]], kind: Broadcast) -> None:
    assert broadcast_of(*(Shape(shape) for shape in shapes)) is kind


def test_the_program_says_what_it_computes(card: MeshDevice) -> None:
    with card.record_commands() as commands:
        ttnn.lerp(*put(card, *torch.zeros(3, 1, 1, 64, 64)))
    (placed,) = (step for command in commands for step in command.steps)
    program = placed.step.program
    assert isinstance(program, TernaryProgram) and (program.kind, program.broadcast) == ("LERP", Broadcast.NONE)


def test_ops_of_three_operands_are_replayed(card: MeshDevice) -> None:
    """A trace of them computes what the calls do, whatever engine replays it."""
    values = torch.randn(2, 3, 1, 1, 64, 128)
    tensors = put(card, *values[0])

    def network() -> Any:
        a, b, c = tensors
        total = ttnn.addcmul(ttnn.lerp(a, b, c), ttnn.mac(a, b, 0.5), c, value=0.5)
        return ttnn.swiglu(ttnn.addalpha(total, a, 0.5))

    expected = [ttnn.to_torch(network())]
    trace = ttnn.begin_trace_capture(card, cq_id=0)
    output = network()
    ttnn.end_trace_capture(card, trace, cq_id=0)
    found = []
    for one in values:
        for value, tensor in zip(one, tensors, strict=True):
            host = ttnn.from_torch(value, ttnn.bfloat16, layout=ttnn.TILE_LAYOUT)
            ttnn.copy_host_to_device_tensor(host, tensor)
        ttnn.execute_trace(card, trace, cq_id=0, blocking=True)
        found.append(ttnn.to_torch(output))
    expected.append(ttnn.to_torch(network()))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0.02, atol=0.02)
