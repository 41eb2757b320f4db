# SPDX-License-Identifier: Apache-2.0
"""ONNX files: numbers beside ONNX's reference and torch, names, code, and files that are not what they seem."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tests.bringup import small_nets
from tests.bringup.files import code_of, imported, layers_of, outputs_of, save_onnx
from tests.bringup.random_models import RandomModel
from tt_cnn.bringup.imported import onnx_file
from tt_cnn.bringup.imported.graph import Unreadable
from tt_cnn.zoo import architecture

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

IMAGE = (1, 3, 32, 32)
OF_ZOO = [
    *("squeezenet1_1", "mobilenet_v2", "resnet18", "googlenet", "fsrcnn_x3", "pose_resnet50", "mobilenet_v3_small"),
    *("deit_tiny", "yolov3_tiny", "unet", "vgg11_bn"),
]


def model_of(
    nodes: Sequence[Any],
    inputs: dict[str, Sequence[int | str | None]],
    outputs: Sequence[str],
    held: dict[str, np.ndarray] | None = None,
    opset: int = 17,
    **more: Any,
) -> Any:
    """A model whose outputs have shapes that the shape inference finds."""
    graph = helper.make_graph(
        list(nodes),
        "main_graph",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(value, name) for name, value in (held or {}).items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8, **more)
    made.opset_import.extend(helper.make_opsetid(node.domain, 1) for node in nodes if node.domain)
    made = onnx.shape_inference.infer_shapes(made, data_prop=True)
    for output in made.graph.output:
        if not output.type.tensor_type.HasField("shape"):  # behind ops that ONNX does not know
            output.CopyFrom(helper.make_tensor_value_info(output.name, TensorProto.FLOAT, [None] * 4))
    return made


def save(model: Any, file: Path) -> Path:
    onnx.save_model(model, file)
    return file


def assert_as_the_reference(file: Path, inputs: Sequence[np.ndarray]) -> nn.Module:
    model = onnx.load(file)
    names = [each.name for each in onnx_file.inputs_of(model)]
    expected = ReferenceEvaluator(model).run(None, dict(zip(names, inputs, strict=True)))
    made = imported(file)
    found = outputs_of(made, [torch.from_numpy(each) for each in inputs])
    for mine, right in zip(found, expected, strict=True):
        assert tuple(mine.shape) == tuple(right.shape)
        np.testing.assert_allclose(mine.numpy(), right, rtol=1e-4, atol=1e-5)
    return made


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def ints(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


X = (1, 4, 6, 8)
CASES: list[tuple[str, dict[str, Any], list[np.ndarray], int]] = [
    ("Conv", {"pads": [1, 0, 2, 1]}, [random(6, 4, 3, 3), random(6)], 17),
    ("Conv", {"auto_pad": "SAME_UPPER", "strides": [2, 2]}, [random(6, 4, 3, 3)], 13),
    ("Conv", {"auto_pad": "SAME_LOWER", "strides": [2, 3], "group": 2}, [random(6, 2, 2, 3)], 17),
    ("ConvTranspose", {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]}, [random(4, 5, 3, 3)], 17),
    ("MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}, [], 17),
    ("MaxPool", {"kernel_shape": [2, 2], "pads": [1, 1, 1, 1], "strides": [2, 2]}, [], 17),
    ("AveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}, [], 17),
    ("AveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}, [], 17),
    ("GlobalAveragePool", {}, [], 17),
    ("GlobalMaxPool", {}, [], 17),
    ("BatchNormalization", {"epsilon": 1e-3}, [random(4), random(4), random(4), np.abs(random(4)) + 0.5], 17),
    ("InstanceNormalization", {}, [random(4), random(4)], 17),
    ("LayerNormalization", {"axis": -1}, [random(8), random(8)], 17),
    ("LayerNormalization", {"axis": 2}, [random(6, 8)], 17),
    ("GroupNormalization", {"num_groups": 2}, [random(4), random(4)], 21),
    ("PRelu", {}, [np.abs(random(4, 1, 1))], 17),
    ("MatMul", {}, [random(8, 5)], 17),
    ("Clip", {}, [np.float32(0), np.float32(0.5)], 17),
    ("Clip", {}, [np.float32(-0.2)], 17),
    ("LeakyRelu", {"alpha": 0.2}, [], 17),
    ("Elu", {"alpha": 0.7}, [], 17),
    ("Celu", {"alpha": 0.7}, [], 17),
    ("Selu", {}, [], 17),
    ("HardSigmoid", {}, [], 17),
    ("HardSwish", {}, [], 17),
    ("Mish", {}, [], 18),
    ("Gelu", {}, [], 20),
    ("Gelu", {"approximate": "tanh"}, [], 20),
    ("Softplus", {}, [], 17),
    ("Softmax", {"axis": 1}, [], 17),
    ("LogSoftmax", {}, [], 17),
    ("Sub", {}, [random(4, 1, 1)], 17),
    ("Pow", {}, [np.float32(2)], 17),
    ("Max", {}, [np.float32(0.1), random(8)], 17),
    ("Mean", {}, [random(8), random(1, 4, 6, 8)], 17),
    ("ReduceMean", {"axes": [2, 3], "keepdims": 0}, [], 17),
    ("ReduceMean", {"keepdims": 1}, [ints(1)], 18),
    ("ReduceSum", {}, [ints(-1)], 13),
    ("ReduceMax", {"axes": [1]}, [], 13),
    ("ReduceL2", {"axes": [1]}, [], 17),
    ("Reshape", {}, [ints(0, 2, -1)], 17),
    ("Flatten", {"axis": 2}, [], 17),
    ("Flatten", {}, [], 17),
    ("Transpose", {"perm": [0, 2, 3, 1]}, [], 17),
    ("Transpose", {}, [], 17),
    ("Unsqueeze", {}, [ints(0, -1)], 17),
    ("Squeeze", {}, [ints(0)], 17),
    ("Squeeze", {}, [], 17),
    ("Expand", {}, [ints(2, 1, 1, 6, 8)], 17),
    ("Tile", {}, [ints(1, 2, 1, 3)], 17),
    ("Slice", {}, [ints(1, -3), ints(2**62, -1), ints(2, -1), ints(2, 1)], 17),
    ("Slice", {}, [ints(-100), ints(3), ints(1)], 17),
    ("Gather", {"axis": 1}, [np.array(-1, dtype=np.int64)], 17),
    ("Gather", {"axis": 2}, [ints(3, -1, 0)], 17),
    ("Gather", {"axis": 3}, [ints(3, -1, 0, 1).reshape(2, 2)], 17),
    ("Pad", {}, [ints(0, 1, 2, 0, 0, 0, 1, 3), np.float32(0.5)], 17),
    ("Pad", {"mode": "reflect"}, [ints(0, 0, 2, 0, 0, 0, 1, 3)], 17),
    ("Pad", {"mode": "edge"}, [ints(0, 0, 0, 1, 0, 0, 0, 1)], 17),
    ("DepthToSpace", {"blocksize": 2}, [], 17),
    ("DepthToSpace", {"blocksize": 2, "mode": "CRD"}, [], 17),
    ("SpaceToDepth", {"blocksize": 2}, [], 17),
    (
        "Resize",
        {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
        [None, None, ints(1, 4, 9, 8)],
        17,
    ),
    ("Resize", {"mode": "linear"}, [None, np.array([1, 1, 2, 2], dtype=np.float32)], 17),
    (
        "Resize",
        {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
        [None, None, ints(1, 4, 11, 5)],
        17,
    ),
    ("Resize", {}, [None, np.array([1, 1, 3, 2], dtype=np.float32)], 17),
    ("Resize", {"mode": "cubic"}, [None, None, ints(1, 4, 12, 16)], 17),
]


@pytest.mark.parametrize("case", CASES, ids=[f"{number}-{case[0]}" for number, case in enumerate(CASES)])
def test_ops_are_as_the_reference_has_them(case: tuple[Any, ...], tmp_path: Path) -> None:
    op, attributes, constants, opset = case
    held = {f"c{i}": np.asarray(value) for i, value in enumerate(constants) if value is not None}
    names = ["x", *(f"c{i}" if value is not None else "" for i, value in enumerate(constants))]
    shape = (1, 1, 6, 8) if op == "Squeeze" and not constants else X
    model = model_of([helper.make_node(op, names, ["y"], **attributes)], {"x": shape}, ["y"], held, opset)
    assert_as_the_reference(save(model, tmp_path / "net.onnx"), [random(*shape)])


def test_both_sides_may_be_numbers_and_parts_are_drawn_together(tmp_path: Path) -> None:
    node = helper.make_node
    held = {"one": np.float32(1), "root": np.float32(2**0.5), "half": np.float32(0.5), "sixth": np.float32(1)}
    nodes = [
        node("Sub", ["one", "x"], ["a"]),
        node("Div", ["one", "x"], ["b"]),
        node("Sigmoid", ["a"], ["s"]),
        node("Mul", ["s", "a"], ["silu"]),
        node("HardSigmoid", ["b"], ["h"], alpha=1 / 6),
        node("Mul", ["b", "h"], ["hardswish"]),
        node("Softplus", ["silu"], ["p"]),
        node("Tanh", ["p"], ["t"]),
        node("Mul", ["silu", "t"], ["mish"]),
        node("Div", ["mish", "root"], ["d"]),
        node("Erf", ["d"], ["e"]),
        node("Add", ["e", "one"], ["f"]),
        node("Mul", ["mish", "f"], ["g"]),
        node("Mul", ["g", "half"], ["gelu"]),
        node("Concat", ["gelu", "hardswish"], ["y"], axis=1),
    ]
    file = save(model_of(nodes, {"x": X}, ["y"], held), tmp_path / "net.onnx")
    made: Any = assert_as_the_reference(file, [np.abs(random(*X)) + 0.5])
    ops = [step.target for step in made._imported_programs[0].steps()]
    assert [op for op in ops if op.split(".")[1] in ("silu", "hardswish", "mish", "gelu")] == [
        *("aten.silu.default", "aten.mish.default", "aten.gelu.default"),
        "aten.hardswish.default",
    ] or {"aten.silu.default", "aten.hardswish.default", "aten.mish.default", "aten.gelu.default"} <= set(ops)


@pytest.mark.parametrize("opset", [13, 17])
@pytest.mark.parametrize("seed", range(8))
def test_random_models(seed: int, opset: int, tmp_path: Path) -> None:
    model, x = RandomModel(seed).eval(), torch.randn(2, 32, 8, 8)
    made = imported(save_onnx(model, [x], tmp_path / "net.onnx", opset_version=opset))
    for mine, theirs in zip(outputs_of(made, [x]), outputs_of(model, [x]), strict=True):
        assert torch.allclose(mine, theirs, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if i < 3 else pytest.mark.long) for i, n in enumerate(OF_ZOO)]
)
def test_architectures_become_the_same_layers(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, inputs = architecture(name).factory().eval(), [architecture(name).example_input()]
    made = imported(save_onnx(model, inputs, tmp_path / "net.onnx"))
    for mine, theirs in zip(outputs_of(made, inputs), outputs_of(model, inputs), strict=True):
        assert (mine - theirs).abs().max() <= 1e-4 * theirs.abs().max()
    assert layers_of(made, inputs) == layers_of(model, inputs)


def test_names_of_modules_are_kept_and_code_is_the_same_but_for_classes(tmp_path: Path) -> None:
    model, inputs = small_nets.SmallResNet().eval(), [torch.randn(IMAGE)]
    made = imported(save_onnx(model, inputs, tmp_path / "net.onnx"))
    assert set(made.state_dict()) == set(model.state_dict())
    assert code_of(made, inputs).replace("TtModel", "TtSmallResNet") == code_of(model, inputs)


def test_onnxruntime_agrees(tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    x = torch.randn(IMAGE)
    file = save_onnx(small_nets.SmallUNet().eval(), [x], tmp_path / "net.onnx")
    session = runtime.InferenceSession(file)
    expected = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    for mine, right in zip(outputs_of(imported(file), [x]), expected, strict=True):
        np.testing.assert_allclose(mine.numpy(), right, rtol=1e-4, atol=1e-5)


def test_pools_that_are_padded_on_one_side(tmp_path: Path) -> None:
    """ONNX's reference gives these another shape than ONNX infers."""
    runtime = pytest.importorskip("onnxruntime")
    node = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], pads=[0, 0, 1, 1])
    file = save(model_of([node], {"x": X}, ["y"]), tmp_path / "net.onnx")
    (expected,) = runtime.InferenceSession(file).run(None, {"x": random(*X)})
    np.testing.assert_array_equal(outputs_of(imported(file), [torch.from_numpy(random(*X))])[0].numpy(), expected)


