# SPDX-License-Identifier: Apache-2.0
"""compare_layers: where a model starts to differ."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from tt_cnn import ttnn
from tt_cnn.builder import Conv2dConfiguration, TtConv2d
from tt_cnn.preprocessing import infer_ttnn_module_args, preprocess_model_parameters
from tt_cnn.testing import compare_layers


class Reference(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True))
        self.body = nn.ModuleList([nn.Conv2d(8, 8, 1), nn.Conv2d(8, 8, 1)])
        self.head = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for layer in self.body:
            x = layer(x)
        return self.head(x.mean((2, 3)))


class Layer:
    """A layer of a TT model on rows of pixels, with an error where one is asked for."""

    def __init__(self, module: nn.Conv2d, error: float = 0.0) -> None:
        self.module, self.error = module, error
        self.name = "layer"

    def __call__(self, rows: Any) -> Any:
        image = ttnn.to_torch(rows).float().reshape(2, 4, 4, -1).permute(0, 3, 1, 2)
        result = self.module(image).detach()
        result = result + self.error * torch.randn(result.shape)
        return ttnn.from_torch(result.permute(0, 2, 3, 1).reshape(1, 1, 32, -1), dtype=ttnn.float32)


class Model:
    def __init__(self, reference: Reference, error: float = 0.0) -> None:
        self.stem = [Layer(nn.Sequential(*reference.stem[:2]))]  # type: ignore[arg-type]
        self.body = {0: Layer(reference.body[0], error), "1": Layer(reference.body[1])}  # type: ignore[arg-type]
        self.reference = reference

    def head(self, rows: Any) -> tuple[Any, str]:
        pooled = torch.relu(ttnn.to_torch(rows)).reshape(2, 16, 8).mean(1)
        return ttnn.from_torch(self.reference.head(pooled).detach().reshape(1, 1, 2, 4)), "extra"

    def __call__(self, rows: Any) -> Any:
        rows = self.stem[0](rows)
        assert self.body[0].name == "layer", "a layer that is listened to has its attributes"
        rows = ttnn.from_torch(torch.relu(ttnn.to_torch(rows)))
        return self.head(self.body["1"](self.body[0](rows)))[0]


@pytest.fixture
def reference() -> Reference:
    torch.manual_seed(0)
    return Reference().eval()


@pytest.fixture
def image() -> torch.Tensor:
    return torch.randn(2, 3, 4, 4)


def rows(image: torch.Tensor) -> Any:
    return ttnn.from_torch(image.permute(0, 2, 3, 1).reshape(1, 1, 32, 3).contiguous())


def test_a_model_whose_layers_have_torchs_names(reference: Reference, image: torch.Tensor) -> None:
    model = Model(reference)
    layers = dict(model.body)
    report = compare_layers(reference, model, image, rows(image))
    assert [(each.name, each.torch_name) for each in report.layers] == [
        ("stem.0", "stem.1"),
        ("body.0", "body.0"),
        ("body.1", "body.1"),
        ("head", "head"),
    ]
    assert all(each.pcc > 0.9999 for each in report.layers[:3])
    assert model.body == layers and isinstance(model.stem[0], Layer), "the layers are back in their places"


def test_the_first_layer_under_the_threshold_is_marked(reference: Reference, image: torch.Tensor) -> None:
    report = compare_layers(reference, Model(reference, error=2.0), image, rows(image), threshold=0.999)
    assert report.first_below is not None and report.first_below.name == "body.0" and not report.passed
    assert report.first_below.max_error > 1
    text = str(report).splitlines()
    assert text[1].split()[:2] == ["stem.0", "stem.1"]
    assert text[2].startswith("►  body.0") and text[3].startswith("!  body.1")
    assert text[-1] == "► body.0 is the first module under PCC 0.999"


def test_outputs_by_name(reference: Reference, image: torch.Tensor) -> None:
    with torch.no_grad():
        stem = reference.stem(image)
    padded = torch.nn.functional.pad(stem.permute(0, 2, 3, 1), (0, 8))
    outputs = {
        "stem.2": ttnn.from_torch(padded.reshape(1, 1, 32, 16)),
        "stem": stem.reshape(2, 1, 8, 16),
        "head": reference(image).reshape(1, 1, 2, 4),
    }
    report = compare_layers(reference, outputs, image)
    assert report.passed and [each.name for each in report.layers] == ["stem.2", "stem", "head"]
    assert str(report).endswith("all 3 modules reach PCC 0.99")


def test_a_model_that_names_its_outputs(reference: Reference, image: torch.Tensor) -> None:
    class Named:
        def named_outputs(self, given: Any) -> dict[str, Any]:
            assert given is image
            return {"activation": torch.relu(reference.stem[1](reference.stem[0](given)))}

    report = compare_layers(reference, Named(), (image,), image, names={"activation": "stem.2"})
    assert report.passed and report.layers[0].torch_name == "stem.2"
    assert str(report).endswith("the only module reaches PCC 0.99")


def test_wrong_shapes_and_numbers_are_noted(reference: Reference, image: torch.Tensor) -> None:
    nan = reference.stem(image).detach().clone()
    nan[0, 0, 0, 0] = torch.nan
    report = compare_layers(reference, {"stem": nan, "body.0": torch.ones(3), "head": torch.ones(2, 5)}, image)
    assert [each.note for each in report.layers] == [
        "has NaN or infinity",
        "shape (3,), torch has (2, 8, 4, 4)",
        "shape (2, 5), torch has (2, 4)",
    ]
    assert not any(each.passed for each in report.layers)


def test_a_model_of_two_inputs() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.add = nn.Bilinear(2, 2, 2)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return self.add(x, y)

    class OnTheCard:
        def __init__(self, model: Two) -> None:
            self.parts = (model.add.forward,)
            self.sum = model.add.forward

        def __call__(self, x: Any, y: Any) -> Any:
            return self.sum(x, y)

    model = Two().train()
    arguments = (torch.randn(3, 2), torch.randn(3, 2))
    report = compare_layers(model, OnTheCard(model), arguments, names={"sum": "add"})
    assert report.passed and report.layers[0].name == "sum"
    assert model.training, "the mode is as before"
    with pytest.raises(ValueError, match=r"names has parts\.0"):  # a function in a tuple cannot be listened to
        compare_layers(model, OnTheCard(model), arguments, names={"parts.0": "add"})


def test_a_model_on_the_card_from_its_torch_model_alone(card: Any) -> None:
    """Parameters, arguments, layers, comparison: a bring-up in four steps."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(16, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 16, 1)
    ).eval()
    image = torch.randn(1, 16, 16, 16).bfloat16().float()
    parameters = preprocess_model_parameters(initialize_model=lambda: model)
    arguments = infer_ttnn_module_args(model=model, run_model=lambda m: m(image), device=None)

    class OnTheCard:
        def __init__(self) -> None:
            self.layers = {name: self.layer(name) for name in (0, 3)}

        def layer(self, name: int) -> TtConv2d:
            weights = {"weights": parameters[name].weight, "bias": parameters[name].bias}
            activation = ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU) if name == 0 else None
            configuration = Conv2dConfiguration.from_model_args(arguments[name], **weights, activation=activation)
            return TtConv2d(configuration, card)

        def __call__(self, x: Any) -> Any:
            return self.layers[3](self.layers[0](x))

    given = ttnn.from_torch(image.permute(0, 2, 3, 1).contiguous(), dtype=ttnn.bfloat16)
    names = {"layers.0": "2", "layers.3": "3"}
    report = compare_layers(model, OnTheCard(), image, given, threshold=0.99, names=names)
    assert report.passed and [each.torch_name for each in report.layers] == ["2", "3"], str(report)
    without_relu = compare_layers(model, OnTheCard(), image, given, threshold=0.99, names={**names, "layers.0": "1"})
    assert without_relu.first_below is not None and without_relu.first_below.name == "layers.0"


