# SPDX-License-Identifier: Apache-2.0
"""The plan of vanilla UNet at 480x640 is the real library's: every output, and L1 and L1_SMALL after every step."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.virtual.networks.noting import NotedTTNN, PlanOnlyCard
from tests.virtual.networks.unet import UNet

TABLE = Path(__file__).with_name("unet_480x640.txt")


def test_every_step_leaves_what_the_real_library_leaves() -> None:
    card = PlanOnlyCard(l1_small_size=98304)
    ttnn = NotedTTNN(card)
    network = UNet(ttnn, card)
    network(network.input())
    given = [f"{i} | {n.op} | {n.output} | {n.l1} | {n.l1_small}" for i, n in enumerate(ttnn.notes, 1)]
    assert given == TABLE.read_text().splitlines()


def test_a_kept_output_leaves_no_room_for_a_second_pass() -> None:
    card = PlanOnlyCard(l1_small_size=98304)
    ttnn = NotedTTNN(card)
    network = UNet(ttnn, card)
    kept = network(network.input())
    done = len(ttnn.notes)
    with pytest.raises(RuntimeError, match=r"circular buffers in program \d+ clash with L1 buffers on core range"):
        network(network.input())
    assert len(ttnn.notes) - done == 18, "the second convolution of the bottleneck, step 19, is the one that fails"
    assert kept.is_allocated()


def test_a_second_pass_finds_its_programs_and_their_tables() -> None:
    card = PlanOnlyCard(l1_small_size=98304)
    ttnn = NotedTTNN(card)
    network = UNet(ttnn, card)
    for _ in range(2):
        network(network.input())
    first, second = ttnn.notes[:50], ttnn.notes[50:]
    assert [(n.output, n.l1) for n in second] == [(n.output, n.l1) for n in first]
    assert {n.l1_small for n in second} == {first[-1].l1_small}
