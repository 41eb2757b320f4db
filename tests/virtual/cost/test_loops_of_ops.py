# SPDX-License-Identifier: Apache-2.0
"""Times of ops that go over their tiles in loops of their own, beside what upstream measured of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.virtual.cost.layers import only, steps_of
from tests.virtual.networks.noting import PlanOnlyCard
from tt_cnn.virtual import ttnn
from tt_cnn.virtual.cost.figures import figures_of
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


def in_width(cores: Any, height: int, width: int, memory: Any) -> Any:
    shard = ttnn.ShardSpec(cores, [height, width], ttnn.ShardOrientation.ROW_MAJOR)
    return ttnn.MemoryConfig(ttnn.TensorMemoryLayout.WIDTH_SHARDED, memory, shard)


@pytest.mark.parametrize(
    ("card", "inner", "columns", "dtype", "fidelity", "block", "published"),
    [
        ("n150", 4096, 6144, ttnn.bfloat8_b, "HiFi2", 4, 109.9),
        ("n150", 14336, 4096, ttnn.bfloat8_b, "HiFi2", 7, 247.5),
        ("p150", 4096, 2048, ttnn.bfloat8_b, "LoFi", 8, 21.8),
        ("p150", 17408, 5120, ttnn.bfloat4_b, "LoFi", 17, 153.6),  # the products decide
        ("p150", 5120, 14336, ttnn.bfloat16, "HiFi2", 2, 294.2),
    ],
)
def test_a_matrix_in_the_banks_of_dram_comes_at_their_rate(
    card: str, inner: int, columns: int, dtype: Any, fidelity: str, block: int, published: float
) -> None:
    """Published kernel times of decoders, in microseconds."""
    planned = Planned(card)
    banks = planned.device.card.dram_banks
    line = ttnn.CoreRangeSet([ttnn.CoreRange((0, 0), (7, 0))])
    row = ttnn.CoreRangeSet([ttnn.CoreRange((0, 0), (banks - 1, 0))])
    place = in_width(line, 32, inner // 8, ttnn.BufferType.L1)
    left = ttnn.empty([1, 1, 32, inner], ttnn.bfloat16, TILES, device=planned.device, memory_config=place)
    place = in_width(row, inner, -(-columns // 32 // banks) * 32, ttnn.BufferType.DRAM)
    right = ttnn.empty([1, 1, inner, columns], dtype, TILES, device=planned.device, memory_config=place)
    program = ttnn.MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig(
        in0_block_w=block, per_core_M=1, per_core_N=columns // 32 // 8
    )
    compute = ttnn.WormholeComputeKernelConfig(
        math_fidelity=ttnn.MathFidelity[fidelity], math_approx_mode=False, packer_l1_acc=True
    )
    cost = planned.cost(
        "Matmul",
        lambda: ttnn.matmul(
            left,
            right,
            program_config=program,
            memory_config=ttnn.L1_WIDTH_SHARDED_MEMORY_CONFIG,
            dtype=ttnn.bfloat16,
            compute_kernel_config=compute,
        ),
    )
    assert cost.ns / 1e3 == pytest.approx(published, rel=0.1)


def test_rows_that_are_no_whole_words_are_waited_for_in_eights() -> None:
    """1024 rows of one element: 1024 waits for DRAM would be 0.3 ms on their own, as upstream had it before 2026-07."""
    card = Planned("p150")
    x = card.tensor(1, 1024, layout=ROWS)
    cost = card.cost("ReshapeView", lambda: ttnn.reshape(x, [1024, 1]))
    figures = figures_of(card.device.card)
    waits = 1024 / 8 * figures.ns(figures.dram_write_latency_cycles)
    assert waits < cost.ns < 0.3 * 1024 * figures.ns(figures.dram_write_latency_cycles) + waits


def test_blackhole_unpacks_the_rows_of_a_window_one_by_one() -> None:
    """tt-metal issue 27922: 4 rows of 8 tiles take 430 ns and 16 take 1335; on Wormhole both take 360."""

    def pool(name: str, kernel: int) -> float:
        device = PlanOnlyCard(name)
        x = ttnn.empty([1, 1, 64 * 64, 256], ttnn.bfloat16, ROWS, device=device)
        call = lambda: ttnn.max_pool2d(x, 1, 64, 64, 256, [kernel] * 2, [kernel] * 2, [0, 0], [1, 1])  # noqa: E731
        step = only(steps_of(device, call), "Pool2D")
        sticks, channels = step.outputs[0].spec.shard.shape
        return kernel_cost(step, device.card).matrix_ns / (sticks * channels // 32)

    assert pool("p150", 4) - pool("p150", 2) == pytest.approx((1335 - 430) / 8, rel=0.02)
    assert pool("n150", 4) == pytest.approx(pool("n150", 2), rel=0.02)
