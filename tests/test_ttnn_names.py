# SPDX-License-Identifier: Apache-2.0
"""The library uses only what TT-NN 0.81.1 has: every `ttnn.` name, and every keyword of every call to one."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tt_cnn
from tt_cnn import ttnn
from tt_cnn.builder import (
    AvgPool2dConfiguration,
    BlockShardedStrategyConfiguration,
    Conv2dConfiguration,
    ConvTranspose2dConfiguration,
    HeightShardedStrategyConfiguration,
    MaxPool2dConfiguration,
    TtAvgPool2d,
    TtConv2d,
    TtConvTranspose2d,
    TtMaxPool2d,
    TtUpsample,
    UpsampleConfiguration,
    WidthShardedStrategyConfiguration,
    sharding_strategy_to_conv2d_config,
)

PACKAGE = Path(inspect.getfile(tt_cnn)).parent
PACKAGES = ("builder", "pipeline", "preprocessing", "testing", "models", "evaluation")
FILES = [file for package in PACKAGES for file in sorted((PACKAGE / package).rglob("*.py"))]

SIGNATURES: dict[str, set[str] | None] = {}
"""Keywords by the callable's name; None for what is no callable."""
for _line in Path(__file__).with_name("ttnn_signatures.txt").read_text().splitlines():
    _name, _bracket, _rest = _line.partition("(")
    if not _line.startswith("#"):
        SIGNATURES[_name] = set(_rest.removesuffix(")").split()) if _bracket else None

OURS = {
    "open_device": {"card", "numerics", "engine", "hazards"},
    "open_mesh_device": {"card", "numerics", "engine", "hazards"},
}
"""Keywords of the virtual card's own, which demos and evaluations may use where they choose the card themselves."""

METHOD = re.compile(r"CONFIG\.\w+|Tensor\.\w+|MemoryConfig\.from_json")
"""Members that are checked by name only, against the virtual card."""


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
        if METHOD.fullmatch(name):
            owner, _, member = name.partition(".")
            if not hasattr(getattr(ttnn, owner), member):
                found.append(f"ttnn.{name}")
        elif name not in SIGNATURES:
            found.append(f"ttnn.{name}")
        elif keywords is not None:
            known = (SIGNATURES[name] or set()) | OURS.get(name, set())
            found += [f"ttnn.{name}({k}=)" for k in keywords if k is not None and k not in known]
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(PACKAGE)))
def test_every_name_and_keyword_is_ttnns(file: Path) -> None:
    assert complaints(file.read_text()) == []


def test_the_check_can_fail() -> None:
    assert complaints("ttnn.conv2d(input_tensor=x, in_place=True)") == ["ttnn.conv2d(in_place=)"]
    assert complaints("y = ttnn.conv3d_fast(x)") == ["ttnn.conv3d_fast"]
    assert complaints("ttnn.CONFIG.no_such_setting") == ["ttnn.CONFIG.no_such_setting"]
    assert complaints("ttnn.BufferType.L3") == ["ttnn.BufferType.L3"]
    assert complaints("from tt_cnn import ttnn\nttnn.bfloat16") == []


def test_the_table_is_the_virtual_cards_too() -> None:
    """What the table has, code can use here."""
    for name in SIGNATURES:
        owner: Any = ttnn
        for part in name.split("."):
            owner = getattr(owner, part)