class Blocks(nn.Module):
    """Stages whose names say nothing of where the TT model keeps them."""

    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.ModuleDict({f"s{i}": nn.ModuleDict({"a": _conv(), "b": _conv()}) for i in range(3)})
        self.last = _conv()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for stage in self.stages.values():
            x = stage["b"](stage["a"](x)) + x  # type: ignore[index]
        return self.last(x)


def _conv() -> nn.Conv2d:
    return nn.Conv2d(16, 16, 1)


class TtBlock:
    def __init__(self, stage: Any, card: Any, name: str) -> None:
        self.parts = tuple(
            TtConv2d(Conv2dConfiguration.from_torch(stage[key], 16, 16, 1), card, name=f"{name}.{key}") for key in "ab"
        )

    def __call__(self, x: Any) -> Any:
        y = x
        for part in self.parts:
            y = part(y)
        return ttnn.add(ttnn.to_memory_config(x, ttnn.DRAM_MEMORY_CONFIG), y, memory_config=ttnn.DRAM_MEMORY_CONFIG)


class TtBlocks:
    """Blocks in a list and in a dictionary in it, layers in tuples: no attribute has torch's names."""

    def __init__(self, reference: Blocks, card: Any) -> None:
        made = [TtBlock(stage, card, f"stages.{name}") for name, stage in reference.stages.items()]
        self.steps: list[Any] = [made[0], {"others": (made[1], [made[2]])}]
        self.reference = reference
        self.end = TtConv2d(Conv2dConfiguration.from_torch(reference.last, 16, 16, 1), card, name="last")
        self.again = self  # a cycle

    def __call__(self, x: Any) -> Any:
        first, rest = self.steps
        second, (third,) = rest["others"]
        return self.end(third(second(first(x))))


