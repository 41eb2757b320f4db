"""Replays equal eager: random programs on every engine, and the faults that were found so, each under its name."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.differential.checking import (
    ALIKE,
    DEVICE,
    EXACT,
    NATIVE,
    STEPS,
    Difference,
    Setting,
    check,
    different_bits,
    opened,
    too_far,
)
from tests.differential.drawing import Taste
from tests.differential.program import Program, Source
from tests.differential.run import Tally, examine, programs, shown
from tests.differential.shrinking import script, shrunk, still_fails

ENGINES = (DEVICE, *NATIVE, STEPS, ALIKE, EXACT)
QUICK = {"kernels": 60, "openvino": 15, "onnxruntime": 25, "steps": 40, "torch": 30, "cpu": 12}
"""Programs of each engine in the tests that CI runs."""
LONG = 10_000
SMALL = Taste(largest=1 << 11, length=(2, 6))
"""`exact` numerics follows every rounding: what is large takes long."""


@pytest.fixture(autouse=True)
def run(setting: Setting, seeds: range) -> Tally:
    tally, taste = Tally(), SMALL if setting is EXACT else None
    for program in programs(seeds, setting, taste):
        examine(program, setting, tally)
    return tally


def assert_none_wrong(tally: Tally, setting: Setting) -> None:
    print(f"{setting}: {tally}")
    assert not tally.differences, shown(*tally.differences[0], setting)
    assert not tally.faults, f"seed {tally.faults[0][0].seed}: {tally.faults[0][1]}"


@pytest.mark.parametrize("setting", ENGINES, ids=str)
def test_replays_of_random_programs_equal_eager(setting: Setting) -> None:
    tally = run(setting, range(QUICK[setting.engine]))
    assert_none_wrong(tally, setting)
    assert tally.programs > 0.7 * QUICK[setting.engine], "too many programs are left out to say something"


@pytest.mark.long
@pytest.mark.parametrize("setting", ENGINES, ids=str)
def test_replays_of_ten_thousand_random_programs_equal_eager(setting: Setting) -> None:
    share = LONG * QUICK[setting.engine] // sum(QUICK[one.engine] for one in ENGINES)
    assert_none_wrong(run(setting, range(100_000, 100_000 + share)), setting)


# --- faults that were found, by name -------------------------------------------------------------------------------

IMAGE = Source("i0", (1, 16, 32, 32))
WHOLE = Source("i0", (1, 16, 32, 32), dtype="int32")


def program(*body: str, sources: tuple[Source, ...] = (IMAGE,), results: tuple[str, ...] = ("y",)) -> Program:
    return Program(sources, (), body, results, seed=7)


@pytest.mark.parametrize("setting", ENGINES, ids=str)
def test_a_value_used_again_is_read_where_it_was_and_not_where_a_later_step_puts_it(setting: Setting) -> None:
    check(program("y = ttnn.add(ttnn.multiply(i0, 2.0), i0)"), setting)


@pytest.mark.parametrize("setting", ENGINES, ids=str)
def test_an_operand_that_is_both_operands(setting: Setting) -> None:
    check(program("y = ttnn.subtract(ttnn.add(ttnn.maximum(i0, i0), 1.5), i0)"), setting)


@pytest.mark.parametrize("setting", ENGINES, ids=str)
@pytest.mark.parametrize("cut", ["ttnn.logical_not(i0)", "ttnn.sort(i0, dim=-1)[0]"])
def test_state_is_added_to_once_in_a_trace_that_no_engine_has_whole(setting: Setting, cut: str) -> None:
    total = Source("s1", IMAGE.shape, kind="zeros", role="state")
    check(program("ttnn.add_(s1, i0)", f"y = {cut}", sources=(IMAGE, total), results=("s1", "y")), setting)


@pytest.mark.parametrize("setting", ENGINES, ids=str)
def test_state_is_added_to_once_with_inputs_of_whole_numbers(setting: Setting) -> None:
    total = Source("s1", WHOLE.shape, dtype="int32", role="state")
    check(program("ttnn.add_(s1, i0)", "y = ttnn.add(s1, s1)", sources=(WHOLE, total), results=("s1", "y")), setting)


@pytest.mark.parametrize("setting", ENGINES, ids=str)
@pytest.mark.parametrize("call", ["softplus(i0)", "softplus(i0, beta=2.0, threshold=1.0)", "gelu(i0)", "elu(i0, 0.5)"])
def test_functions_with_parameters_are_captured_with_them(setting: Setting, call: str) -> None:
    check(program(f"y = ttnn.{call}"), setting)


@pytest.mark.parametrize("setting", ENGINES, ids=str)
@pytest.mark.parametrize(
    "call",
    ["relu(i0)", "sigmoid(i0)", "exp(i0)", "mish(i0)", "silu(i0)", "tanh(i0)", "clamp(i0, -0.5, 0.5)", "relu6(i0)",
     "leaky_relu(i0, 0.1)", "maximum(i0, 0.0)", "softmax(i0, dim=-1)", "max(i0, dim=-1)", "mean(i0, dim=-1)",
     "concat([i0, i0], 1)", "add(i0, i0)"],
)  # fmt: skip
def test_nan_and_infinity_stay_where_they_are(setting: Setting, call: str) -> None:
    check(program(f"y = ttnn.{call}", sources=(Source("i0", IMAGE.shape, dtype="float32", kind="special"),)), setting)


# --- the tests' own tools --------------------------------------------------------------------------------------------


def test_a_wrong_number_is_seen() -> None:
    x = torch.tensor([1.0, -0.0, float("nan"), float("inf")])
    assert not different_bits(x, x.clone()) and not too_far(x, x.double(), 1e-4)
    assert different_bits(x, torch.tensor([1.0, 0.0, float("nan"), float("inf")]))
    assert too_far(x, torch.tensor([1.0, 0.0, float("nan"), float("-inf")]).double(), 1e-4)
    assert too_far(x, torch.tensor([1.001, 0.0, float("nan"), float("inf")]).double(), 1e-4)


def test_a_failure_is_shrunk_and_printed_as_a_script_that_stands_alone(tmp_path: Path) -> None:
    found = program(
        "a = ttnn.relu(i0)", "b = ttnn.add(a, i0)", "c = ttnn.sigmoid(b)", "y = ttnn.multiply(c, c)", results=("y", "b")
    )
    small = shrunk(found, lambda one: any("sigmoid" in line for line in one.body) and _runs(one))
    assert len(small.body) <= 2 and any("sigmoid" in line for line in small.body)
    path = tmp_path / "difference.py"
    path.write_text(script(small, DEVICE))
    names: dict[str, object] = {"__name__": "difference"}
    exec(compile(path.read_text(), str(path), "exec"), names)
    assert not still_fails(small, DEVICE)
    assert "Program(" in path.read_text() and "sigmoid" in path.read_text()


def _runs(one: Program) -> bool:
    try:
        check(one, ALIKE)
    except Difference:
        return True
    except Exception:
        return False
    return True


def test_programs_are_the_same_for_the_same_seed() -> None:
    first, again = (next(iter(programs(range(3, 4), DEVICE))) for _ in range(2))
    assert first == again


def test_cards_are_closed_after_a_program_that_fails() -> None:
    with pytest.raises(NameError), opened(DEVICE):
        raise NameError
    with opened(DEVICE):
        pass
