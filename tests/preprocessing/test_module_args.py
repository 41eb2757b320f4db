# SPDX-License-Identifier: Apache-2.0
"""Arguments of layers, from one run of the model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.preprocessing import traced_models
from tt_cnn import ttnn
from tt_cnn.preprocessing import (
    AdaptiveAvgPool2dArgs,
    AvgPool2dArgs,
    Conv2dArgs,
    ConvTranspose2dArgs,
    GroupNormArgs,
    LinearArgs,
    MaxPool2dArgs,
    UpsampleArgs,
    infer_layer_arguments,
    infer_ttnn_module_args,
)
from tt_cnn.preprocessing.torch_tracer import trace


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder1 = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False), nn.ReLU())
        self.norm = nn.GroupNorm(2, 8)
        self.pool = nn.MaxPool2d(2, ceil_mode=True)
        self.average = nn.AvgPool2d(2, padding=1)
        self.blocks = nn.ModuleList([nn.Conv2d(8, 8, 1), nn.Conv2d(8, 8, 1, groups=2)])
        self.up = nn.Upsample(scale_factor=2, mode="bilinear")
        self.transposed = nn.ConvTranspose2d(8, 4, 2, stride=2, output_padding=1)
        self.mean = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(4, 10)
        self.unused = nn.Conv2d(1, 1, 1)

    def forward(self, x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        x = self.average(self.pool(self.norm(self.encoder1(x)) * scale))
        for block in self.blocks:
            x = block(input=x)
        x = self.mean(self.transposed(self.up(x)))
        return self.head(x.flatten(1))


@pytest.fixture(scope="module")
def arguments() -> Any:
    return infer_ttnn_module_args(model=Net(), run_model=lambda m: m(torch.randn(2, 3, 33, 20)), device="card")


def test_a_convolution_has_all_arguments_of_ttnn(arguments: Any) -> None:
    assert arguments.encoder1[0] is arguments.encoder1["0"] and isinstance(arguments.encoder1[0], Conv2dArgs)
    assert arguments.encoder1[0] == {
        "in_channels": 3,
        "out_channels": 8,
        "kernel_size": (3, 3),
        "stride": (2, 2),
        "padding": (1, 1),
        "dilation": (1, 1),
        "groups": 1,
        "padding_mode": "zeros",
        "batch_size": 2,
        "input_height": 33,
        "input_width": 20,
        "math_fidelity": ttnn.MathFidelity.HiFi4,
        "dtype": ttnn.bfloat16,
        "weights_dtype": ttnn.bfloat16,
        "use_1d_systolic_array": True,
        "enable_auto_formatting": False,
        "conv_blocking_and_parallelization_config_override": {},
        "device": "card",
    }


def test_the_other_layers(arguments: Any) -> None:
    kinds = {
        "norm": (GroupNormArgs, {"num_groups": 2, "num_channels": 8, "input_height": 17, "input_width": 10}),
        "pool": (MaxPool2dArgs, {"kernel_size": 2, "stride": 2, "input_channels": 8, "ceil_mode": True}),
        "average": (AvgPool2dArgs, {"kernel_size": 2, "padding": 1, "input_height": 9, "input_width": 5}),
        "up": (UpsampleArgs, {"scale_factor": 2.0, "mode": "bilinear", "input_height": 5, "input_width": 3}),
        "transposed": (ConvTranspose2dArgs, {"output_padding": (1, 1), "input_height": 10, "out_channels": 4}),
        "mean": (AdaptiveAvgPool2dArgs, {"output_size": 1, "input_channels": 4}),
        "head": (LinearArgs, {"in_features": 4, "out_features": 10, "input_shape": (2, 4)}),
    }
    for name, (kind, some) in kinds.items():
        assert type(arguments[name]) is kind
        assert {key: arguments[name][key] for key in some} == some, name


def test_members_of_a_module_list_are_entries_of_the_module_that_calls_them(arguments: Any) -> None:
    assert arguments[1].groups == 2 and arguments[1] is arguments["1"]
    assert "blocks" not in arguments


ANSWERS = json.loads((Path(__file__).parent / "module_args.json").read_text())


@pytest.mark.parametrize("case", ANSWERS)
def test_the_answers_of_ttnn(case: str) -> None:
    build, run = traced_models.CASES[case]
    found = infer_ttnn_module_args(model=build().eval(), run_model=run, device=None)
    assert json.loads(json.dumps(traced_models.plain(found))) == ANSWERS[case]


def test_every_case_has_an_answer() -> None:
    assert list(ANSWERS) == list(traced_models.CASES)


def test_layers_by_their_names_in_the_model() -> None:
    found = infer_layer_arguments(
        model=traced_models.Heads(),
        run_model=lambda m: m([torch.ones(1, 4, 8, 8), torch.ones(1, 4, 4, 4)]),
        device=None,
    )
    assert list(found) == [
        f"{part}.{layer}" for i in (0, 1) for part in (f"cv2.{i}", f"cv3.{i}") for layer in ("0.conv", "1")
    ]
    assert (found["cv2.0.1"].out_channels, found["cv3.0.1"].out_channels, found["cv3.1.1"].input_height) == (8, 3, 4)


def test_what_does_not_run_has_no_arguments(arguments: Any) -> None:
    assert "unused" not in arguments and arguments.encoder1[1] == {}


def test_a_model_that_is_a_layer_gives_its_arguments() -> None:
    found = infer_ttnn_module_args(model=nn.Conv2d(4, 4, 1), run_model=lambda m: m(torch.randn(4, 5, 6)), device=None)
    assert isinstance(found, Conv2dArgs) and (found.batch_size, found.input_height, found.input_width) == (1, 5, 6)


@pytest.mark.parametrize(
    ("padding", "kernel", "expected"),
    [("same", 3, (1, 1)), ("same", (2, 5), (0, 1, 2, 2)), ("valid", 3, (0, 0))],
)
def test_paddings_in_words_become_numbers(padding: str, kernel: Any, expected: tuple[int, ...]) -> None:
    layer = nn.Conv2d(1, 1, kernel, padding=padding)
    found = infer_ttnn_module_args(model=layer, run_model=lambda m: m(torch.randn(1, 1, 8, 8)), device=None)
    assert found.padding == expected


def test_without_a_run_there_is_nothing() -> None:
    assert infer_ttnn_module_args(model=Net(), run_model=None, device=None) is None
    with pytest.raises(ValueError, match="run_model did not call the model"):
        infer_ttnn_module_args(model=Net(), run_model=lambda m: None, device=None)


def test_nothing_stays_behind() -> None:
    model, called = Net(), nn.Module.__call__
    with pytest.raises(RuntimeError):
        infer_ttnn_module_args(model=model, run_model=lambda m: m(torch.randn(1, 7, 8, 8)), device=None)
    assert not any(module._forward_pre_hooks for module in model.modules())
    assert nn.Module.__call__ is called


def test_traces_do_not_nest() -> None:
    with trace() as calls:
        nn.ReLU()(torch.zeros(2))
        with pytest.raises(RuntimeError, match="Cannot nest trace calls"), trace():
            pass
        nn.GELU()(torch.zeros(3))
    assert [(type(call.module), call.shape) for call in calls] == [(nn.ReLU, (2,)), (nn.GELU, (3,))]