def test_keywords_that_are_passed_on_as_a_whole_are_ttnns(open_card: Any) -> None:
    """`**` hides keywords from the check above; in the builder all of them are looked at here."""
    builder = [f for f in FILES if f.parent.name == "builder"]
    hidden = [(f.name, n) for f in builder for n, keywords in uses(f.read_text()) if keywords and None in keywords]
    assert sorted(hidden) == [
        ("activations.py", "leaky_relu"),
        ("activations.py", "mish"),
        ("activations.py", "unary_chain"),
        ("add.py", "add"),
        ("add.py", "add"),
        ("affine.py", "add"),
        ("affine.py", "addcmul"),
        ("affine.py", "multiply"),
        ("avg_pool2d.py", "avg_pool2d"),
        ("conv2d.py", "conv2d"),
        ("conv_transpose2d.py", "conv_transpose2d"),
        ("group_norm.py", "from_torch"),
        ("group_norm.py", "group_norm"),
        ("group_norm.py", "subtract"),
        ("lowering.py", "Conv2dConfig"),
        ("max_pool2d.py", "max_pool2d"),
        ("multiply.py", "multiply"),
        ("upsample.py", "upsample"),
        ("upsample.py", "upsample"),
    ]
    device = open_card()
    strategies = (
        HeightShardedStrategyConfiguration(),
        WidthShardedStrategyConfiguration(),
        BlockShardedStrategyConfiguration(),
    )
    passed = [("Conv2dConfig", set(sharding_strategy_to_conv2d_config(strategy))) for strategy in strategies]
    conv = TtConv2d(Conv2dConfiguration.with_random_weights(8, 8, 16, 16, 1, (3, 3)), device)
    transposed = TtConvTranspose2d(ConvTranspose2dConfiguration.with_random_weights(8, 8, 16, 16, 1, (3, 3)), device)
    average = TtAvgPool2d(AvgPool2dConfiguration(8, 8, 16, 1, (2, 2)), device)
    pool = TtMaxPool2d(MaxPool2dConfiguration(8, 8, 16, 1, (2, 2)), device)
    up = TtUpsample(UpsampleConfiguration(8, 8, 16, 1, 2), device)
    passed += [
        ("conv2d", set(conv.get_conv2d_kwargs())),
        ("conv_transpose2d", set(transposed.get_conv_transpose2d_kwargs())),
        ("avg_pool2d", set(average.get_avgpool2d_kwargs())),
        ("max_pool2d", set(pool.get_maxpool2d_kwargs())),
        ("upsample", set(up.get_upsample_kwargs())),
        ("add", {"activations"}),
        *((name, {"memory_config", "output_tensor"}) for name in ("addcmul", "unary_chain", "mish", "leaky_relu")),
        ("multiply", {"activations", "dtype", "memory_config", "output_tensor"}),
        ("subtract", {"dtype", "memory_config"}),
        ("group_norm", {"bias", "input_mask", "weight"}),
        ("from_torch", {"device", "mesh_mapper"}),
    ]
    for name, keywords in passed:
        assert keywords <= (SIGNATURES[name] or set()), name


VIRTUAL_ONLY = {
    "builder/naming.py": {"tt_cnn.virtual.errors.card_error"},
    "pipeline/executors/base.py": {"tt_cnn.virtual.ops.layout.again"},
    "pipeline/work.py": {"tt_cnn.virtual.devices.command_times"},
    "testing/device_time.py": {"tt_cnn.virtual.cost.kernel"},
    "testing/op_comparison.py": {"tt_cnn.virtual.references.comparison_mode"},
}
"""Where the library uses what only the virtual card has, each time behind `is_virtual()`."""
PLANNING = ("builder/strategy_candidates.py", "builder/tuning.py")
"""What plans a layer on the virtual card too. `AutoTunedStrategyConfiguration` loads it when it is used."""


def test_the_virtual_card_is_imported_where_it_is_in_use_only() -> None:
    def imports(file: Path) -> set[str]:
        nodes = ast.walk(ast.parse(file.read_text()))
        return {n.module or "" for n in nodes if isinstance(n, ast.ImportFrom) and "virtual" in (n.module or "")}

    ours = [f for f in FILES if f.relative_to(PACKAGE).parts[0] in PACKAGES[:4]]
    found = {str(f.relative_to(PACKAGE)): imports(f) for f in ours if imports(f)}
    assert {file: names for file, names in found.items() if file not in PLANNING} == VIRTUAL_ONLY
    for file in VIRTUAL_ONLY:
        assert "is_virtual()" in (PACKAGE / file).read_text()


def test_planning_is_loaded_when_it_is_used_only() -> None:
    modules = {f"tt_cnn.{file.removesuffix('.py').replace('/', '.')}" for file in PLANNING}
    for file in FILES:
        if str(file.relative_to(PACKAGE)) not in PLANNING:
            top = [node.module for node in ast.parse(file.read_text()).body if isinstance(node, ast.ImportFrom)]
            assert not modules & set(top), file