def test_layers_are_found_by_their_own_names(card: Any) -> None:
    torch.manual_seed(0)
    reference = Blocks().eval()
    image = torch.randn(1, 16, 16, 16).bfloat16().float()
    model = TtBlocks(reference, card)

    def given() -> Any:
        rows = image.permute(0, 2, 3, 1).reshape(1, 1, 256, 16)
        return ttnn.from_torch(rows, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=card)

    report = compare_layers(reference, model, image, given())
    expected = [*(f"stages.s{i}.{key}" for i in range(3) for key in "ab"), "last"]
    assert [each.name for each in report.layers] == expected and report.passed, str(report)
    assert all(type(part) is TtConv2d for part in model.steps[0].parts) and type(model.end) is TtConv2d
    with torch.no_grad():
        reference.stages["s1"]["b"].weight.add_(1.0)  # type: ignore[index, union-attr, operator]
    wrong = compare_layers(reference, model, image, given())
    assert wrong.first_below is not None and wrong.first_below.name == "stages.s1.b"


def test_the_layers_are_as_before_when_the_model_fails(card: Any) -> None:
    reference = Blocks().eval()
    model = TtBlocks(reference, card)
    with pytest.raises(ValueError, match=r"must be a ttnn\.Tensor"):
        compare_layers(reference, model, torch.zeros(1, 16, 16, 16), "no tensor")
    assert type(model.end) is TtConv2d and type(model.steps[0].parts[0]) is TtConv2d


def test_wrong_use_is_said(reference: Reference, image: torch.Tensor) -> None:
    with pytest.raises(TypeError, match="tt_model is a int"):
        compare_layers(reference, 3, image)
    with pytest.raises(ValueError, match=r"no module in common; match them with names=.*stem\.0"):
        compare_layers(reference, {"other": torch.ones(1)}, image)
    with pytest.raises(ValueError, match="torch ran no module of that name"):
        compare_layers(reference, {}, image, names={"a": "nothing"})
    with pytest.raises(ValueError, match="names has a, which the TT model has no output for"):
        compare_layers(reference, {}, image, names={"a": "stem"})
