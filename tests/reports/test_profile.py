# SPDX-License-Identifier: Apache-2.0
"""A profile says what the commands say: steps, memory, times, in one structure."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import nn

import tt_cnn
from tt_cnn import ttnn
from tt_cnn.models import EXECUTORS, create_tt, model_entry
from tt_cnn.models.vanilla_unet.tt.model import TtUNet
from tt_cnn.reports.profile import Profile, profile_commands, profile_model
from tt_cnn.reports.profile_folder import write_folder
from tt_cnn.reports.profiling import PlannedModel, planned_model, profile_fitting
from tt_cnn.reports.recording import PlanningCard, recorded

PLANNED = [("vanilla_unet", "n150"), ("vanilla_unet", "p150"), ("resnet50", "n150"), ("resnet50", "p150")]
PLANNED += [("yolov4", "n150"), ("yolov4", "p150")]


@pytest.mark.parametrize(("name", "card"), PLANNED)
def test_tensors_stand_where_the_allocator_put_them(name: str, card: str, profile_of: Callable[..., Profile]) -> None:
    """Lifetimes are followed through plans; the allocator's own lowest address says whether that was right."""
    profile = profile_of(name, card=card)
    top = profile.l1_base + profile.l1_size
    for row in profile.rows:
        held = [profile.buffers[i] for i in profile.held(row.index)]
        tensors = [b for b in held if b.buffer_type == "L1"]
        assert min((b.address for b in tensors), default=top) == top - row.l1.tensors, row
        for kind in ("L1", "DRAM", "L1_SMALL"):
            ranges = sorted(
                (b.address, b.address + b.bank_bytes) for b in held if b.buffer_type == kind and b.bank_bytes
            )
            assert all(end <= start for (_, end), (start, _) in pairwise(ranges)), (row, kind)
        for tensor in (*row.inputs, *row.outputs):
            buffer = profile.buffers[tensor.buffer]
            given_back = row.op == "Move" and tensor is row.inputs[0]  # before its output takes memory, as in TT-NN
            assert buffer.first_row <= row.index <= buffer.last_row + given_back
            assert (buffer.buffer_type, buffer.address) == (tensor.buffer_type, tensor.address)


FOLDED = {"resnet50": 64 * (4 * 4 * 16 - 7 * 7 * 3)}
"""Weights that its stem gains when a 7x7 kernel of stride 2 is folded into a 4x4 one over 16 channels."""


def multiply_adds(model: nn.Module, images: torch.Tensor) -> int:
    """Of the convolutions and linear layers, as PyTorch runs them."""
    total = 0

    def count(layer: nn.Module, inputs: tuple[torch.Tensor, ...], result: torch.Tensor) -> None:
        nonlocal total
        places = inputs[0] if isinstance(layer, nn.ConvTranspose2d) else result
        total += layer.weight.numel() * places.numel() // places.shape[1]

    for layer in model.modules():
        if isinstance(layer, nn.Conv2d | nn.ConvTranspose2d | nn.Linear):
            layer.register_forward_hook(count)
    with torch.no_grad():
        model(images)
    return total


