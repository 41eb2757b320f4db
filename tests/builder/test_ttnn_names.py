"""The builder uses only what TT-NN 0.81.1 has: every `ttnn.` name, and every keyword of every call to one."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tt_cnn.builder
from tt_cnn.builder import (
    BlockShardedStrategyConfiguration,
    HeightShardedStrategyConfiguration,
    WidthShardedStrategyConfiguration,
    sharding_strategy_to_conv2d_config,
)

FILES = sorted(Path(inspect.getfile(tt_cnn.builder)).parent.glob("*.py"))

_CONV = (
    "input_tensor weight_tensor device in_channels out_channels batch_size input_height input_width kernel_size stride "
    "padding dilation groups dtype bias_tensor conv_config compute_config memory_config return_output_dim "
    "return_weights_and_bias"
)
_POOL = (
    "input_tensor batch_size input_h input_w channels kernel_size stride padding ceil_mode memory_config "
    "dram_slice_config applied_shard_scheme deallocate_input reallocate_halo_output dtype output_layout "
    "config_tensor_in_dram"
)
CALLS = {
    "Conv2dConfig": (
        "weights_dtype activation deallocate_activation reallocate_halo_output config_tensors_in_dram "
        "act_block_h_override act_block_w_div reshard_if_not_optimal override_sharding_config shard_layout core_grid "
        "transpose_shards output_layout enable_act_double_buffer enable_weights_double_buffer full_inner_dim "
        "enable_kernel_stride_folding enable_activation_reuse force_split_reader override_output_sharding_config "
        "padding_mode"
    ),
    "Conv2dSliceConfig": "slice_type num_slices",
    "CoreCoord": "",
    "CoreGrid": "x y",
    "CoreRange": "start end",
    "CoreRangeSet": "core_ranges",
    "MemoryConfig.from_json": "",
    "ReplicateTensorToMesh": "mesh_device",
    "UnaryWithParam": "",
    "add": (
        "input_tensor_a input_tensor_b fast_and_approximate_mode dtype memory_config output_tensor activations "
        "input_tensor_a_activations input_tensor_b_activations sub_core_grids sub_device_id"
    ),
    "avg_pool2d": f"{_POOL} count_include_pad divisor_override compute_kernel_config",
    "concat": "tensors dim memory_config output_tensor groups sub_core_grids",
    "conv2d": f"{_CONV} slice_config",
    "conv_transpose2d": f"{_CONV} output_padding dram_slice_config mirror_kernel",
    "deallocate": "tensor force",
    "from_device": "tensor blocking queue_id",
    "from_torch": (
        "tensor dtype spec tile pad_value layout device memory_config mesh_mapper cq_id preserve_nan_values "
        "col_tilize enable_bfloat_opt"
    ),
    "get_device_tensors": "tensor",
    "global_avg_pool2d": "input_tensor memory_config dtype",
    "init_device_compute_kernel_config": (
        "arch device_kernel_config math_fidelity math_approx_mode fp32_dest_acc_en packer_l1_acc dst_full_sync_en "
        "throttle_level"
    ),
    "is_tensor_storage_on_device": "tensor",
    "linear": (
        "input_tensor_a input_tensor_b bias transpose_a transpose_b memory_config dtype program_config activation "
        "compute_kernel_config core_grid output_tile optional_output_tensor global_cb sub_device_id"
    ),
    "max_pool2d": f"{_POOL} dilation return_indices",
    "move": "input_tensor memory_config",
    "reshape": "input_tensor shape memory_config pad_value",
    "sharded_to_interleaved": "input_tensor memory_config output_dtype",
    "slice": "input_tensor starts ends slice_step memory_config output_tensor pad_value",
    "to_device": "tensor device memory_config queue_id",
    "to_dtype": "tensor dtype",
    "to_layout": "tensor layout dtype memory_config sub_core_grids pad_value",
    "to_memory_config": "tensor memory_config dtype output_tensor",
    "to_torch": "tensor dtype torch_rank mesh_composer device cq_id",
    "upsample": "input_tensor scale_factor mode memory_config compute_kernel_config",
}
"""Callables of the real library, and the keywords that they take (its signatures)."""

VALUES = {
    "BufferType.L1",
    "Conv2dDRAMSliceHeight",
    "Conv2dDRAMSliceWidth",
    "Conv2dL1Full",
    "Conv2dL1FullSliceConfig",
    "DRAM_MEMORY_CONFIG",
    "DataType",
    "Layout",
    "MathFidelity",
    "MathFidelity.HiFi4",
    "MathFidelity.LoFi",
    "MemoryConfig",
    "PaddingMode",
    "PaddingMode.Replicate",
    "PaddingMode.Zeros",
    "ROW_MAJOR_LAYOUT",
    "TILE_LAYOUT",
    "Tensor",
    "TensorMemoryLayout",
    "TensorMemoryLayout.BLOCK_SHARDED",
    "TensorMemoryLayout.HEIGHT_SHARDED",
    "TensorMemoryLayout.WIDTH_SHARDED",
    "UnaryOpType",
    "bfloat16",
    "bfloat4_b",
    "bfloat8_b",
    "float32",
}
"""Types, constants and members of the real library."""


def dotted(node: ast.AST) -> str | None:
    """`a.b` for the expression ttnn.a.b."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join(reversed(parts)) if isinstance(node, ast.Name) and node.id == "ttnn" and parts else None


