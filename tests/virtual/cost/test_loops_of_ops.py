"""Times of ops that go over their tiles in loops of their own, beside what upstream measured of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.virtual.cost.layers import only, steps_of
from tests.virtual.networks.noting import PlanOnlyCard
from tt_cnn.virtual import ttnn
from tt_cnn.virtual.cost.kernel import kernel_cost
from tt_cnn.virtual.cost.parts import KernelCost
from tt_cnn.virtual.planning.program import Step

ROWS, TILES = ttnn.ROW_MAJOR_LAYOUT, ttnn.TILE_LAYOUT


class Planned:
    """Calls on a card that does not compute."""

    def __init__(self, card: str = "n150") -> None:
        self.device = PlanOnlyCard(card)

    def tensor(self, *shape: int, dtype: Any = ttnn.bfloat16, layout: Any = TILES) -> Any:
        return ttnn.empty(list(shape), dtype, layout, device=self.device, memory_config=ttnn.DRAM_MEMORY_CONFIG)

    def steps(self, call: Callable[[], Any]) -> list[Step]:
        return steps_of(self.device, call)

    def cost(self, op: str, call: Callable[[], Any]) -> KernelCost:
        return kernel_cost(only(self.steps(call), op), self.device.card)


def attention(length: int, *, causal: bool = False, chunk: int = 128) -> KernelCost:
    card = Planned()
    q, k, v = (card.tensor(1, 8, length, 64) for _ in range(3))
    config = ttnn.SDPAProgramConfig(compute_with_storage_grid_size=(8, 8), q_chunk_size=chunk, k_chunk_size=chunk)
    call = ttnn.transformer.scaled_dot_product_attention
    return card.cost("SDPA", lambda: call(q, k, v, is_causal=causal, program_config=config))


def test_attention_takes_four_times_as_long_for_twice_the_tokens() -> None:
    short, long = attention(2048), attention(4096)
    assert long.ns / short.ns == pytest.approx(4, rel=0.05)
    assert long.matrix_ns > 0 and long.vector_ns > 0
    assert long.ns > long.matrix_ns + long.vector_ns


def test_causal_attention_looks_at_half_of_the_keys() -> None:
    assert attention(4096, causal=True).ns / attention(4096).ns == pytest.approx(0.5, rel=0.1)


def test_topk_takes_what_upstream_measured() -> None:
    """Half a millisecond for 4096 elements on one Blackhole core, 200 us for 16384 on 17 Wormhole cores."""
    blackhole = Planned("p150")
    rows = blackhole.tensor(1, 1, 96, 4096)
    assert blackhole.cost("TopK", lambda: ttnn.topk(rows, 32)).ns == pytest.approx(0.5e6, rel=0.1)
    wormhole = Planned()
    row = wormhole.tensor(1, 1, 32, 16384)
    grid = ttnn.CoreRangeSet([ttnn.CoreRange((0, 0), (4, 5))])
    assert wormhole.cost("TopK", lambda: ttnn.topk(row, 32, sub_core_grids=grid)).ns == pytest.approx(0.2e6, rel=0.2)


def test_argmax_takes_what_upstream_measured() -> None:
    """26.4 ms for a tiled 1024 x 1024 tensor on one core; 35.2 ms for 1024 rows of 65536 with one reader a core."""
    card = Planned()
    tiled, rows = card.tensor(1024, 1024), card.tensor(1024, 65536, layout=ROWS)
    assert card.cost("ArgMax", lambda: ttnn.argmax(tiled, -1)).ns == pytest.approx(26.4e6, rel=0.1)
    slow = card.cost("ArgMax", lambda: ttnn.argmax(rows, -1, enable_secondary_dm=False)).ns
    assert slow == pytest.approx(35.2e6, rel=0.1)
    assert card.cost("ArgMax", lambda: ttnn.argmax(rows, -1)).ns == pytest.approx(19.3e6, rel=0.1)


def test_argmax_of_many_long_rows_is_refused_where_its_cores_are_not_known() -> None:
    card = Planned("p150")
    rows = card.tensor(64, 8192, layout=ROWS)
    with pytest.raises(RuntimeError, match="is not known"):
        ttnn.argmax(rows, -1)
    assert ttnn.argmax(rows, -1, keepdim=True).shape == [64, 1]


def test_a_sort_passes_over_its_tiles_again_and_again() -> None:
    card = Planned()
    times = [card.cost("Sort", lambda w=width: ttnn.sort(card.tensor(32, w))).ns for width in (64, 512, 2048)]
    assert times[1] > 8 * times[0] and times[2] > 4 * times[1]


CALLS: dict[str, Callable[[Planned], Any]] = {
    "BatchNorm": lambda c: ttnn.batch_norm(
        c.tensor(2, 64, 64, 64), running_mean=c.tensor(1, 64, 1, 1), running_var=c.tensor(1, 64, 1, 1)
    ),
    "WelfordReduce": lambda c: ttnn.var(c.tensor(1, 8, 256, 256), -1),
    "Accumulation": lambda c: ttnn.cumsum(c.tensor(64, 8, 32, 256), 0),
    "ArgMaxNC": lambda c: ttnn.argmax(c.tensor(64, 8, 32, 256), 0),
    "PowInt": lambda c: ttnn.pow(c.tensor(1, 1, 256, 256, dtype=ttnn.int32), 5),
    "Sort": lambda c: ttnn.sort(c.tensor(1, 8, 32, 256)),
    "TopK": lambda c: ttnn.topk(c.tensor(1, 8, 32, 256), 32),
}


@pytest.mark.parametrize("op", CALLS)
def test_the_vector_unit_works(op: str) -> None:
    card = Planned()
    found = card.cost(op, lambda: CALLS[op](card))
    assert 0 < found.vector_ns < found.ns


@pytest.mark.parametrize(("op", "call"), [("FastReduceNC", ttnn.sum), ("ProdNc", ttnn.prod)])
def test_what_is_folded_is_read(op: str, call: Callable[..., Any]) -> None:
    """It is the input that such a step goes through; its output is small."""
    card = Planned()
    short, long = (card.cost(op, lambda n=n: call(card.tensor(n, 8, 256, 256), 0)) for n in (8, 64))
    assert long.dram_ns > 6 * short.dram_ns


@pytest.mark.parametrize("op", [*CALLS, "Softmax", "LayerNorm", "BinaryNg", "Ternary", "SDPA", "Reduce"])
def test_buffers_have_names(op: str) -> None:
    card = Planned()
    x = card.tensor(1, 8, 256, 256)
    more: dict[str, Callable[[Planned], Any]] = {
        "Softmax": lambda c: ttnn.softmax(x, -1),
        "LayerNorm": lambda c: ttnn.layer_norm(x, residual_input_tensor=x),
        "BinaryNg": lambda c: ttnn.ldexp(x, c.tensor(1, 8, 1, 256)),
        "Ternary": lambda c: ttnn.where(x, x, c.tensor(1, 8, 1, 256)),
        "SDPA": lambda c: ttnn.transformer.scaled_dot_product_attention(x, x, x),
        "Reduce": lambda c: ttnn.min(c.tensor(1, 8, 256, 256, dtype=ttnn.bfloat8_b), -2),
    }
    step = only(card.steps(lambda: (CALLS | more)[op](card)), op)
    names = [buffer.name for buffer in step.buffers]
    assert names and all(names) and len(set(names)) == len(names)
    assert step.program.buffer(names[-1]) is step.buffers[-1]
