# SPDX-License-Identifier: Apache-2.0
"""Binary ops against torch in float32: broadcasting, scalars, activations, in-place forms, operators, refusals."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tt_cnn.virtual import ttnn

PCC = {"bfloat16": 0.9999, "bfloat8_b": 0.998, "float32": 0.9999}
Reference = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

REFERENCES: dict[str, Reference] = {
    "add": torch.add,
    "subtract": torch.sub,
    "multiply": torch.mul,
    "divide": torch.div,
    "rsub": lambda a, b: b - a,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "eq": lambda a, b: (a == b).float(),
    "ne": lambda a, b: (a != b).float(),
    "lt": lambda a, b: (a < b).float(),
    "le": lambda a, b: (a <= b).float(),
    "gt": lambda a, b: (a > b).float(),
    "ge": lambda a, b: (a >= b).float(),
    "logical_and": lambda a, b: torch.logical_and(a, b).float(),
    "logical_or": lambda a, b: torch.logical_or(a, b).float(),
    "logical_xor": lambda a, b: torch.logical_xor(a, b).float(),
    "squared_difference": lambda a, b: (a - b) ** 2,
    "pow": torch.pow,
    "ldexp": lambda a, b: a * 2**b,
    "logaddexp": torch.logaddexp,
    "logaddexp2": torch.logaddexp2,
    "bias_gelu": lambda a, b: F.gelu(a + b),
    "hypot": torch.hypot,
    "xlogy": torch.xlogy,
    "remainder": torch.remainder,
    "fmod": torch.fmod,
    "atan2": torch.atan2,
}
NO_MIXED = {
    "maximum", "minimum", "pow", "ldexp", "logaddexp", "logaddexp2", "bias_gelu", "hypot", "xlogy", "remainder", "fmod",
    "atan2",
}  # fmt: skip
COMPARISONS = {"eq", "ne", "lt", "le", "gt", "ge"}
"""Operands of different dtypes are compared by the matrix unit, which sees float32 in 11 significant bits."""
SENSITIVE = {"remainder", "fmod"}
"""Jumps that the last digit of a quotient decides."""


@pytest.fixture(scope="module", params=["device", "exact", "native"])
def card(request: pytest.FixtureRequest) -> Iterator[Any]:
    device = ttnn.open_device(device_id=0, numerics=request.param)
    yield device
    ttnn.close_device(device)


def pcc(found: torch.Tensor, expected: torch.Tensor) -> float:
    found, expected = found.double().flatten(), expected.double().flatten()
    if torch.allclose(found, expected, rtol=1e-2, atol=1e-6) or found.numel() < 3:
        return 1.0
    return float(torch.corrcoef(torch.stack([found, expected]))[0, 1])


def on_card(card: Any, values: torch.Tensor, dtype: str = "bfloat16", layout: Any = None, config: Any = None) -> Any:
    layout = layout or ttnn.TILE_LAYOUT
    return ttnn.from_torch(values, dtype=getattr(ttnn, dtype), layout=layout, device=card, memory_config=config)


def held(tensor: Any) -> torch.Tensor:
    return ttnn.to_torch(tensor).float()


def positive(shape: tuple[int, ...], seed: int = 0) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)) * 3.0 + 0.5


@st.composite
def shapes(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two shapes that broadcast. Widths are whole tiles or one."""
    rank = draw(st.integers(2, 5))
    full = [draw(st.integers(1, 2)) for _ in range(rank - 2)] + [draw(st.integers(1, 40)), 32 * draw(st.integers(1, 2))]
    a, b = list(full), list(full)
    for one in (a, b):
        for dim in range(rank):
            if draw(st.integers(0, 3)) == 0:
                one[dim] = 1
    return tuple(a), tuple(b)


