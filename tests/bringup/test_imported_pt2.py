# SPDX-License-Identifier: Apache-2.0
"""Exported programs: the module that is read from one is the module that was exported, by names, numbers and code."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.bringup import small_nets
from tests.bringup.files import code_of, imported, outputs_of, save_pt2
from tests.bringup.random_models import RandomModel
from tt_cnn.bringup.imported.archive import Archive
from tt_cnn.bringup.imported.graph import ImportedGraph, Unreadable
from tt_cnn.bringup.imported.modules import make_module
from tt_cnn.bringup.imported.pt2 import read_pt2
from tt_cnn.bringup.imported.source import load_reference, read_graph
from tt_cnn.zoo import architecture

IMAGE = (1, 3, 32, 32)
OF_ZOO = [
    *("squeezenet1_1", "mobilenet_v2", "resnet18", "googlenet", "shufflenet_v2_x0_5", "ghostnet", "deit_tiny"),
    *("convnext_tiny", "unet", "mobilevit_s", "yolov5s", "swin_tiny"),
]


def both(model: nn.Module, inputs: list[torch.Tensor], file: Path) -> nn.Module:
    """The imported module, which gives the same."""
    made = imported(save_pt2(model, inputs, file))
    for mine, theirs in zip(outputs_of(made, inputs), outputs_of(model, inputs), strict=True):
        assert torch.equal(mine, theirs)
    return made


@pytest.mark.parametrize(
    ("kind", "shapes"),
    [
        (small_nets.SmallResNet, [IMAGE]),
        (small_nets.SmallUNet, [IMAGE]),
        (small_nets.TwoInputs, [IMAGE, (1, 8)]),
    ],
)
def test_names_numbers_and_code_are_the_modules(kind: Any, shapes: list[Any], tmp_path: Path) -> None:
    model, inputs = kind().eval(), [torch.randn(shape) for shape in shapes]
    made = both(model, inputs, tmp_path / "net.pt2")
    assert set(made.state_dict()) == set(model.state_dict())
    assert code_of(made, inputs) == code_of(model, inputs)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if i < 3 else pytest.mark.long) for i, n in enumerate(OF_ZOO)]
)
def test_architectures_give_the_same_code(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, inputs = architecture(name).factory().eval(), [architecture(name).example_input()]
    made = both(model, inputs, tmp_path / "net.pt2")
    assert code_of(made, inputs) == code_of(model, inputs)


@pytest.mark.parametrize("seed", range(12))
def test_random_models(seed: int, tmp_path: Path) -> None:
    both(RandomModel(seed).eval(), [torch.randn(2, 32, 8, 8)], tmp_path / "net.pt2")


def test_the_stored_graph_and_weights_are_the_model(tmp_path: Path) -> None:
    model, x = small_nets.SmallResNet().eval(), torch.randn(IMAGE)
    graph = read_graph(save_pt2(model, [x], tmp_path / "net.pt2"), [])
    (tmp_path / "graph.json").write_text(graph.to_json())
    from safetensors.torch import save_file

    save_file({name: value.clone() for name, value in model.state_dict().items()}, tmp_path / "weights.safetensors")
    again = load_reference(tmp_path / "graph.json", tmp_path / "weights.safetensors")
    assert torch.equal(again(x), model(x))
    assert ImportedGraph.from_json(graph.to_json()).to_json() == graph.to_json()


class Shared(nn.Module):
    """A layer called twice, a parameter under two names, an input that nothing reads, a dictionary as output."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)
        self.head = nn.Sequential(nn.Conv2d(3, 8, 1), nn.ReLU(inplace=True))
        self.tied = nn.Conv2d(3, 3, 3, padding=1)
        self.tied.weight = self.conv.weight
        self.register_buffer("scale", torch.tensor([1.0, 2.0, 3.0]).view(1, 3, 1, 1))

    def forward(self, x: torch.Tensor, unused: torch.Tensor) -> dict[str, torch.Tensor]:
        y = self.conv(self.conv(x)) * self.scale + torch.ones(3, 1, 1)
        small = nn.functional.avg_pool2d(y, 2)
        return {"far": self.head(y).flatten(1), "near": self.head(small).reshape(1, -1), "tied": self.tied(x)}


