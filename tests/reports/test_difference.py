# SPDX-License-Identifier: Apache-2.0
"""Two profiles side by side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tt_cnn.reports.difference import compare_profiles
from tt_cnn.reports.profile import Profile, Row


def changed(profile: Profile, index: int, change: Callable[[Row], Row]) -> Profile:
    rows = list(profile.rows)
    rows[index] = change(rows[index])
    return replace(profile, rows=tuple(rows))


def timed(factor: float) -> Callable[[Row], Row]:
    return lambda row: replace(row, cost=replace(row.cost, ns=row.cost.ns * factor))


@pytest.fixture
def conv(unet: Profile) -> int:
    return next(row.index for row in unet.rows if row.op == "Conv2d")


def test_a_profile_is_the_same_as_itself(unet: Profile) -> None:
    assert compare_profiles(unet, unet).is_same


def test_faster_and_slower_are_found(unet: Profile, conv: int) -> None:
    after = changed(changed(unet, conv, timed(0.5)), conv + 3, timed(3))
    difference = compare_profiles(unet, after)
    assert [step.before for step in difference.faster] == [unet.rows[conv]]
    assert [step.before for step in difference.slower] == [unet.rows[conv + 3]]
    assert difference.faster[0].ns == pytest.approx(-unet.rows[conv].cost.ns / 2)
    assert not difference.moved and not difference.changed_precision and not difference.added


def test_what_is_within_the_noise_of_a_prediction_is_not_told(unet: Profile, conv: int) -> None:
    assert compare_profiles(unet, changed(unet, conv, timed(1.01))).is_same


def test_moves_and_precision_are_told_in_words(unet: Profile, conv: int) -> None:
    def lower(row: Row) -> Row:
        output = replace(row.outputs[0], dtype="BFLOAT8_B", buffer_type="DRAM", memory_layout="INTERLEAVED")
        output = replace(output, shard_shape=None, shard_cores=None)
        return replace(row, fidelity="LoFi", cores=10, outputs=(output,))

    difference = compare_profiles(unet, changed(unet, conv, lower))
    (moved,), (precise,) = difference.moved, difference.changed_precision
    assert moved.moved == ("cores: 64 -> 10", "output 0: L1_HEIGHT_SHARDED 4800x32 on 64 cores -> DRAM_INTERLEAVED")
    assert precise.precision == ("fidelity: HiFi4 -> LoFi", "output 0: BFLOAT16 -> BFLOAT8_B")


def test_steps_without_a_partner_are_added_or_removed(unet: Profile, conv: int) -> None:
    fewer = replace(unet, rows=tuple(row for row in unet.rows if row.index not in (conv - 1, conv + 5)))
    there, back = compare_profiles(unet, fewer), compare_profiles(fewer, unet)
    expected = [unet.rows[conv - 1], unet.rows[conv + 5]]
    assert [step.before for step in there.removed] == expected and not there.added
    assert [step.after for step in back.added] == expected and not back.removed
    assert not there.faster and not there.slower and not there.moved


def test_precision_of_a_whole_model(profile_of: Callable[..., Profile], unet: Profile) -> None:
    difference = compare_profiles(profile_of("vanilla_unet", precision="bfloat16"), unet)
    assert difference.changed_precision and difference.before.device_ns > difference.after.device_ns
    assert any("BFLOAT16 -> BFLOAT8_B" in " ".join(step.precision) for step in difference.changed_precision)


def test_different_models_and_cards_can_be_compared(profile_of: Callable[..., Profile], unet: Profile) -> None:
    other = profile_of("resnet50")
    difference = compare_profiles(unet, other)
    assert len(difference.removed) + sum(
        step.before is not None and step.after is not None for step in difference.steps
    ) == len(unet.rows)
    on_p150 = compare_profiles(unet, profile_of("vanilla_unet", card="p150"))
    assert on_p150.faster and any("cores: 64 ->" in change for step in on_p150.moved for change in step.moved)