@pytest.mark.parametrize("name", sorted(REFERENCES))
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(made=shapes(), dtypes=st.tuples(*[st.sampled_from(sorted(PCC))] * 2), seed=st.integers(0, 2**31))
def test_agrees_with_torch(card: Any, name: str, made: Any, dtypes: tuple[str, str], seed: int) -> None:
    if torch.broadcast_shapes(*made)[-1] == 1:  # the kernels' answers for a tile's padding would share its exponents
        dtypes = ("bfloat16", "float32")
    a_dtype, b_dtype = dtypes if name not in NO_MIXED | COMPARISONS else (dtypes[0],) * 2
    a, b = on_card(card, positive(made[0], seed), a_dtype), on_card(card, positive(made[1], seed + 1), b_dtype)
    expected = REFERENCES[name](held(a), held(b))
    out = getattr(ttnn, name)(a, b)
    assert tuple(out.shape) == tuple(torch.broadcast_shapes(*made)) and out.dtype is a.dtype
    if name in SENSITIVE:
        off = (held(out) - expected).abs() % held(b)
        assert float(torch.minimum(off, held(b) - off).mean()) < 0.05
    else:
        assert pcc(held(out), expected) >= min(PCC[a_dtype], PCC[b_dtype])


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(["add", "subtract", "multiply", "divide", "gt", "rsub", "maximum"]),
    layouts=st.tuples(st.booleans(), st.booleans()),
    kinds=st.tuples(*[st.sampled_from(["dram", "l1", "height", "width", "block"])] * 2),
)
def test_any_placement_gives_the_same_values(
    card: Any, name: str, layouts: tuple[bool, bool], kinds: tuple[str, str]
) -> None:
    shape = (1, 1, 64, 64)
    layout = [ttnn.TILE_LAYOUT if tiled else ttnn.ROW_MAJOR_LAYOUT for tiled in layouts]
    a = on_card(card, positive(shape, 1), layout=layout[0], config=placed(shape, kinds[0]))
    b = on_card(card, positive(shape, 2), layout=layout[1], config=placed(shape, kinds[1]))
    out = getattr(ttnn, name)(a, b)
    plain = getattr(ttnn, name)(on_card(card, positive(shape, 1)), on_card(card, positive(shape, 2)))
    assert torch.equal(held(out), held(plain))
    assert out.layout is (ttnn.ROW_MAJOR_LAYOUT if not any(layouts) else ttnn.TILE_LAYOUT)


def placed(shape: tuple[int, ...], kind: str) -> Any:
    if kind in ("dram", "l1"):
        return ttnn.DRAM_MEMORY_CONFIG if kind == "dram" else ttnn.L1_MEMORY_CONFIG
    grid = {"height": (1, 2), "width": (2, 1), "block": (2, 2)}[kind]
    return ttnn.create_sharded_memory_config(
        shape, ttnn.CoreGrid(x=grid[0], y=grid[1]), ttnn.ShardStrategy[kind.upper()]
    )


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "pow"])
@pytest.mark.parametrize("dtype", ["bfloat16", "bfloat8_b", "float32"])
def test_scalars_on_either_side(card: Any, name: str, dtype: str) -> None:
    a = on_card(card, positive((1, 1, 32, 64)), dtype)
    call, scalar = getattr(ttnn, name), torch.tensor(1.5)
    assert pcc(held(call(a, 1.5)), REFERENCES[name](held(a), scalar)) >= PCC[dtype]
    assert pcc(held(call(1.5, a)), REFERENCES[name](scalar, held(a))) >= PCC[dtype]


@pytest.mark.parametrize("name", ["rsub", "maximum", "minimum", "eq", "lt", "ge", "logical_and", "squared_difference"])
def test_scalars_on_the_right(card: Any, name: str) -> None:
    a = on_card(card, positive((1, 1, 32, 64)))
    assert pcc(held(getattr(ttnn, name)(a, 1.5)), REFERENCES[name](held(a), torch.tensor(1.5))) >= 0.9999


@pytest.mark.parametrize("name", ["add", "subtract", "sub", "multiply", "mul", "divide", "div", "rsub", "eq", "gt"])
def test_in_place_forms_return_the_first_tensor(card: Any, name: str) -> None:
    a, b = on_card(card, positive((1, 1, 64, 32), 3)), on_card(card, positive((1, 1, 64, 32), 4))
    expected, address = held(getattr(ttnn, name)(a, b)), a.buffer_address()
    out = getattr(ttnn, f"{name}_")(a, b)
    assert out is a and a.buffer_address() == address
    assert torch.equal(held(a), expected)