@pytest.mark.parametrize("name", ["vanilla_unet", "resnet50", "mobilenetv2"])
def test_the_multiply_adds_are_pytorchs(name: str, profile_of: Callable[..., Profile]) -> None:
    profile = profile_of(name)
    height, width = profile.model.resolution
    smaller = 2 if name == "vanilla_unet" else 1  # it is fully convolutional, and large
    images = torch.zeros(1, 3, height // smaller, width // smaller)
    expected = multiply_adds(model_entry(name).reference().eval(), images) * smaller**2
    assert profile.macs == expected + FOLDED.get(name, 0) * 112 * 112


@pytest.mark.parametrize("name", ["vanilla_unet", "resnet50", "mobilenetv2"])
def test_parameters_are_those_of_the_folded_layers(name: str, profile_of: Callable[..., Profile]) -> None:
    """A batch norm goes into the weights and leaves a bias."""
    profile, reference = profile_of(name), model_entry(name).reference()
    convolutions = [m for m in reference.modules() if isinstance(m, nn.Conv2d | nn.ConvTranspose2d)]
    linear = [m for m in reference.modules() if isinstance(m, nn.Linear)]
    expected = sum(m.weight.numel() + m.out_channels for m in convolutions)
    expected += sum(m.weight.numel() + m.out_features for m in linear)
    assert sum(row.parameters for row in profile.rows) == expected + FOLDED.get(name, 0)
    assert profile.model.parameters == sum(p.numel() for p in reference.parameters())


def test_times_are_sums(unet: Profile) -> None:
    assert unet.device_ns == pytest.approx(sum(row.cost.ns for row in unet.rows))
    assert unet.device_fps == pytest.approx(1e9 / unet.device_ns)
    for row in unet.rows:
        assert row.cost.ns > 0 and 1 <= row.cores <= row.available_cores == 64
        assert row.l1.buffers + row.l1.tensors + row.l1.free == unet.l1_size
        assert row.adjusted_utilization == pytest.approx(row.cost.pm_ideal_ns / row.cost.ns * 64 / row.cores)
        if row.op in ("Conv2d", "Matmul"):
            assert row.fidelity in ("LoFi", "HiFi2", "HiFi3", "HiFi4") and row.macs and row.fpu_utilization > 0


@pytest.mark.parametrize("executor", EXECUTORS)
def test_the_timeline_is_what_the_queues_allow(executor: str, profile_of: Callable[..., Profile]) -> None:
    profile = profile_of("vanilla_unet", executor=executor)
    for queue in {span.queue for span in profile.timeline}:
        ours = sorted((s.start_ns, s.end_ns) for s in profile.timeline if s.queue == queue)
        assert all(end <= start + 1e-6 for (_, end), (start, _) in pairwise(ours))
    for number in (0, 1):
        steps = [s for s in profile.timeline if s.kind == "step" and s.input == number]
        assert [s.row for s in steps] == list(range(len(profile.rows)))
        for span in steps:
            assert span.end_ns - span.start_ns == pytest.approx(profile.rows[span.row or 0].cost.ns)
    writes = [s for s in profile.timeline if s.kind == "write"]
    overlapped = any(
        w.start_ns < s.end_ns and s.start_ns < w.end_ns for w in writes for s in profile.timeline if s.kind == "step"
    )
    assert overlapped == ("2cq" in executor)
    assert all(row.traced == ("trace" in executor) for row in profile.rows if row.call_name == "ttnn.conv2d")


def test_other_executors_may_be_left_out(unet: Profile) -> None:
    alone = profile_model("vanilla_unet", beside=())
    assert {result.executor for result in alone.executors} == {"trace", "trace+2cq"}
    assert alone.fps == unet.fps and alone.trace_bytes == unet.trace_bytes


def test_executors_are_ranked_as_they_work(unet: Profile) -> None:
    fps = {result.executor: result.fps for result in unet.executors}
    assert list(fps) == list(EXECUTORS)
    assert fps["plain"] < fps["trace"] < fps["trace+2cq"] <= fps["trace+2cq+io"] < unet.device_fps
    assert unet.fps == fps["trace+2cq"]


@pytest.mark.parametrize(("name", "card"), PLANNED)
def test_the_l1_small_size_that_is_told_is_enough_and_needed(
    name: str, card: str, profile_of: Callable[..., Profile]
) -> None:
    needed = profile_of(name, card=card).l1_small_needed
    for size, fits in ((needed, True), (needed - 64, False)):
        with planned_model(name, card, l1_small_size=size) as planned:
            _, refusal = profile_fitting(planned, "trace")
        assert (refusal is None) == fits
        assert fits or "L1_SMALL" in str(refusal)


def test_the_trace_size_that_is_told_is_enough_and_needed(unet: Profile) -> None:
    assert _refusal_of_trace(unet.trace_bytes) == ""
    assert "is allocated for trace region" in _refusal_of_trace(unet.trace_bytes - 1)


def _refusal_of_trace(trace_region_size: int) -> str:
    entry = model_entry("vanilla_unet")
    device = PlanningCard("n150", entry.l1_small_size, trace_region_size)
    try:
        model = create_tt(entry.name, device, entry.reference().eval())
        planned = PlannedModel(entry, device, model, 0)
        return str(profile_fitting(planned, "trace")[1] or "")
    finally:
        device.close()


def test_commands_of_any_program_make_a_profile() -> None:
    device = ttnn.open_device(device_id=0, l1_small_size=16384)
    try:
        x = ttnn.from_torch(torch.ones(64, 64), ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
        with recorded(device) as notes:
            tt_cnn.signpost("first")
            y = ttnn.relu(x)
            tt_cnn.signpost("second", "with a message")
            z = ttnn.matmul(y, y)
            ttnn.to_torch(z)
            tt_cnn.signpost("end")
        profile = profile_commands(notes, device, name="mine")
    finally:
        ttnn.close_device(device)
    assert [row.op for row in profile.rows] == ["Unary", "Matmul"]
    assert [(s.before_row, s.header, s.message) for s in profile.signposts] == [
        (0, "first", ""),
        (1, "second", "with a message"),
        (2, "end", ""),
    ]
    assert [row.signpost for row in profile.rows] == ["first", "second"]
    assert [t.direction for t in profile.transfers] == ["read"] and profile.transfers[0].bytes == 64 * 64 * 2
    assert profile.macs == 64**3 and profile.card == "n150" and profile.executor == "plain"
    assert profile.rows[1].inputs[0].buffer == profile.rows[0].outputs[0].buffer


def test_signposts_are_no_part_of_graphs_and_traces() -> None:
    device = ttnn.open_device(device_id=0)
    try:
        x = ttnn.from_torch(torch.ones(32, 32), ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
        ttnn.relu(x)
        ttnn.graph.begin_graph_capture(ttnn.graph.RunMode.NORMAL)
        tt_cnn.signpost("marked")
        ttnn.relu(x)
        graph = ttnn.graph.end_graph_capture()
        trace = ttnn.begin_trace_capture(device, cq_id=0)
        tt_cnn.signpost("marked")
        ttnn.relu(x)
        ttnn.end_trace_capture(device, trace, cq_id=0)
        assert [command.name for command in device.traces[int(trace)].commands] == ["ttnn.relu"]
    finally:
        ttnn.close_device(device)
    assert "signpost" not in str(graph) and "ttnn.relu" in str(graph)


def test_signposts_of_a_model_are_in_its_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    def called(self: TtUNet, x: object) -> object:
        tt_cnn.signpost("unet")
        return call(self, x)

    call = TtUNet.__call__
    monkeypatch.setattr(TtUNet, "__call__", called)
    profile = profile_model("vanilla_unet")
    assert [(s.header, s.before_row) for s in profile.signposts] == [("unet", 1)]  # behind the staging of the input
    assert [row.signpost for row in profile.rows[:3]] == ["", "unet", "unet"]


@pytest.mark.parametrize("card", ["n150", "p150"])
@pytest.mark.parametrize(
    ("name", "resolution"),
    [("vanilla_unet", None), ("resnet50", None), ("yolov4", (320, 320)), ("yolov4", (640, 640))],
)
def test_models_are_profiled_on_both_cards(
    name: str, resolution: tuple[int, int] | None, card: str, tmp_path: Path
) -> None:
    """With all that is written of it; how long it takes is for `benchmarks/profiles.py` to say."""
    profile = profile_model(name, card=card, resolution=resolution)
    write_folder(profile, tmp_path)
    assert profile.rows and profile.fps > 0 and (tmp_path / "report.html").stat().st_size > 10_000


def test_mistakes_are_told() -> None:
    with pytest.raises(ValueError, match="executor is 'fast'; it must be one of plain, trace"):
        profile_model("vanilla_unet", executor="fast")
    with pytest.raises(ValueError, match="the virtual cards are n150"):
        profile_model("vanilla_unet", card="n1")
    with pytest.raises(ValueError, match="resolution is"):
        profile_model("vanilla_unet", resolution=(7, 7))
    for header in ("", 3, None):
        with pytest.raises(ValueError, match="a signpost is marked with a text"):
            tt_cnn.signpost(header)  # type: ignore[arg-type]


def test_an_n300_has_a_batch_on_each_chip(profile_of: Callable[..., Profile]) -> None:
    """Published end to end for ResNet50, batch 16: 4700 fps on an n150, 9200 on an n300."""
    one, both = (profile_of("resnet50", card=card, batch_size=16) for card in ("n150", "n300"))
    assert (one.images, both.images) == (16, 32)
    assert both.device_ns == one.device_ns and both.device_fps == 2 * one.device_fps
    assert 1.8 < both.fps / one.fps < 2.0
    assert both.fps == pytest.approx(9200, rel=0.15)
    assert both.batch == "batch 16 on each of 2 chips"


@pytest.mark.parametrize(("card", "published"), [("t3000", 35_800), ("galaxy", 96_800)])
def test_machines_of_several_boards(card: str, published: float) -> None:
    """ResNet50, batch 16 on each chip, published end to end. On a Galaxy eight chips wait for one link."""
    assert profile_model("resnet50", card=card, batch_size=16).fps == pytest.approx(published, rel=0.15)