def test_shared_layers_and_weights_unused_inputs_and_dictionaries(tmp_path: Path) -> None:
    inputs = [torch.randn(IMAGE), torch.randn(1, 4)]
    made = both(Shared().eval(), inputs, tmp_path / "net.pt2")
    assert list(made(*inputs)) == ["far", "near", "tied"]
    assert made.get_parameter("conv.weight") is made.get_parameter("tied.weight")
    assert isinstance(made.get_submodule("conv"), nn.Conv2d)


def test_open_sizes_are_asked_for(tmp_path: Path) -> None:
    batch = torch.export.Dim("batch", min=1, max=16)
    model, x = small_nets.SmallResNet().eval(), torch.randn(2, 3, 32, 32)
    file = save_pt2(model, [x], tmp_path / "net.pt2", dynamic_shapes=({0: batch},))
    with pytest.raises(Unreadable, match=r"x \?x3x32x32.*--input Nx3x32x32"):
        imported(file)
    assert torch.equal(imported(file, (4, 3, 32, 32))(x), model(x))
    with pytest.raises(Unreadable, match=r"takes x \?x3x32x32, and --input 1x3x64x64 was given"):
        imported(file, (1, 3, 64, 64))


def test_half_precision_becomes_float32(tmp_path: Path) -> None:
    model, x = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()).eval(), torch.randn(IMAGE)
    made = imported(save_pt2(model.bfloat16(), [x.bfloat16()], tmp_path / "net.pt2"))
    assert {value.dtype for value in made.state_dict().values()} == {torch.float32}
    assert torch.allclose(made(x), model.float()(x))


# -- files that are not what they seem


class Trap:
    """Says so when it is unpickled."""

    def __reduce__(self) -> Any:
        return (exec, ("raise SystemExit('unpickled')",))


def changed(file: Path, change: Callable[[str, bytes], bytes | None], more: dict[str, bytes] | None = None) -> Path:
    """Another archive whose records are what `change` gives for them; None leaves one out."""
    target = file.with_name("changed.pt2")
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            content = change(name, old.read(name))
            if content is not None:
                new.writestr(name, content)
        for name, content in (more or {}).items():
            new.writestr(f"{old.namelist()[0].partition('/')[0]}/{name}", content)
    return target


def edited(file: Path, edit: Callable[[Any], None], record: str = "models/model.json") -> Path:
    def change(name: str, content: bytes) -> bytes:
        if not name.endswith(record):
            return content
        data = json.loads(content)
        edit(data)
        return json.dumps(data).encode()

    return changed(file, change)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.GELU(approximate="tanh"))
    return save_pt2(model, [torch.randn(IMAGE)], tmp_path_factory.mktemp("pt2") / "net.pt2")


def test_nothing_is_unpickled(file: Path) -> None:
    trap = pickle.dumps(Trap())
    spoilt = changed(file, lambda name, content: trap if "sample_inputs" in name else content)
    assert read_pt2(spoilt).steps  # sample inputs are not read at all

    def pickled(config: Any) -> None:
        config["config"]["0.weight"]["use_pickle"] = True

    with_flag = edited(file, pickled, "model_weights_config.json")
    trapped = changed(with_flag.rename(file.with_name("flag.pt2")), lambda n, c: trap if n.endswith("weight_0") else c)
    with pytest.raises(Unreadable, match="not unpickled"):
        read_pt2(trapped)


def test_compiled_libraries_are_not_loaded(file: Path) -> None:
    library = {"data/aotinductor/model/library.so": b"\x7fELF"}
    spoilt = changed(file, lambda name, content: None if "models/" in name else content, library)
    with pytest.raises(Unreadable, match="not executed"):
        read_pt2(spoilt)


