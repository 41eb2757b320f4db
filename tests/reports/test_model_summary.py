# SPDX-License-Identifier: Apache-2.0
"""The model in words: every call, what it needs, and which ops there are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tt_cnn.reports import model_summary
from tt_cnn.reports.model_summary import call_summaries, model_card, op_uses, short_arguments, summary_markdown
from tt_cnn.reports.profile import Profile


def test_calls_gather_their_steps(unet: Profile) -> None:
    calls = call_summaries(unet)
    assert sum(len(call.steps) for call in calls) == len(unet.rows)
    assert sum(call.macs for call in calls) == unet.macs
    assert sum(call.ns for call in calls) == pytest.approx(unet.device_ns)
    conv = next(call for call in calls if call.layer == "encoder1.conv1")
    assert conv.name == "ttnn.conv2d" and conv.steps[-1] == "Conv2d" and conv.parameters == 32 * 3 * 9 + 32
    assert conv.arguments.startswith("kernel=3x3 padding=1x1x1x1") and "activation=relu" in conv.arguments


def test_arguments_that_go_without_saying_are_left_out() -> None:
    given = (("conv.kernel", "(1, 1)"), ("conv.stride", "(2, 2)"), ("conv.dilation", "(1, 1)"), ("conv.groups", "1"))
    assert short_arguments((*given, ("settings.shard_layout", "BLOCK_SHARDED"), ("unknown", "x"))) == (
        "kernel=1x1 stride=2x2 shard=block_sharded"
    )


def test_the_summary_is_a_table_with_a_row_a_call(unet: Profile) -> None:
    lines = summary_markdown(unet).splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 2 + len(call_summaries(unet))
    assert len({line.replace("\\|", "").count("|") for line in table}) == 1
    assert any("encoder1.conv1 | conv2d" in line for line in table)


def test_the_card_says_what_the_model_needs(unet: Profile) -> None:
    text = model_card(unet)
    for said in (
        "# Vanilla UNet on n150",
        "| input | 1x3x480x640 |",
        f"| l1_small_size | at least {unet.l1_small_needed} |",
        f"{unet.fps:.0f} fps with trace+2cq",
        "| ttnn.conv2d | 19 | yes | yes |",
        "No op is missing in TT-NN.",
    ):
        assert said in text


def test_card_and_summary_count_the_same_multiply_adds(unet: Profile) -> None:
    assert "| multiply-adds on the card | 56.58 G per pass |" in model_card(unet)
    assert ", 7.76 M parameters, 56.58 G multiply-adds on the card, " in summary_markdown(unet)


def test_what_ttnn_does_not_have_is_told(unet: Profile) -> None:
    strange = replace(unet, rows=(replace(unet.rows[0], call_name="ttnn.fly_to_the_moon"), *unet.rows[1:]))
    uses = {use.name: use for use in op_uses(strange)}
    assert not uses["fly_to_the_moon"].in_ttnn and not uses["fly_to_the_moon"].on_virtual_card
    assert uses["conv2d"].in_ttnn and uses["experimental.convert_to_hwc"].in_ttnn
    assert "Missing in TT-NN: fly_to_the_moon" in model_card(strange)


def test_text_of_others_cannot_break_the_page(unet: Profile) -> None:
    nasty = "<script>alert(1)</script>|`x`"
    rows = tuple(replace(row, layer=nasty) for row in unet.rows[:3])
    text = summary_markdown(replace(unet, rows=rows, model=replace(unet.model, title=nasty)))
    assert "<script>" not in text and "\\|\\`x\\`" in text
    assert "<" not in model_summary.model_card(replace(unet, model=replace(unet.model, title=nasty)))