def test_a_file_that_computes_nothing(tmp_path: Path) -> None:
    file = save(model_of([helper.make_node("Dropout", ["x"], ["y"])], {"x": X}, ["y"]), tmp_path / "net.onnx")
    with pytest.raises(Unreadable, match="computes nothing"):
        imported(file)


# -- what files say of themselves


def conv(weight: str = "w", **attributes: Any) -> Any:
    return helper.make_node("Conv", ["x", weight], ["y"], **attributes)


def test_weights_among_the_inputs_and_inputs_that_nothing_reads(tmp_path: Path) -> None:
    model = model_of([conv()], {"x": X, "unused": (1, 2), "w": (6, 4, 3, 3)}, ["y"], {"w": random(6, 4, 3, 3)})
    made = assert_as_the_reference(save(model, tmp_path / "net.onnx"), [random(*X), random(1, 2)])
    assert isinstance(made.get_submodule("conv"), nn.Conv2d)


def test_shared_weights_are_one_parameter(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1], name="/first/Conv"),
        helper.make_node("Conv", ["a", "w"], ["b"], pads=[1, 1, 1, 1], name="/second/Conv"),
        helper.make_node("Conv", ["b", "third.weight"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["d"]),
        helper.make_node("Conv", ["d", "third.weight"], ["y"], pads=[1, 1, 1, 1]),
    ]
    held = {"w": random(4, 4, 3, 3), "third.weight": random(4, 4, 3, 3)}
    made = assert_as_the_reference(save(model_of(nodes, {"x": X}, ["y"], held), tmp_path / "net.onnx"), [random(*X)])
    assert made.get_parameter("first.weight") is made.get_parameter("second.weight")
    assert isinstance(made.get_submodule("third"), nn.Conv2d)


