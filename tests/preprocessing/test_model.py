# SPDX-License-Identifier: Apache-2.0
"""preprocess_model_parameters: defaults, folding, the user's own preprocessor, devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from tt_cnn import ttnn
from tt_cnn.preprocessing import (
    BatchNormNotFolded,
    ParameterList,
    convert_torch_model_to_ttnn_model,
    fold_batch_norm2d_into_conv2d,
    preprocess_conv_bias,
    preprocess_embedding_weight,
    preprocess_layernorm_parameter,
    preprocess_linear_bias,
    preprocess_linear_weight,
    preprocess_model_parameters,
)


class UNetPart(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder1 = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.Conv2d(8, 8, 1)
        )
        self.upconv = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.blocks = nn.ModuleList([nn.Linear(4, 6), nn.Sequential(nn.LayerNorm(6))])
        self.scale = nn.Parameter(torch.ones(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.upconv(self.encoder1(x)).mean((2, 3))
        for block in self.blocks:
            x = block(x)
        return x * self.scale


class Branching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.conv(x)) if x.sum() > 0 else x


@pytest.fixture
def model() -> UNetPart:
    torch.manual_seed(0)
    model = UNetPart()
    nn.init.uniform_(model.encoder1[1].weight)
    nn.init.uniform_(model.encoder1[1].bias)
    return model


def values(tensor: Any) -> torch.Tensor:
    return ttnn.to_torch(tensor).float()


def test_most_models_need_no_preprocessor_of_their_own(model: UNetPart) -> None:
    parameters = preprocess_model_parameters(initialize_model=lambda: model)
    assert not model.training
    weight, bias = fold_batch_norm2d_into_conv2d(model.encoder1[0], model.encoder1[1])  # type: ignore[arg-type]
    assert torch.equal(values(parameters["encoder1"][0]["weight"]), weight.bfloat16().float())
    assert torch.equal(values(parameters.encoder1[0].bias), bias.bfloat16().float().reshape(1, 1, 1, -1))
    assert list(parameters.encoder1) == [0, 3], "the batch norm went into the convolution"
    assert tuple(parameters.encoder1[3].bias.shape) == (1, 1, 1, 8)
    assert tuple(parameters.upconv.weight.shape) == (8, 4, 2, 2)
    assert tuple(parameters.upconv.bias.shape) == (1, 1, 1, 4)
    assert isinstance(parameters.blocks, ParameterList)
    assert torch.equal(values(parameters.blocks[0].weight), model.blocks[0].weight.T.bfloat16().float())
    assert parameters.blocks[0].weight.layout == ttnn.TILE_LAYOUT
    assert tuple(parameters.blocks[0].bias.shape) == (1, 6) == tuple(parameters.blocks[1][0].weight.shape)
    assert parameters.scale.layout == ttnn.ROW_MAJOR_LAYOUT
    assert parameters.scale.storage_type() == ttnn.StorageType.HOST


def test_without_folding_the_batch_norm_keeps_all_it_needs(model: UNetPart) -> None:
    parameters = preprocess_model_parameters(initialize_model=lambda: model, fold_batch_norm=False)
    assert list(parameters.encoder1[1]) == ["weight", "bias", "running_mean", "running_var"]
    assert torch.equal(values(parameters.encoder1[0].weight), model.encoder1[0].weight.bfloat16().float())


def test_dtype_and_layout_hold_for_all(model: UNetPart) -> None:
    parameters = preprocess_model_parameters(
        initialize_model=lambda: model, dtype=ttnn.float32, layout=ttnn.TILE_LAYOUT
    )
    for tensor in (parameters.scale, parameters.encoder1[0].weight, parameters.blocks[0].weight):
        assert tensor.dtype == ttnn.float32 and tensor.layout == ttnn.TILE_LAYOUT


def test_whole_numbers_keep_their_kind() -> None:
    class Table(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name, dtype in {"wide": torch.int64, "whole": torch.int32, "narrow": torch.int16}.items():
                self.register_parameter(name, nn.Parameter(torch.ones(4, dtype=dtype), requires_grad=False))
            self.fine = nn.Parameter(torch.ones(4, dtype=torch.float64))
            self.lookup = nn.Embedding(4, 8)

    parameters = preprocess_model_parameters(initialize_model=Table)
    found = {name: parameters[name].dtype for name in ("wide", "whole", "narrow", "fine")}
    assert found == {"wide": ttnn.uint32, "whole": ttnn.int32, "narrow": ttnn.uint16, "fine": ttnn.bfloat16}
    assert parameters.lookup.weight.layout == ttnn.ROW_MAJOR_LAYOUT
    strange = nn.Module()
    strange.register_parameter("x", nn.Parameter(torch.ones(2, dtype=torch.complex64)))
    with pytest.raises(TypeError, match=r"dtype torch\.complex64"):
        preprocess_model_parameters(initialize_model=lambda: strange)


def test_a_device_gets_all_tensors(model: UNetPart, card: Any) -> None:
    parameters = preprocess_model_parameters(initialize_model=lambda: model, device=card)
    for tensor in (parameters.scale, parameters.blocks[1][0].bias, parameters.encoder1[3].weight):
        assert ttnn.is_tensor_storage_on_device(tensor)


def test_a_mesh_mapper_replicates(model: UNetPart, open_card: Callable[..., Any]) -> None:
    mesh = ttnn.open_mesh_device(ttnn.MeshShape(1, 2))
    parameters = preprocess_model_parameters(
        initialize_model=lambda: model, mesh_mapper=ttnn.ReplicateTensorToMesh(mesh)
    )
    first, second = ttnn.get_device_tensors(parameters.encoder1[0].weight)
    assert torch.equal(values(first), values(second))
    ttnn.close_mesh_device(mesh)


# --- the user's own preprocessor ----------------------------------------------------------------------------------


def test_a_preprocessor_is_asked_about_every_module_and_may_answer(model: UNetPart) -> None:
    asked: list[str] = []

    def preprocessor(module: nn.Module, name: str, ttnn_module_args: Any, convert_to_ttnn: Any) -> dict[str, Any]:
        asked.append(name)
        assert ttnn_module_args is None and convert_to_ttnn(module, name)
        return {"conv": {0: {"weight": 1}}} if isinstance(module, nn.Sequential) and name == "net.encoder1" else {}

    parameters = preprocess_model_parameters(
        initialize_model=lambda: model, custom_preprocessor=preprocessor, prefix="net"
    )
    assert asked == ["net", "net.encoder1", "net.upconv", "net.blocks.0", "net.blocks.1", "net.blocks.1.0"]
    assert parameters.encoder1.conv[0].weight == 1


def test_with_a_preprocessor_folding_is_its_own_business(model: UNetPart) -> None:
    parameters = preprocess_model_parameters(
        initialize_model=lambda: model, custom_preprocessor=lambda model, name: None
    )
    assert 1 in parameters.encoder1
    folded = preprocess_model_parameters(
        initialize_model=lambda: model, custom_preprocessor=lambda model, name: None, fold_batch_norm=True
    )
    assert 1 not in folded.encoder1


def test_wrong_preprocessors_are_said() -> None:
    with pytest.raises(RuntimeError, match="Custom preprocessor must have at least two parameters: model and name"):
        preprocess_model_parameters(initialize_model=UNetPart, custom_preprocessor=lambda model: {})
    with pytest.raises(RuntimeError, match="Unsupported parameter: other"):
        preprocess_model_parameters(initialize_model=UNetPart, custom_preprocessor=lambda model, name, other: {})
    with pytest.raises(TypeError, match="initialize_model returned a str"):
        preprocess_model_parameters(initialize_model=lambda: "model")  # type: ignore[arg-type,return-value]


def test_modules_that_stay_torch(model: UNetPart) -> None:
    parameters = preprocess_model_parameters(
        initialize_model=lambda: model, convert_to_ttnn=lambda module, name: not name.startswith("blocks")
    )
    assert torch.equal(parameters.blocks[0].weight, model.blocks[0].weight.T)
    assert parameters.blocks[1][0].weight is model.blocks[1][0].weight
    assert isinstance(parameters.scale, ttnn.Tensor)


def test_a_part_of_a_model_can_be_converted_alone(model: UNetPart) -> None:
    part = convert_torch_model_to_ttnn_model(model.blocks, name="blocks")
    assert isinstance(part, ParameterList) and tuple(part[0].weight.shape) == (4, 6)


def test_where_tracing_fails_it_is_said() -> None:
    with pytest.warns(UserWarning, match=r"torch.fx could not trace everything \(the model: TraceError.*norm"):
        parameters = preprocess_model_parameters(initialize_model=Branching)
    assert "norm" in parameters
    with pytest.raises(BatchNormNotFolded, match="were not folded: norm"):
        preprocess_model_parameters(initialize_model=Branching, fold_batch_norm=True)


# --- single tensors -----------------------------------------------------------------------------------------------


def test_single_tensors() -> None:
    weight = preprocess_linear_weight(torch.randn(5, 3), dtype=ttnn.bfloat16)
    assert tuple(weight.shape) == (3, 5) and weight.layout == ttnn.TILE_LAYOUT
    assert tuple(preprocess_linear_bias(torch.randn(5), dtype=ttnn.bfloat8_b).shape) == (1, 5)
    assert tuple(preprocess_layernorm_parameter(torch.randn(5), dtype=ttnn.bfloat16).shape) == (1, 5)
    assert preprocess_embedding_weight(torch.randn(5, 4), dtype=ttnn.bfloat16).layout == ttnn.ROW_MAJOR_LAYOUT
    assert tuple(preprocess_conv_bias(torch.randn(5), dtype=ttnn.bfloat16).shape) == (1, 1, 1, 5)
