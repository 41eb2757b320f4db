# SPDX-License-Identifier: Apache-2.0
"""The helpers that TT-NN's model tests import."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as F

from tt_cnn import ttnn
from tt_cnn.testing import utility_functions as helpers


def test_rounding() -> None:
    assert (helpers.divup(7, 3), helpers.roundup(7, 3), helpers.roundup32(33)) == (3, 9, 64)
    assert helpers.nearest_32(1) == helpers._nearest_32(32) == 32
    assert helpers.nearest_y(5, 4) == helpers._nearest_y(8, 4) == 8


def test_which_card(card: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert helpers.is_wormhole_b0() and helpers.is_wormhole_b0(card)
    assert not helpers.is_blackhole() and not helpers.is_quasar() and not helpers.is_blackhole(card)
    assert helpers.is_single_chip() and not helpers.is_n300() and not helpers.is_x2_harvested(card)
    assert not skipped(helpers.run_for_wormhole_b0()) and skipped(helpers.run_for_blackhole())
    assert skipped(helpers.skip_for_wormhole_b0("why")) and not skipped(helpers.skip_for_blackhole())
    assert skipped(helpers.skip_for_n_dev(1)) and not skipped(helpers.skip_for_n_dev(2))
    monkeypatch.setenv("TT_CNN_CARD", "p150")
    assert helpers.is_blackhole() and not helpers.is_n300()
    monkeypatch.setenv("TT_CNN_CARD", "n300")
    assert helpers.is_n300() and not helpers.is_single_chip()


def skipped(mark: pytest.MarkDecorator) -> bool:
    return bool(mark.args[0])


def test_tensors_there_and_back(card: Any) -> None:
    x = torch.randn(3, 5).bfloat16()
    tiled = helpers.torch2tt_tensor(x, card)
    assert tuple(tiled.shape) == (1, 1, 3, 5) and tiled.layout == ttnn.TILE_LAYOUT
    assert torch.equal(helpers.tt2torch_tensor(tiled)[0, 0], x)
    rows = helpers.torch_to_tt_tensor_rm(x, card, shape=[1, 1, 5, 3])
    assert tuple(rows.shape) == (1, 1, 5, 3) and ttnn.is_tensor_storage_on_device(rows)
    host = helpers.torch_to_tt_tensor_rm(x, card, put_on_device=False)
    assert not ttnn.is_tensor_storage_on_device(host)
    assert torch.equal(helpers.tt_to_torch_tensor(host)[0, 0], x)


def test_random_numbers() -> None:
    assert 2 <= float(helpers.torch_random((9,), 2, 3, torch.float32).min()) <= 3
    assert helpers.torch_random((9,), 2, 3, torch.int32).tolist() == [2] * 9
    assert helpers.torch_random((9,), 0, 1, torch.bool).dtype == torch.bool


def test_a_folded_filter_on_a_folded_image_is_the_strided_convolution() -> None:
    image, weight = torch.randn(1, 3, 16, 16), torch.randn(5, 3, 7, 7)
    folded = helpers.pad_and_fold_conv_filters_for_unity_stride(weight, 2, 2)
    assert folded.shape == (5, 16, 4, 4)
    padded = F.pad(image, (0, 0, 0, 0, 0, 1))
    planes = padded.reshape(1, 4, 8, 2, 8, 2).permute(0, 3, 5, 1, 2, 4).reshape(1, 16, 8, 8)
    torch.testing.assert_close(F.conv2d(planes, folded), F.conv2d(image, weight, stride=2)[..., :5, :5])
    with pytest.raises(ValueError, match="must both be square"):
        helpers.pad_and_fold_conv_filters_for_unity_stride(weight, 2, 1)


def test_the_profiler(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(100))
    monkeypatch.setattr(helpers.time, "perf_counter", lambda: float(next(clock)))
    profiler = helpers.Profiler()
    profiler.start("run")
    profiler.end("run", PERF_CNT=2)
    assert profiler.get("run") == 0.5 and profiler.get("other") == 0
    profiler.end("never started")
    profiler.disable()
    profiler.start("off")
    profiler.start("forced", force_enable=True)
    profiler.end("forced", force_enable=True)
    profiler.enable()
    assert profiler.get("off") == 0 and profiler.get("forced") == 1
    profiler.print("ms")
    assert "run: 500.000ms" in capsys.readouterr().out
    profiler.clear()
    assert profiler.get("run") == 0


def test_switches_of_earlier_versions_are_there_and_say_why() -> None:
    for name in ("enable_persistent_kernel_cache", "disable_persistent_kernel_cache", "enable_memory_reports"):
        assert getattr(helpers, name)() is None and getattr(helpers, name).__doc__
