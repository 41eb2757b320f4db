# SPDX-License-Identifier: Apache-2.0
"""Time by op type, by layer and by block: sums of the same steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tt_cnn.reports.profile import Profile
from tt_cnn.reports.time_sums import by_block, by_layer, by_op


def named(profile: Profile, layers: list[str]) -> Profile:
    """A step for each layer, of 1000 ns, 2000 ns and so on."""
    rows = []
    for i, (row, layer) in enumerate(zip(profile.rows, layers, strict=False)):
        rows.append(replace(row, layer=layer, cost=replace(row.cost, ns=1000.0 * (i + 1))))
    return replace(profile, rows=tuple(rows))


def test_ops_and_layers_add_up_to_the_device_time_of_the_steps(unet: Profile) -> None:
    whole = sum(row.cost.ns for row in unet.rows)
    for sums in (by_op(unet), by_layer(unet)):
        assert sum(one.ns for one in sums) == pytest.approx(whole)
        assert sum(one.steps for one in sums) == len(unet.rows)
        assert len({one.name for one in sums}) == len(sums)
    assert [one.ns for one in by_op(unet)] == sorted((one.ns for one in by_op(unet)), reverse=True)
    assert [one.name for one in by_layer(unet)] == list(dict.fromkeys(row.name for row in unet.rows))


def test_blocks_of_a_unet(unet: Profile) -> None:
    blocks = {one.name: one for one in by_block(unet)}
    sides = [f"{side}{i}" for side in ("encoder", "decoder") for i in (1, 2, 3, 4)]
    assert set(blocks) == {*sides, "bottleneck"}
    encoder = [row for row in unet.rows if row.layer.startswith("encoder1.")]
    assert blocks["encoder1"].ns == pytest.approx(sum(row.cost.ns for row in encoder))
    assert blocks["encoder1"].steps == len(encoder) and blocks["encoder1"].percent(unet) > 1


def test_blocks_within_blocks_without_repetitions(unet: Profile) -> None:
    layers = ["body.stage1.a.conv", "body.stage1.a.add", "body.stage2.inner.conv", "body.stage2.inner.act", "head", ""]
    found = {one.name: one.ns for one in by_block(named(unet, layers))}
    assert found == {"body": 10_000, "body.stage1": 3_000, "body.stage2": 7_000}, "each with the shortest of its names"


def test_a_layer_of_several_steps_is_no_block(unet: Profile) -> None:
    assert by_block(named(unet, ["a.conv", "a.conv", "b.conv"])) == []


def test_a_mobilenet_has_its_features(profile_of: Callable[..., Profile]) -> None:
    names = [one.name for one in by_block(profile_of("mobilenetv2"))]
    assert names[0] == "features" and {"features.2", "features.17"} <= set(names)
    assert "features.2.conv" not in names, "it has all the layers of features.2"
