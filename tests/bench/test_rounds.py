# SPDX-License-Identifier: Apache-2.0
"""Interleaved rounds, ratios, and peers that compute what torch computes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from PIL import Image
from torch import nn

from tt_cnn.bench import PEERS, Subject, Timing, compare, create_peer, peers_beside, rounds
from tt_cnn.bench.chart import draw_bars
from tt_cnn.bench.rounds import Comparison


class Noted(Subject):
    """Writes down when it was asked for how many batches; every second answer may differ."""

    def __init__(self, name: str, diary: list[tuple[str, int]], wavers: bool = False) -> None:
        self.name, self.diary, self.wavers, self.calls = name, diary, wavers, 0

    def run(self, batches: Sequence[torch.Tensor]) -> list[tuple[torch.Tensor, ...]]:
        self.diary.append((self.name, len(batches)))
        self.calls += 1
        return [(batch * 2 + (self.calls % 2 if self.wavers else 0),) for batch in batches]


def test_every_subject_runs_in_every_round_after_a_batch_that_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "LONG_ENOUGH", 0.0)
    monkeypatch.setattr(rounds, "SETTLING", 0.0)
    diary: list[tuple[str, int]] = []
    x = torch.randn(2, 3)
    result = compare([Noted("a", diary), Noted("b", diary, wavers=True)], (x * 2,), x, rounds=8, batches=4)
    turns = [diary[i : i + 2] for i in range(0, 32, 2)]
    assert all(before == (name, 1) and timed == (name, 4) for before, timed in turns for name in before[:1])
    order = [before[0] for before, _ in turns]
    assert all(sorted(order[i : i + 2]) == ["a", "b"] for i in range(0, 16, 2)) and len(set(order[::2])) == 2
    first, second = result.timings
    assert len(first.seconds) == 8 and first.batch_size == 2
    assert first.pcc == pytest.approx(1.0) and first.repeats and not second.repeats


def test_a_turn_takes_long_enough_to_be_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "LONG_ENOUGH", 0.02)
    monkeypatch.setattr(rounds, "SETTLING", 0.01)
    diary: list[tuple[str, int]] = []
    x = torch.randn(2, 3)
    compare([Noted("quick", diary)], (x * 2,), x, rounds=1, batches=2)
    *before, timed = diary[:-2]  # the last two are for PCC and repeated bits
    assert timed[1] > 20 and len(before) > 20 and {number for _, number in before} == {1}


def timing(name: str, *seconds: float) -> Timing:
    return Timing(name, seconds, batch_size=2, pcc=1.0, compile_seconds=0.0, repeats=True)


def test_ratios_are_medians_over_rounds() -> None:
    result = Comparison((timing("ours", 1.0, 10.0, 2.0), timing("slow", 3.0, 20.0, 8.0), timing("fast", 1.0, 5.0, 1.0)))
    assert result.ratio(result.timings[1]) == 3.0
    assert result.ours.median == 2.0 and result.ours.p99 == 10.0 and result.ours.fps == 1.0


@pytest.mark.parametrize("name", [name for name in PEERS if name != "compile"])
def test_peers_compute_what_the_model_computes(name: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Mish(), nn.MaxPool2d(2)).eval()
    x = torch.randn(2, 3, 8, 8)
    peer = create_peer(name, model, x)
    other = torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        for batch, (found,) in zip((x, other), peer.run([x, other]), strict=True):
            torch.testing.assert_close(found, model(batch), rtol=1e-4, atol=1e-5)
    assert peer.compile_seconds > 0


def test_an_unknown_peer_is_told_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="onnxruntime"):
        create_peer("tflite", nn.Identity(), torch.zeros(1))


def test_peers_of_a_gpu_are_told_apart_and_refused_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not set(peers_beside("cuda")) & set(PEERS) and peers_beside("kernels") == list(PEERS)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(RuntimeError, match="no CUDA device"):
        create_peer("cuda-graph", nn.Identity(), torch.zeros(1))


def test_bars_are_as_long_as_the_times(tmp_path: Path) -> None:
    draw_bars(Comparison((timing("tt-cnn", 1.0), timing("peer", 2.0))), "a model", tmp_path / "bars.png")
    picture = Image.open(tmp_path / "bars.png").convert("RGB")
    blue = [picture.getpixel((x, 63)) == (42, 111, 219) for x in range(picture.width)]
    grey = [picture.getpixel((x, 99)) == (184, 192, 204) for x in range(picture.width)]
    assert sum(blue) > 100 and abs(sum(grey) - 2 * sum(blue)) <= 2
