# SPDX-License-Identifier: Apache-2.0
"""Each kind of finding: the problem is planted and found, the advice applied, and the predicted time falls."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.reports.planted import Program, check, found, image, profiled
from tt_cnn import ttnn
from tt_cnn.reports.findings import KINDS, find
from tt_cnn.reports.profile import Profile
from tt_cnn.reports.recording import PlanningCard

# --- convolutions ---------------------------------------------------------------------------------------------------


def convolution(
    card: PlanningCard,
    side: int,
    channels: int,
    out: int | None = None,
    *,
    kernel: int = 3,
    math_fidelity: Any = ttnn.MathFidelity.LoFi,
    memory_config: Any = None,
    **config: Any,
) -> Program:
    """A convolution of a square image, with all that the findings look for as it should be, but for `config`."""
    out = out or channels
    good = {
        "weights_dtype": ttnn.bfloat8_b,
        "shard_layout": ttnn.TensorMemoryLayout.HEIGHT_SHARDED,
        "enable_act_double_buffer": True,
        "enable_weights_double_buffer": True,
    }
    weight = ttnn.from_torch(torch.zeros(out, channels, kernel, kernel), ttnn.float32)
    bias = ttnn.from_torch(torch.zeros(1, 1, 1, out), ttnn.float32)

    def run(x: Any) -> Any:
        return ttnn.conv2d(
            input_tensor=x,
            weight_tensor=weight,
            bias_tensor=bias,
            device=card,
            in_channels=channels,
            out_channels=out,
            batch_size=1,
            input_height=side,
            input_width=side,
            kernel_size=(kernel, kernel),
            padding=(kernel // 2, kernel // 2),
            dtype=ttnn.bfloat16,
            conv_config=ttnn.Conv2dConfig(**{**good, **config}),
            compute_config=ttnn.WormholeComputeKernelConfig(math_fidelity=math_fidelity, packer_l1_acc=True),
            memory_config=memory_config,
            slice_config=ttnn.Conv2dL1FullSliceConfig,
        )

    return run


PLANTED: dict[str, tuple[int, int, dict[str, Any]]] = {
    "few cores": (10, 256, {}),
    "weights": (16, 512, {"weights_dtype": ttnn.bfloat16, "shard_layout": ttnn.TensorMemoryLayout.BLOCK_SHARDED}),
    "fidelity": (64, 128, {"math_fidelity": ttnn.MathFidelity.HiFi4}),
    "block height": (160, 32, {"act_block_h_override": 32}),
    "double buffering": (64, 64, {"enable_act_double_buffer": False}),
}


@pytest.mark.parametrize("kind", PLANTED)
def test_a_convolution_that_could_be_faster(card: PlanningCard, kind: str) -> None:
    side, channels, planted = PLANTED[kind]
    before = profiled(card, lambda: image(card, side * side, channels), convolution(card, side, channels, **planted))
    finding = found(before, kind)
    changed = {**planted, **finding.change}
    after = profiled(card, lambda: image(card, side * side, channels), convolution(card, side, channels, **changed))
    check(before, after, finding)
    again = [one.kind for one in find(after, least_ns=1.0)]
    assert kind == "few cores" or kind not in again


def test_few_cores_are_told_in_plain_words(card: PlanningCard) -> None:
    profile = profiled(card, lambda: image(card, 100, 256), convolution(card, 10, 256))
    said = str(found(profile, "few cores"))
    assert "runs on 4 of 64 cores: height sharding of 100 rows; " in said
    assert "block sharding would use 32 and save about" in said or "width sharding would use" in said


def test_what_is_well_configured_is_left_alone(card: PlanningCard) -> None:
    profile = profiled(card, lambda: image(card, 64 * 64, 64), convolution(card, 64, 64))
    assert [str(one) for one in find(profile)] == []


def test_what_does_not_fit_is_not_advised(card: PlanningCard) -> None:
    """Larger blocks would save time, and there is no room for them."""
    run = convolution(card, 160, 32, act_block_h_override=32)
    roomy = profiled(card, lambda: image(card, 160 * 160, 32), run)
    height = found(roomy, "block height").change["act_block_h_override"]
    assert roomy.tightest is not None
    tiles = (roomy.tightest.l1.free - 8192) // 2048  # in each core
    held = image(card, 64 * tiles * 32, 32)
    tight = profiled(card, lambda: image(card, 160 * 160, 32), run)
    heights = [one.change["act_block_h_override"] for one in find(tight, least_ns=1.0) if one.kind == "block height"]
    assert all(one < height for one in heights)
    del held


# --- moves ----------------------------------------------------------------------------------------------------------


def sharding(rows: int, columns: int, kind: str = "HEIGHT") -> Any:
    """Over all 64 cores."""
    grid, strategy = ttnn.CoreGrid(x=8, y=8), ttnn.ShardStrategy[kind]
    return ttnn.create_sharded_memory_config((1, 1, rows, columns), core_grid=grid, strategy=strategy)


def test_a_round_trip_to_dram(card: PlanningCard) -> None:
    sharded = sharding(4096, 64)

    def planted(x: Any) -> Any:
        skip = ttnn.relu(x, memory_config=sharded)
        away = ttnn.to_memory_config(skip, ttnn.DRAM_MEMORY_CONFIG)
        ttnn.deallocate(skip)
        y = ttnn.relu(x, memory_config=sharded)
        back = ttnn.to_memory_config(away, sharded)
        return ttnn.add(y, back, memory_config=sharded)

    def advised(x: Any) -> Any:
        skip = ttnn.relu(x, memory_config=sharded)
        y = ttnn.relu(x, memory_config=sharded)
        return ttnn.add(y, skip, memory_config=sharded)

    before = profiled(card, lambda: image(card, 4096, 64, sharded), planted)
    after = profiled(card, lambda: image(card, 4096, 64, sharded), advised)
    check(before, after, found(before, "DRAM round trip"))


def test_a_reshard_before_a_convolution_that_needs_none(card: PlanningCard) -> None:
    sharded = sharding(4096, 64)
    run = convolution(card, 64, 64)

    def planted(x: Any) -> Any:
        return run(ttnn.to_memory_config(x, ttnn.L1_MEMORY_CONFIG))

    before = profiled(card, lambda: image(card, 4096, 64, sharded), planted)
    after = profiled(card, lambda: image(card, 4096, 64, sharded), run)
    check(before, after, found(before, "resharding"))


def test_tiles_that_are_undone_and_made_again(card: PlanningCard) -> None:
    def planted(x: Any) -> Any:
        y = ttnn.relu(x)
        y = ttnn.to_layout(y, ttnn.ROW_MAJOR_LAYOUT)
        y = ttnn.to_layout(y, ttnn.TILE_LAYOUT)
        return ttnn.relu(y)

    def advised(x: Any) -> Any:
        return ttnn.relu(ttnn.relu(x))

    before = profiled(card, lambda: image(card, 4096, 64), planted)
    after = profiled(card, lambda: image(card, 4096, 64), advised)
    check(before, after, found(before, "tilize churn"))


@pytest.mark.parametrize("kind", ["HEIGHT", "BLOCK"])
def test_a_concat_through_interleaved_memory(card: PlanningCard, kind: str) -> None:
    width = {"HEIGHT": 64, "BLOCK": 256}[kind]
    sharded, joined = sharding(4096, width, kind), sharding(4096, 2 * width, kind)
    layout = ttnn.TensorMemoryLayout[f"{kind}_SHARDED"]
    run = convolution(card, 64, 2 * width, 64, shard_layout=layout)

    def planted(x: Any) -> Any:
        a, b = (ttnn.relu(x, memory_config=sharded) for _ in range(2))
        a, b = (ttnn.sharded_to_interleaved(one, ttnn.L1_MEMORY_CONFIG) for one in (a, b))
        return run(ttnn.concat([a, b], 3, memory_config=ttnn.L1_MEMORY_CONFIG))

    def advised(x: Any) -> Any:
        a, b = (ttnn.relu(x, memory_config=sharded) for _ in range(2))
        return run(ttnn.concat([a, b], 3, memory_config=joined))

    before = profiled(card, lambda: image(card, 4096, width, sharded), planted)
    after = profiled(card, lambda: image(card, 4096, width, sharded), advised)
    finding = found(before, "concat")
    check(before, after, finding)
    assert finding.change["memory_config"] == joined


@pytest.mark.parametrize("rows", [6300, 400])
def test_a_transfer_in_small_pages(card: PlanningCard, rows: int) -> None:
    def read(shape: tuple[int, int], layout: Any) -> Profile:
        def program(x: Any) -> Any:
            y = ttnn.relu(x)
            return y.cpu()

        return profiled(card, lambda: image(card, *shape, layout=layout), program)

    before = read((rows, 4), ttnn.ROW_MAJOR_LAYOUT)
    finding = found(before, "small pages")
    assert finding.problem == f"of 1x1x{rows}x4 is read in pages of 8 B"
    as_tiles = "tiles" in finding.advice
    after = read((rows, 4), ttnn.TILE_LAYOUT) if as_tiles else read((4, rows), ttnn.ROW_MAJOR_LAYOUT)
    assert after.transfers[0].page_bytes == finding.change["page_bytes"]
    fell = before.transfers[0].ns - after.transfers[0].ns
    assert finding.saves_ns == pytest.approx(fell, rel=0.01)


def test_tiles_of_a_block_format_have_no_larger_pages(card: PlanningCard) -> None:
    def program(x: Any) -> Any:
        return ttnn.typecast(x, ttnn.bfloat8_b).cpu()

    profile = profiled(card, lambda: image(card, 6300, 32), program)
    (read,) = profile.transfers
    assert read.page_bytes == 1088 and not [one for one in find(profile) if one.kind == "small pages"]


# --- models ---------------------------------------------------------------------------------------------------------


def test_findings_of_a_model_are_ranked_and_worth_reading(unet: Profile) -> None:
    findings = find(unet)
    assert [one.saves_ns for one in findings] == sorted((one.saves_ns for one in findings), reverse=True)
    for one in findings:
        assert one.kind in KINDS and one.saves_ns >= 0.002 * unet.device_ns
        assert all(0 <= row < len(unet.rows) for row in one.rows)
        assert one.saves_ns < sum(unet.rows[row].cost.ns + unet.rows[row].gap_ns for row in one.rows) or not one.rows