def test_operators_are_the_ops(card: Any) -> None:
    a, b = on_card(card, positive((1, 1, 32, 32), 5)), on_card(card, positive((1, 1, 32, 32), 6))
    for found, expected in (
        (a + b, ttnn.add(a, b)),
        (a - b, ttnn.subtract(a, b)),
        (a * b, ttnn.multiply(a, b)),
        (a / b, ttnn.divide(a, b)),
        (a > b, ttnn.gt(a, b)),
        (a == b, ttnn.eq(a, b)),
        (2.0 + a, ttnn.add(a, 2.0)),
        (2.0 * a, ttnn.multiply(a, 2.0)),
        (2.0 - a, ttnn.subtract(2.0, a)),
        (2.0 / a, ttnn.rdiv(a, 2.0)),
    ):
        assert torch.equal(held(found), held(expected))


def test_activations_before_and_after(card: Any) -> None:
    a, b = on_card(card, torch.randn(1, 1, 32, 64)), on_card(card, torch.randn(1, 1, 32, 64))
    relu, silu = ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU), ttnn.UnaryWithParam(ttnn.UnaryOpType.SILU)
    leaky = ttnn.UnaryWithParam(ttnn.UnaryOpType.LEAKY_RELU, 0.1)
    out = ttnn.add(a, b, activations=[leaky], input_tensor_a_activations=[silu], input_tensor_b_activations=[relu])
    assert pcc(held(out), F.leaky_relu(F.silu(held(a)) + F.relu(held(b)), 0.1)) >= 0.9999
    assert torch.equal(held(ttnn.add(a, b, activations=[relu])), held(ttnn.relu(ttnn.add(a, b))))


def test_dtype_and_memory_config_of_the_result(card: Any) -> None:
    a, b = on_card(card, positive((1, 1, 64, 64))), on_card(card, positive((1, 1, 64, 64)), "bfloat8_b")
    assert ttnn.add(a, b).dtype is ttnn.bfloat16 and ttnn.add(b, a).dtype is ttnn.bfloat8_b
    out = ttnn.add(a, 0.0, dtype=ttnn.bfloat8_b, memory_config=ttnn.L1_MEMORY_CONFIG)
    assert out.dtype is ttnn.bfloat8_b and out.memory_config() == ttnn.L1_MEMORY_CONFIG
    target = on_card(card, torch.zeros(1, 1, 64, 64), "float32")
    assert ttnn.multiply(a, b, output_tensor=target) is target
    assert pcc(held(target), held(a) * held(b)) >= 0.999


def test_integers(card: Any) -> None:
    left = torch.randint(-50, 50, (1, 1, 32, 32), dtype=torch.int32)
    right = torch.randint(1, 50, (1, 1, 32, 32), dtype=torch.int32)
    a, b = on_card(card, left, "int32"), on_card(card, right, "int32")
    assert torch.equal(ttnn.to_torch(ttnn.add(a, b)), left + right)
    assert torch.equal(ttnn.to_torch(ttnn.multiply(a, 3)), left * 3)
    assert torch.equal(ttnn.to_torch(ttnn.div(a, b, rounding_mode="floor")), left.div(right, rounding_mode="floor"))
    quotient = ttnn.div(a, b)
    assert quotient.dtype is ttnn.float32 and torch.allclose(ttnn.to_torch(quotient), left / right)
    mixed = ttnn.multiply(a, on_card(card, right.float()))
    assert mixed.dtype is ttnn.bfloat16 and pcc(held(mixed), (left * right).float()) >= 0.9999


@pytest.mark.parametrize("mode", ["floor", "trunc"])
def test_rounded_division(card: Any, mode: str) -> None:
    a, b = on_card(card, torch.randn(1, 1, 32, 32) * 9), on_card(card, positive((1, 1, 32, 32)))
    whole = held(ttnn.div(a, b, rounding_mode=mode))
    exact = held(a) / held(b)
    assert torch.equal(whole, whole.round()) and float((whole - exact).abs().max()) <= 1.2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a, b: ttnn.add(a, b), "Invalid subtile broadcast type"),
        (
            lambda a, b: ttnn.maximum(a, ttnn.typecast(a, ttnn.float32)),
            "Mixed dtype is not supported for binary operation",
        ),
        (lambda a, b: ttnn.gcd(a, a), "Input tensor A dtype DataType::BFLOAT16 is not supported for binary operation"),
        (lambda a, b: ttnn.add(a, a, output_tensor=b), "does not match the broadcasted output shape"),
        (
            lambda a, b: ttnn.add(a, a, dtype=ttnn.float32, output_tensor=ttnn.relu(a)),
            "If both output dtype and output tensor are provided, their dtypes should match",
        ),
        (
            lambda a, b: ttnn.add(a, a, dtype=ttnn.float32, fast_and_approximate_mode=False),
            "fast_and_approximate_mode=false is only supported for a BFLOAT16 output",
        ),
    ],
)
def test_refusals_leave_memory_as_it_was(card: Any, call: Any, message: str) -> None:
    a, b = on_card(card, torch.zeros(1, 1, 64, 64)), on_card(card, torch.zeros(1, 1, 32, 32))
    gc.collect()
    before = allocated(card)
    with pytest.raises(RuntimeError, match=message) as refused:
        call(a, b)
    del refused
    gc.collect()
    assert allocated(card) == before


