# SPDX-License-Identifier: Apache-2.0
"""Darknet's files, written here number by number."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
import torch
from torch import nn

from tt_cnn.models.yolov4.reference.model import YOLOv4
from tt_cnn.preprocessing.weights.darknet import darknet_layers, load_darknet, save_darknet


class Small(nn.Module):
    """Two convolutions: one with a batch norm, one with a bias."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 3, (1, 2), bias=False)
        self.norm = nn.BatchNorm2d(3)
        self.predict = nn.Conv2d(3, 2, 1)


NUMBERS = 4 * 3 + 3 * 2 * 2 + 2 + 2 * 3


def write(path: Path, count: int, version: tuple[int, int, int] = (0, 2, 5), seen: bytes = b"\x07" + 7 * b"\0") -> Path:
    path.write_bytes(struct.pack("<3i", *version) + seen + struct.pack(f"<{count}f", *range(count)))
    return path


@pytest.mark.parametrize(
    ("version", "seen"),
    [((0, 2, 5), bytes(8)), ((1, 0, 0), bytes(8)), ((0, 1, 0), bytes(4))],
    ids=["0.2", "1.0", "0.1"],
)
def test_numbers_go_where_darknet_means_them(tmp_path: Path, version: tuple[int, int, int], seen: bytes) -> None:
    model = Small()
    load_darknet(model, write(tmp_path / "w", NUMBERS, version, seen))
    ordered = [model.norm.bias, model.norm.weight, model.norm.running_mean, model.norm.running_var]
    ordered += [model.conv.weight, model.predict.bias, model.predict.weight]
    assert torch.cat([each.detach().flatten() for each in ordered if each is not None]).tolist() == list(range(NUMBERS))
    assert model.conv.weight[1, 1, 0].tolist() == [18, 19]


@pytest.mark.parametrize(
    ("count", "message"),
    [
        (NUMBERS - 1, "holds 31 numbers, but Small has 32: it ends within predict"),
        (20, "holds 20 numbers, but Small has 32: it ends within conv"),
        (NUMBERS + 1, "holds 33 numbers, but Small has 32: it is too long"),
    ],
)
def test_a_length_that_does_not_come_out_even(tmp_path: Path, count: int, message: str) -> None:
    model = Small()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(ValueError, match=message):
        load_darknet(model, write(tmp_path / "w", count))
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_a_file_cut_within_a_number(tmp_path: Path) -> None:
    path = write(tmp_path / "w", NUMBERS)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"holds 31.75 numbers"):
        load_darknet(Small(), path)


def test_what_is_no_file_of_darknet(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"version would be 2000.0"):
        load_darknet(Small(), write(tmp_path / "w", NUMBERS, (2000, 0, 0)))
    (tmp_path / "short").write_bytes(b"\0" * 10)
    with pytest.raises(ValueError, match="too short"):
        load_darknet(Small(), tmp_path / "short")


@pytest.mark.parametrize(
    "layers",
    [[nn.BatchNorm2d(3)], [nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3)], [nn.Conv2d(3, 3, 1, bias=False)]],
    ids=["norm first", "both", "neither"],
)
def test_models_that_darknet_cannot_describe(layers: list[nn.Module]) -> None:
    with pytest.raises(ValueError, match="darknet"):
        darknet_layers(nn.Sequential(*layers))


def stage(channels: int, half: int, blocks: int) -> list[tuple[int, int, int]]:
    """A stage of the paper's backbone: (filters, kernel, stride) of its convolutions."""
    return [
        (channels, 3, 2),
        (half, 1, 1),
        (half, 1, 1),
        *[(half, 1, 1), (half, 3, 1)] * blocks,
        (half, 1, 1),
        (channels, 1, 1),
    ]


def path_of(channels: int, pairs: int) -> list[tuple[int, int, int]]:
    """Narrow, wide, narrow, wide, ..., narrow."""
    return [(channels, 1, 1), *[(2 * channels, 3, 1), (channels, 1, 1)] * pairs]


YOLOV4_CONVOLUTIONS = [
    *[(32, 3, 1), (64, 3, 2), (64, 1, 1), (64, 1, 1), (32, 1, 1), (64, 3, 1), (64, 1, 1), (64, 1, 1)],
    *stage(128, 64, 2),
    *stage(256, 128, 8),
    *stage(512, 256, 8),
    *stage(1024, 512, 4),
    *path_of(512, 1),
    *path_of(512, 1),
    *[(256, 1, 1), (256, 1, 1)],
    *path_of(256, 2),
    *[(128, 1, 1), (128, 1, 1)],
    *path_of(128, 2),
    *[(256, 3, 1), (255, 1, 1), (256, 3, 2)],
    *path_of(256, 2),
    *[(512, 3, 1), (255, 1, 1), (512, 3, 2)],
    *path_of(512, 2),
    *[(1024, 3, 1), (255, 1, 1)],
]
"""(filters, kernel, stride) of yolov4.cfg, from its first layer to its last."""


def test_yolov4_defines_its_layers_in_darknets_order() -> None:
    with torch.device("meta"):
        layers = darknet_layers(YOLOv4())
    found = [(each.conv.out_channels, each.conv.kernel_size[0], each.conv.stride[0]) for each in layers]
    assert found == YOLOV4_CONVOLUTIONS
    assert len(layers) == 110
    assert [each.norm is None for each in layers] == [filters == 255 for filters, _, _ in YOLOV4_CONVOLUTIONS]
    length = 20 + 4 * sum(tensor.numel() for layer in layers for tensor in layer.tensors())
    assert length == 257_717_640  # bytes of the public yolov4.weights


def test_a_yolov4_comes_back_from_its_file(tmp_path: Path) -> None:
    torch.manual_seed(0)
    original, other = (YOLOv4(classes=2, width=1 / 16).eval() for _ in range(2))
    for norm in (each for each in original.modules() if isinstance(each, nn.BatchNorm2d)):
        nn.init.uniform_(norm.running_mean)
        nn.init.uniform_(norm.running_var, 0.5, 2)
    save_darknet(original, tmp_path / "yolov4.weights", seen=12)
    load_darknet(other, tmp_path / "yolov4.weights")
    picture = torch.rand(1, 3, 64, 64)
    for one, two in zip(original(picture), other(picture), strict=True):
        assert torch.equal(one, two)
    with pytest.raises(FileExistsError):
        save_darknet(original, tmp_path / "yolov4.weights")
    with pytest.raises(ValueError, match="too long"):
        load_darknet(YOLOv4(classes=1, width=1 / 16), tmp_path / "yolov4.weights")
