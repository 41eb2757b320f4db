# SPDX-License-Identifier: Apache-2.0
"""The module that users see as `ttnn`: its names, its submodules, and how it speaks of names it does not have."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tt_cnn.virtual import ttnn
from tt_cnn.virtual.ops.operation import OPERATIONS
from tt_cnn.virtual.ttnn.missing import MissingName, real_names, unknown


def test_every_name_of_the_facade_is_a_name_of_the_library() -> None:
    ours = {name for name in dir(ttnn) if not name.startswith("_")}
    helpers = {"config", "missing", "older", "ops", "sys", "resolver", "VERSION", "ttnn", "types"}
    unreal = {name for name in ours - helpers if name not in real_names()}
    assert not unreal - set(OPERATIONS)


@pytest.mark.parametrize("module", ["core", "device", "distributed", "types"])
def test_submodules_and_the_facade_share_their_names(module: str) -> None:
    part = getattr(ttnn, module)
    shared = [name for name in real_names() if name.startswith(f"{module}.") and hasattr(part, name.split(".")[1])]
    assert len(shared) > 5
    for dotted in shared:
        name = dotted.split(".")[1]
        if hasattr(ttnn, name):
            assert getattr(ttnn, name) is getattr(part, name)


@pytest.mark.parametrize("dotted", ["moreh_adam", "Conv3dConfig", "experimental.conv3d", "types.NOC"])
def test_a_name_that_is_not_there_yet_is_named(dotted: str) -> None:
    found: object = ttnn
    *parents, last = dotted.split(".")
    for parent in parents:
        found = getattr(found, parent)
    assert not hasattr(found, last)
    with pytest.raises(MissingName, match=rf"ttnn\.{dotted} is an? \w+ of TT-NN 0\.81\.1"):
        getattr(found, last)


def test_older_names_work_and_warn() -> None:
    weights = torch.randn(48, 40, 1, 1)
    with pytest.warns(DeprecationWarning, match=r"ttnn\.convert_conv_weight_tensor_to_tiled_layout is not in TT-NN"):
        convert = ttnn.convert_conv_weight_tensor_to_tiled_layout
    matrix = convert(ttnn.from_torch(weights, dtype=ttnn.float32), 1, 2, output_dtype=ttnn.bfloat16)
    assert matrix.layout == ttnn.TILE_LAYOUT and matrix.dtype == ttnn.bfloat16
    found = ttnn.to_torch(matrix).float()
    assert found.shape == (1, 1, 64, 64)
    assert torch.equal(found[0, 0, :40, :48], weights[:, :, 0, 0].T.bfloat16().float())
    assert not found[0, 0, 40:].any() and not found[0, 0, :, 48:].any()
    assert "convert_conv_weight_tensor_to_tiled_layout" not in dir(ttnn)


def test_windows_come_before_channels_in_the_rows_of_a_converted_weight() -> None:
    weights = torch.arange(2 * 3 * 2 * 2).reshape(2, 3, 2, 2).float()
    with pytest.warns(DeprecationWarning):
        convert = ttnn.convert_conv_weight_tensor_to_tiled_layout
    found = ttnn.to_torch(convert(ttnn.from_torch(weights, dtype=ttnn.float32), 1, 1))[0, 0]
    assert found[4, 1] == weights[1, 1, 0, 1]  # row 4: the second place of the window's first row, channel 1


def test_a_missing_name_is_both_kinds_of_error() -> None:
    error = unknown("moreh_adam")
    assert isinstance(error, NotImplementedError) and isinstance(error, AttributeError)


def test_a_name_that_nobody_has_is_a_plain_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'ttnn' has no attribute 'nonsense'") as caught:
        ttnn.nonsense  # noqa: B018
    assert not isinstance(caught.value, NotImplementedError)
    with pytest.raises(AttributeError, match=r"module 'ttnn\.experimental' has no attribute 'nonsense'"):
        ttnn.experimental.nonsense  # noqa: B018


def test_registered_ops_are_there_dotted_ones_in_their_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    operation = object()
    monkeypatch.setitem(OPERATIONS, "experimental.pretended", operation)  # type: ignore[arg-type]
    monkeypatch.setitem(OPERATIONS, "pretended", operation)  # type: ignore[arg-type]
    assert ttnn.experimental.pretended is operation
    assert ttnn.pretended is operation
    assert "pretended" in dir(ttnn)
    assert not hasattr(ttnn.transformer, "pretended")


def test_the_module_knows_itself_and_takes_attributes() -> None:
    assert ttnn.ttnn is ttnn
    ttnn.enable_fast_runtime_mode = False  # older code sets switches on the module
    assert ttnn.enable_fast_runtime_mode is False
    del ttnn.enable_fast_runtime_mode


def test_devices_by_architecture() -> None:
    from tt_cnn.virtual.devices.opening import close_device, open_device

    device = open_device(card="p150")
    try:
        assert ttnn.device.is_blackhole(device) and not ttnn.device.is_wormhole_b0(device)
        assert device.arch() is ttnn.device.Arch.BLACKHOLE
        assert ttnn.get_allocator_base_address(device, ttnn.BufferType.L1) == device.card.l1_base
        assert not ttnn.device.is_trace_capture_active(device)
    finally:
        close_device(device)
    assert ttnn.device.is_wormhole_b0()
    assert (ttnn.get_dram_alignment(), ttnn.get_l1_alignment()) == (32, 16)


def test_questions_about_tensors() -> None:
    import torch

    host = ttnn.from_torch(torch.zeros(1, 1, 40, 64), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT)
    assert not ttnn.is_tensor_storage_on_device(host) and ttnn.has_storage_type_of(host, ttnn.StorageType.HOST)
    assert ttnn.core.has_tile_padding(host) and not ttnn.core.has_tile_padding(host, dim=-1)
    assert not ttnn.is_sharded(host) and ttnn.get_memory_config(host) is None
    assert (ttnn.element_size(ttnn.bfloat16), ttnn.tile_size(ttnn.bfloat8_b)) == (2, 1088)
    assert (ttnn.core.divup(33, 32), ttnn.core.roundup(33, 32)) == (2, 64)
    assert ttnn.ttnn_dtype_to_torch_dtype(ttnn.bfloat16) is torch.bfloat16
    square = ttnn.CoreRangeSet([ttnn.CoreRange((0, 0), (1, 1))])
    assert [(c.x, c.y) for c in ttnn.corerange_to_cores(square)] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert [(c.x, c.y) for c in ttnn.corerange_to_cores(square, 3, row_wise=True)] == [(0, 0), (1, 0), (0, 1)]


def test_shards_from_the_host_come_back_from_a_mesh() -> None:
    import torch

    device = ttnn.open_mesh_device(ttnn.MeshShape(1, 2))
    try:
        parts = [torch.full((1, 1, 32, 32), float(i)) for i in range(2)]
        shards = [ttnn.from_torch(part, ttnn.bfloat16) for part in parts]
        on_mesh = ttnn.to_device(ttnn.from_host_shards(shards, device.shape), device)
        composer = ttnn.concat_mesh_to_tensor_composer(device, 0)
        assert torch.equal(ttnn.to_torch(on_mesh, mesh_composer=composer).float(), torch.cat(parts))
        mapped = ttnn.from_torch(
            torch.cat(parts), ttnn.bfloat16, mesh_mapper=ttnn.shard_tensor_to_mesh_mapper(device, 0), device=device
        )
        assert torch.equal(ttnn.to_torch(mapped, mesh_composer=composer).float(), torch.cat(parts))
        with pytest.raises(RuntimeError, match="2 tensors for a mesh of 4 devices"):
            ttnn.from_host_shards(shards, ttnn.MeshShape(2, 2))
    finally:
        ttnn.close_mesh_device(device)


def test_config_prints_and_checks_as_the_library_does(tmp_path: Path) -> None:
    text = repr(ttnn.CONFIG)
    assert text.startswith("Config{cache_path=") and "enable_fast_runtime_mode=true" in text
    assert text.endswith("report_name=std::nullopt,strict_ccl_topology=false,std::nullopt}")
    assert "comparison_mode_pcc=0.9999" in text
    with ttnn.manage_config("report_name", "mine"):
        assert ttnn.CONFIG.report_path == Path("generated/ttnn/reports/mine")
        ttnn.CONFIG.save_to_file(tmp_path / "config.json")
    assert ttnn.CONFIG.report_path is None
    loaded = ttnn.Config()
    loaded.load_from_file(tmp_path / "config.json")
    assert loaded.report_name == "mine" and loaded.root_report_path == Path("generated/ttnn/reports")
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        ttnn.CONFIG.nonsense = 1
    with pytest.raises(TypeError, match=r"CONFIG\.enable_logging is 'x'"):
        ttnn.CONFIG.enable_logging = "x"
    with pytest.raises(AttributeError):
        ttnn.manage_config("nonsense", 1).__enter__()


def test_the_list_of_names_travels_with_the_package() -> None:
    code = "from tt_cnn.virtual.ttnn.missing import real_names; print(len(real_names()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/")
    assert int(done.stdout) > 1400