def allocated(card: Any) -> list[int]:
    kinds = (ttnn.BufferType.DRAM, ttnn.BufferType.L1)
    return [ttnn.get_memory_view(card, kind).total_bytes_allocated_per_bank for kind in kinds]


def test_wrong_types_are_type_errors(card: Any) -> None:
    a = on_card(card, torch.zeros(1, 1, 32, 32))
    for call in (lambda: ttnn.add(a), lambda: ttnn.gt(2.0, a), lambda: ttnn.add(a, "b"), lambda: ttnn.add(1.0, 2.0)):
        with pytest.raises(TypeError, match="incompatible function arguments"):
            call()


def test_older_spellings_warn(card: Any) -> None:
    a = on_card(card, torch.randn(1, 1, 32, 32))
    with pytest.warns(DeprecationWarning, match="use negative_slope"):
        out = ttnn.leaky_relu(a, slope=0.1)
    assert torch.equal(held(out), held(ttnn.leaky_relu(a, 0.1)))
    with pytest.warns(DeprecationWarning, match="no effect"):
        ttnn.add(a, a, use_legacy=True)
    with pytest.raises(TypeError):
        ttnn.leaky_relu(a, slope=0.1, negative_slope=0.2)


def test_a_number_minus_a_tensor_is_a_subtraction_and_no_rsub(card: Any) -> None:
    """Seen on TT-NN 0.81.1, mocked n150, bfloat8_b: three buffers, where rsub keeps a negated tile in a fourth."""
    a = on_card(card, torch.randn(1, 1, 32, 32), "bfloat8_b")
    sizes = {}
    for name, call in {"operator": lambda: 0.5 - a, "rsub": lambda: ttnn.rsub(a, 0.5)}.items():
        with card.record_commands() as commands:
            call()
        (placed,) = commands[0].steps
        sizes[name] = sorted(buffer.bytes for buffer in placed.step.buffers)
    assert sizes == {"operator": [2048, 2176, 2176], "rsub": [1088, 2048, 2176, 2176]}


def test_numbers_may_be_given_by_the_name_of_their_signature(card: Any) -> None:
    a = on_card(card, torch.randn(1, 1, 32, 32))
    for op, name in (("maximum", "input_b"), ("minimum", "input_b"), ("div", "value"), ("fmod", "scalar")):
        call = getattr(ttnn, op)
        assert torch.equal(held(call(a, **{name: 2.0})), held(call(a, 2.0)))
        with pytest.raises(TypeError):
            call(a, 2.0, **{name: 2.0})
    ttnn.sub_(input_tensor_a=a, input_tensor_b=1.0)
    with pytest.raises(TypeError):
        ttnn.sub_(input_a=a, input_b=1.0)


@pytest.mark.parametrize("dtype", ["bfloat16", "bfloat8_b", "float32", "int32"])
def test_where_chooses(card: Any, dtype: str) -> None:
    mask = torch.randint(0, 2, (1, 1, 32, 64)).float()
    values = torch.randint(-9, 9, (1, 1, 32, 64)).float(), torch.randint(-9, 9, (1, 1, 1, 64)).float()
    predicate, yes, no = (on_card(card, v, dtype) for v in (mask, *values))
    assert torch.equal(held(ttnn.where(predicate, yes, no)), torch.where(mask != 0, held(yes), held(no)))
    assert torch.equal(held(ttnn.where(predicate, yes, 3)), torch.where(mask != 0, held(yes), 3.0))
    assert torch.equal(held(ttnn.where(predicate, -2, no)), torch.where(mask != 0, -2.0, held(no)))
    assert torch.equal(held(ttnn.where(predicate, 1, 0)), mask)