def test_open_sizes_are_asked_for(tmp_path: Path) -> None:
    shape = [helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Gather", ["s", "i"], ["n"])]
    shape += [helper.make_node("Concat", ["n", "m"], ["t"], axis=0), helper.make_node("Reshape", ["x", "t"], ["y"])]
    model = model_of(shape, {"x": ["batch", 4, 6, 8]}, ["y"], {"i": ints(0), "m": ints(-1)})
    file = save(model, tmp_path / "net.onnx")
    with pytest.raises(Unreadable, match=r"x \?x4x6x8.*--input Nx4x6x8"):
        imported(file)
    assert outputs_of(imported(file, (3, 4, 6, 8)), [torch.zeros(3, 4, 6, 8)])[0].shape == (3, 192)
    with pytest.raises(Unreadable, match="takes x"):
        imported(file, (3, 4, 6, 9))


def test_ops_that_are_not_read_are_named_all_at_once(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("LRN", ["x"], ["a"], size=3),
        helper.make_node("LRN", ["a"], ["b"], size=3),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("FancyOp", ["c"], ["d"], domain="com.example"),
        helper.make_node("Pad", ["x", "p"], ["e"], mode="wrap", name="/wrapped/Pad"),
        helper.make_node("Concat", ["d", "e"], ["y"], axis=1),
    ]
    model = model_of(nodes, {"x": X}, ["y"], {"p": ints(0, 0, 0, 1, 0, 0, 0, 1)}, 19)
    with pytest.raises(Unreadable) as refused:
        imported(save(model, tmp_path / "net.onnx"))
    said = str(refused.value)
    assert "LRN, 2 times" in said and "com.example.FancyOp" in said and "Pad: mode wrap (at /wrapped/Pad)" in said
    assert "Relu" not in said and "Concat" not in said


@pytest.mark.parametrize("opset", [12, 99])
def test_other_versions(opset: int, tmp_path: Path) -> None:
    model = model_of([conv()], {"x": X}, ["y"], {"w": random(6, 4, 3, 3)})
    model.opset_import[0].version = opset
    with pytest.raises(Unreadable, match=f"opset {opset}; from 13 to"):
        imported(save(model, tmp_path / "net.onnx"))


def test_inputs_of_integers_are_refused(tmp_path: Path) -> None:
    model = model_of([conv()], {"x": X}, ["y"], {"w": random(6, 4, 3, 3)})
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.INT64
    with pytest.raises(Unreadable, match=r"checker|is int64"):
        imported(save(model, tmp_path / "net.onnx"))


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 a zip", b"\x08", None])
def test_files_that_are_no_onnx(content: bytes | None, tmp_path: Path) -> None:
    file = save(model_of([conv()], {"x": X}, ["y"], {"w": random(6, 4, 3, 3)}), tmp_path / "whole.onnx")
    broken = tmp_path / "net.onnx"
    broken.write_bytes(file.read_bytes()[:-50] if content is None else content)
    with pytest.raises(Unreadable, match=r"no ONNX file|checker|does not say"):
        imported(broken)


# -- weights in other files


def external(tmp_path: Path, location: str) -> Path:
    model = model_of([conv()], {"x": X}, ["y"], {"w": random(6, 4, 3, 3)})
    (tmp_path / "model").mkdir(exist_ok=True)
    tensor = model.graph.initializer[0]
    (tmp_path / "secret.bin").write_bytes(tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    return save(model, tmp_path / "model" / "net.onnx")


def test_weights_beside_the_model_are_read(tmp_path: Path) -> None:
    file = external(tmp_path, "weights.bin")
    with pytest.raises(Unreadable, match="there is no such file"):
        imported(file)
    (tmp_path / "model" / "weights.bin").write_bytes((tmp_path / "secret.bin").read_bytes())
    assert_as_the_reference(file, [random(*X)])
    (tmp_path / "model" / "weights.bin").write_bytes(b"short")
    with pytest.raises(Unreadable):
        imported(file)


@pytest.mark.parametrize("location", ["../secret.bin", "/etc/passwd", "a/../../secret.bin", ""])
def test_weights_elsewhere_are_not_opened(location: str, tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="is not opened"):
        imported(external(tmp_path, location))


def test_links_to_elsewhere_are_not_followed(tmp_path: Path) -> None:
    file = external(tmp_path, "weights.bin")
    (tmp_path / "model" / "weights.bin").symlink_to(tmp_path / "secret.bin")
    with pytest.raises(Unreadable, match="is not opened"):
        imported(file)


def test_names_cannot_become_code(tmp_path: Path) -> None:
    evil = 'x");__import__("os").system("touch /tmp/owned");("'
    node = conv(f"{evil}.weight", name=f"/{evil}/Conv")
    model = model_of([node], {"x": X}, ["y"], {f"{evil}.weight": random(6, 4, 3, 3)})
    model.graph.name = evil
    code = code_of(imported(save(model, tmp_path / "net.onnx")), [torch.zeros(X)])
    assert "__import__(" not in code and "system(" not in code


def test_the_package_may_be_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = save(model_of([conv()], {"x": X}, ["y"], {"w": random(6, 4, 3, 3)}), tmp_path / "net.onnx")
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(Unreadable, match=r"tt-cnn\[cpu\]"):
        imported(file)