def uses(source: str) -> Iterator[tuple[str, list[str | None] | None]]:
    """Each name after `ttnn.`, with the keywords of the call where it is called (None for `**`)."""
    tree = ast.parse(source)
    inner = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
    called = {id(n.func): [k.arg for k in n.keywords] for n in ast.walk(tree) if isinstance(n, ast.Call)}
    for node in ast.walk(tree):
        name = dotted(node) if id(node) not in inner else None
        if name is not None:
            yield name, called.get(id(node))


def complaints(source: str) -> list[str]:
    found = []
    for name, keywords in uses(source):
        if name not in CALLS and name not in VALUES:
            found.append(f"ttnn.{name}")
        elif keywords is not None:
            known = CALLS.get(name, "").split()
            found += [f"ttnn.{name}({k}=)" for k in keywords if k is not None and k not in known]
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.name)
def test_every_name_and_keyword_is_ttnns(file: Path) -> None:
    assert complaints(file.read_text()) == []


def test_the_check_can_fail() -> None:
    assert complaints("ttnn.conv2d(input_tensor=x, in_place=True)") == ["ttnn.conv2d(in_place=)"]
    assert complaints("y = ttnn.conv3d_fast(x)") == ["ttnn.conv3d_fast"]
    assert complaints("from tt_cnn import ttnn\nttnn.bfloat16") == []


def test_only_known_places_pass_keywords_on() -> None:
    """`**` hides keywords from the check above; there is one, and what it passes is looked at here."""
    hidden = [(f.name, name) for f in FILES for name, keywords in uses(f.read_text()) if keywords and None in keywords]
    assert hidden == [("lowering.py", "Conv2dConfig")]
    for strategy in (
        HeightShardedStrategyConfiguration(),
        WidthShardedStrategyConfiguration(),
        BlockShardedStrategyConfiguration(),
    ):
        assert set(sharding_strategy_to_conv2d_config(strategy)) <= set(CALLS["Conv2dConfig"].split())


def test_the_virtual_card_is_imported_for_names_of_layers_only() -> None:
    def imports(file: Path) -> list[Any]:
        nodes = ast.walk(ast.parse(file.read_text()))
        return [n.module for n in nodes if isinstance(n, ast.ImportFrom) and "virtual" in (n.module or "")]

    assert {f.name: imports(f) for f in FILES if imports(f)} == {"naming.py": ["tt_cnn.virtual.errors"]}