@pytest.mark.parametrize(
    "target",
    [
        "torch.ops.aten.from_file.default",
        "torch.ops.aten.save.default",
        "torch.hub.load",
        "os.system",
        "torch.ops.aten.__class__.mro",
        "torch.ops.mine.thing.default",
        "_operator.attrgetter",
        "builtins.eval",
    ],
)
def test_other_functions_are_refused_by_name(file: Path, target: str) -> None:
    def edit(data: Any) -> None:
        data["graph_module"]["graph"]["nodes"][1]["target"] = target

    with pytest.raises(Unreadable, match="cannot be taken from a file") as refused:
        read_pt2(edited(file, edit))
    assert target.removeprefix("torch.ops.").removeprefix("_") in str(refused.value)


def test_names_cannot_become_code(file: Path) -> None:
    evil = 'x");__import__("os").system("touch /tmp/owned");("'

    def edit(data: Any) -> None:
        for node in data["graph_module"]["graph"]["nodes"]:
            node["metadata"]["nn_module_stack"] = f"L__self__,,a.{evil};L__self__0,{evil},b.{evil}"

    graph = read_pt2(edited(file, edit))
    code = code_of(make_module(graph), [torch.zeros(IMAGE)])
    assert "__import__(" not in code and "system(" not in code

    def words(data: Any) -> None:
        data["graph_module"]["graph"]["nodes"][1]["inputs"][-1]["arg"] = {"as_string": evil}

    with pytest.raises(Unreadable, match="no op of torch takes"):
        read_pt2(edited(file, words))


@pytest.mark.parametrize("size", [0, 10, 1000, -100])
def test_truncated_files(file: Path, size: int, tmp_path: Path) -> None:
    short = tmp_path / "short.pt2"
    short.write_bytes(file.read_bytes()[:size])
    with pytest.raises(Unreadable, match=r"not a whole one|no exported program"):
        read_pt2(short)


def test_weights_that_lack_bytes_and_records_that_lack(file: Path) -> None:
    short = changed(file, lambda name, content: content[:8] if name.endswith("weight_0") else content)
    with pytest.raises(Unreadable, match="8 bytes; its shape"):
        read_pt2(short)
    missing = changed(file, lambda name, content: None if name.endswith("weight_0") else content)
    with pytest.raises(Unreadable, match="has no data/weights/weight_0"):
        read_pt2(missing)
    broken = changed(file, lambda name, content: b"{" if name.endswith("model.json") else content)
    with pytest.raises(Unreadable, match="no JSON"):
        read_pt2(broken)


def test_spoilt_graphs_and_lists_of_weights(file: Path) -> None:
    def unknown(data: Any) -> None:
        data["graph_module"]["graph"]["nodes"][1]["inputs"][0]["arg"]["as_tensor"]["name"] = "nowhere"

    with pytest.raises(Unreadable, match="reads 'nowhere', which nothing gives"):
        imported(edited(file, unknown))

    def negative(data: Any) -> None:
        data["config"]["0.weight"]["tensor_meta"]["sizes"][0]["as_int"] = -4

    with pytest.raises(Unreadable, match="its shape"):
        imported(edited(file, negative, "model_weights_config.json"))

    def emptied(data: Any) -> None:
        data["config"]["0.weight"] = []

    with pytest.raises(Unreadable, match="not as torch writes it"):
        imported(edited(file, emptied, "model_weights_config.json"))


def test_other_versions_and_other_files(file: Path, tmp_path: Path) -> None:
    def edit(data: Any) -> None:
        data["schema_version"]["major"] = 7

    with pytest.raises(Unreadable, match="has version 7 of torch's schema"):
        read_pt2(edited(file, edit))
    other = tmp_path / "other.pt2"
    buffer = io.BytesIO()
    torch.save({"weight": torch.zeros(3)}, buffer)
    other.write_bytes(buffer.getvalue())
    with pytest.raises(Unreadable, match="no exported program"):
        read_pt2(other)
    with pytest.raises(Unreadable, match=r"no \.pt2 file"), Archive(tmp_path / "nothing.pt2"):
        pass
