# SPDX-License-Identifier: Apache-2.0
"""Replays equal eager: random programs on every engine, and the faults that were found so, each under its name."""

from __future__ import annotations

import io
import math
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.differential.checking import (
    ALIKE,
    DEVICE,
    EXACT,
    NARROW_STEPS,
    NATIVE,
    STEPS,
    Difference,
    IllConditioned,
    Setting,
    check,
    check_16_bits,
    different_bits,
    eager,
    opened,
    reference,
    too_far,
)
from tests.differential.drawing import Drawing, Taste
from tests.differential.program import Program, Running, Source, kept, values_of
from tests.differential.progress import Progress
from tests.differential.run import TASTES, Tally, programs, run, shown
from tests.differential.shrinking import script, shrunk, still_fails
from tt_cnn.virtual import ttnn
from tt_cnn.virtual.engines.replay.capture import NOTING_FAILED
from tt_cnn.virtual.ops.operation import Operation

ENGINES = (DEVICE, *NATIVE, STEPS, ALIKE, EXACT)
GROUPS = {
    "device": ([DEVICE], 120),
    "native": ([*NATIVE, STEPS, NARROW_STEPS, ALIKE], 60),
    "exact": ([EXACT], 30),
}
"""By numerics, with the programs in the tests that CI runs."""
LONG = {"device": 5000, "native": 4000, "exact": 1000}


def assert_none_wrong(tallies: dict[Setting, Tally]) -> None:
    for setting, tally in tallies.items():
        print(f"{setting}: {tally}")
        assert not tally.differences, shown(*tally.differences[0], setting)
        assert not tally.faults, f"{setting}, seed {tally.faults[0][0].seed}: {tally.faults[0][1]}"


@pytest.mark.parametrize("numerics", GROUPS)
def test_replays_of_random_programs_equal_eager(numerics: str) -> None:
    settings, count = GROUPS[numerics]
    tallies = run(settings, range(count), TASTES.get(numerics))
    assert_none_wrong(tallies)
    for tally in tallies.values():
        assert tally.programs > 0.7 * count, "too many programs are left out to say something"


@pytest.mark.long
@pytest.mark.parametrize("numerics", GROUPS)
def test_replays_of_ten_thousand_random_programs_equal_eager(numerics: str) -> None:
    seeds = range(100_000, 100_000 + LONG[numerics])
    assert_none_wrong(run(GROUPS[numerics][0], seeds, TASTES.get(numerics)))


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
@pytest.mark.parametrize(
    "call", ["softplus(i0)", "softplus(i0, beta=2.0, threshold=1.0)", "gelu(i0)", "elu(i0, alpha=0.5)"]
)
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


ZEROS = (Source("i0", (3, 33, 3), dtype="float32", layout="ROW_MAJOR", kind="zeroes"),)
"""Zeros of both signs, denormals and NaN, in tensors that fill no vectors."""


@pytest.mark.parametrize("setting", [DEVICE, EXACT], ids=str)
@pytest.mark.parametrize(
    "call",
    ["minimum(ttnn.multiply(x, x), x)", "maximum(ttnn.neg(x), x)", "maximum(x, 0.0)", "minimum(x, -0.0)", "relu(x)",
     "relu6(x)", "clamp(x, 0.0, 1.0)", "clamp(x, -1.0, -0.0)", "hardtanh(x)", "hardsigmoid(x)", "logaddexp(x, x)",
     "max(x, dim=-1)", "min(x, dim=-2)", "max(x, dim=0)", "softmax(x, dim=-1)", "softshrink(x)"],
)  # fmt: skip
@pytest.mark.parametrize("moved", ["(0, 1, 2)", "(1, 2, 0)"])
def test_signed_zeros_are_chosen_alike_wherever_they_lie(setting: Setting, call: str, moved: str) -> None:
    lines = (f"x = ttnn.permute(i0, {moved})", "x = ttnn.to_layout(x, ttnn.TILE_LAYOUT)", f"y = ttnn.{call}")
    check(program(*lines, "z = ttnn.concat([y, y], -1)", sources=ZEROS, results=("y", "z")), setting)


@pytest.mark.parametrize("channels", [16, 32, 40])
def test_pools_of_signed_zeros_are_alike(channels: int) -> None:
    image = Source("i0", (1, 1, 64, channels), layout="ROW_MAJOR", kind="zeroes")
    window = f"1, 8, 8, {channels}, [3, 3], [2, 2], [1, 1], [1, 1]"
    check(program(f"y = ttnn.max_pool2d(i0, {window})", sources=(image,)), DEVICE)


SIGNS = ("signbit(x)", "sign(x)", "heaviside(x, 0.5)", "div(x, ttnn.multiply(x, 0.0))", "typecast(x, ttnn.uint16)")


@pytest.mark.parametrize("setting", [DEVICE, NATIVE[0], STEPS], ids=str)
@pytest.mark.parametrize("call", SIGNS[:1])
def test_no_nan_has_a_sign(setting: Setting, call: str) -> None:
    """A processor gives one to those that it makes, or that of an operand, and kernels compute in another order."""
    lines = ("t = ttnn.xlogy(i0, i0)", "x = ttnn.subtract(t, t)", f"y = ttnn.{call}")
    check(program(*lines, sources=(Source("i0", (16, 3), dtype="float32"),)), setting)


@pytest.mark.parametrize("call", SIGNS)
def test_nothing_depends_on_the_sign_of_a_nan(call: str) -> None:
    plain = torch.tensor([float("nan"), 1.0, -1.0, 0.0]).expand(32, 4).contiguous()
    signed = torch.where(plain.isnan(), -plain.abs(), plain)
    with opened(EXACT) as device:
        found = []
        for values in (plain, signed):
            names = {
                "ttnn": ttnn,
                "x": ttnn.from_torch(values, dtype=ttnn.float32, layout=ttnn.TILE_LAYOUT, device=device),
            }
            found += values_of([eval(f"ttnn.{call}", names)])
    assert not different_bits(*found)


def test_bilinear_upsampling_is_noted() -> None:
    image = Source("i0", (2, 6, 5, 32), layout="ROW_MAJOR")
    parts: list[Any] = []
    body = ("a = ttnn.relu(i0)", "b = ttnn.upsample(a, 2, mode='bilinear')", "y = ttnn.relu(b)")
    check(program(*body, sources=(image,)), DEVICE, parts)
    assert parts and not any(NOTING_FAILED in part.reason for part in parts)


# --- the tests' own tools --------------------------------------------------------------------------------------------


def test_a_wrong_number_is_seen() -> None:
    x = torch.tensor([1.0, -0.0, float("nan"), float("inf")])
    assert not different_bits(x, x.clone()) and not too_far(x, x.double(), 1e-4)
    assert different_bits(x, torch.tensor([1.0, 0.0, float("nan"), float("inf")]))
    assert too_far(x, torch.tensor([1.0, 0.0, float("nan"), float("-inf")]).double(), 1e-4)
    assert too_far(x, torch.tensor([1.001, 0.0, float("nan"), float("inf")]).double(), 1e-4)


def test_the_reference_computes_in_float64_throughout(monkeypatch: pytest.MonkeyPatch) -> None:
    """A result that some op leaves in float32 would be a coarse reference, or break the op after it."""
    coarse: set[str] = set()
    whole = Operation._check

    def looked_at(self: Operation, value: torch.Tensor, spec: Any) -> torch.Tensor:
        if value.is_floating_point() and value.dtype != torch.float64:
            coarse.add(self.name)
        return whole(self, value, spec)

    seen = [*programs(range(60), "native")]
    whole_numbers = Source("i0", (1, 1, 64, 32), dtype="int32")
    weights = Source("c1", (32, 32), kind="weights", role="constant")
    cast = ("x = ttnn.typecast(i0, ttnn.bfloat16)", "y = ttnn.linear(x, c1)")
    monkeypatch.setattr(Operation, "_check", looked_at)
    for one in [*seen, program(*cast, sources=(whole_numbers, weights))]:
        with opened(Setting("native", "float64")) as device:
            eager(one, device)
    assert not coarse


NARROW = (
    ("layer_norm(i0, epsilon=1e-2)", Source("i0", (32, 16, 1), dtype="float32")),
    ("sin(ttnn.multiply(i0, i0))", Source("i0", (1, 16, 32, 32), dtype="float32", kind="wide")),
    ("squared_difference(ttnn.sum(i0, dim=0, keepdim=True), i0)", Source("i0", (1, 16, 32, 32), dtype="float32")),
    ("reciprocal(ttnn.subtract(ttnn.mean(i0, dim=-1, keepdim=True), i0))", Source("i0", (1, 1, 32, 64))),
)


def assert_noticed(one: Program, format: torch.dtype) -> None:
    with pytest.raises(IllConditioned):
        check_16_bits(one, reference(one), 2e-2, [format])


@pytest.mark.parametrize(("call", "source"), NARROW)
def test_programs_that_16_bits_cannot_carry_are_noticed(call: str, source: Source) -> None:
    assert_noticed(program(f"y = ttnn.{call}", sources=(source,)), torch.float16)


@pytest.mark.parametrize("name", ["221238", "222075", "222171", "223308", "321302", "321328"])
def test_programs_that_went_wrong_in_16_bits_on_a_gpu_are_noticed(name: str) -> None:
    assert_noticed(kept(name), torch.bfloat16)


EXPONENTIALS = (
    ("y = ttnn.multiply(ttnn.exp(i0), 30.0)",),
    ("x = ttnn.expm1(i0)", "y = ttnn.multiply(x, 30.0)"),
    ("x = ttnn.square(ttnn.square(i0))", "y = ttnn.multiply(ttnn.square(x), 1e-3)"),
    ("y = ttnn.multiply(ttnn.reciprocal(ttnn.add(i0, 20.0)), 0.25)",),
)


@pytest.mark.parametrize("body", EXPONENTIALS)
def test_larger_inputs_do_not_overflow_in_16_bits(body: tuple[str, ...]) -> None:
    """The first input is small, and the next ones are up to four times as large."""
    whole = Source("i0", (1, 1, 32, 32), kind="whole")
    check(program(*body, sources=(whole,)), NARROW_STEPS)


def test_an_exponential_before_a_convolution_does_not_overflow_in_16_bits() -> None:
    check(kept("423337"), NARROW_STEPS)


def test_the_sign_of_a_nan_in_a_drawn_program_is_read_by_nothing() -> None:
    check(kept("468082"), DEVICE)


@pytest.mark.parametrize("setting", [*NATIVE, STEPS], ids=str)
def test_the_error_function_of_small_numbers_in_a_drawn_program(setting: Setting) -> None:
    check(kept("1100282"), setting)


@pytest.mark.parametrize("setting", [*NATIVE, STEPS], ids=str)
@pytest.mark.parametrize("kind", ["small", "tiny", "below"])
@pytest.mark.parametrize(
    "call",
    ["erf(i0)", "elu(i0)", "elu(i0, alpha=0.5)", "sigmoid(i0)", "silu(i0)", "mish(i0)", "softplus(i0)",
     "softplus(i0, beta=2.0, threshold=1.0)", "tanh(i0)", "gelu(ttnn.abs(i0))", "expm1(i0)"],
)  # fmt: skip
def test_results_near_zero_keep_their_digits(setting: Setting, call: str, kind: str) -> None:
    """Engines take 1 from numbers near 1, or end their functions where others go on."""
    small = Source("i0", IMAGE.shape, dtype="float32", kind=kind)
    check(program(f"y = ttnn.{call}", sources=(small,)), setting)


@pytest.mark.parametrize("setting", [*NATIVE, STEPS], ids=str)
@pytest.mark.parametrize("call", ["floor_div(i0, i1)", "floor(ttnn.div(i0, i1))", "ceil(ttnn.sqrt(ttnn.square(i0)))"])
def test_whole_quotients_stay_whole(setting: Setting, call: str) -> None:
    """OpenVINO multiplies with the reciprocal of a divisor, and 60 times a third is less than 20."""
    pair = tuple(Source(f"i{i}", IMAGE.shape, kind="whole") for i in range(2))
    check(program(f"y = ttnn.{call}", sources=pair), setting)


@pytest.mark.parametrize("setting", ENGINES, ids=str)
def test_an_input_that_is_allocated_anew_where_it_was_is_the_one_that_is_read(setting: Setting) -> None:
    check(program("y = ttnn.add(ttnn.relu(i0), i0)", sources=(replace(IMAGE, anew=True),)), setting)


def test_average_pools_are_compiled_with_what_surrounds_them() -> None:
    """A cut before a pool would leave the padding of its image to be computed, in torch, through all before it."""
    image = Source("i0", (1, 1, 49, 32), layout="ROW_MAJOR")
    window = "1, 7, 7, 32, [7, 7], [1, 1], [0, 0]"
    parts: list[Any] = []
    body = ("a = ttnn.add(i0, i0)", f"b = ttnn.avg_pool2d(a, {window})", "y = ttnn.multiply(b, 2.0)")
    check(program(*body, sources=(image,)), DEVICE, parts)
    assert [part.engine for part in parts] == ["kernels"]


def test_sums_of_transposed_convolutions_are_32_bits_wide_in_steps_of_16() -> None:
    """On a processor torch adds up the nine products of a kernel in 16 bits, which a GPU does not."""
    check(kept("2600211"), NARROW_STEPS)


def test_the_base_of_a_power_is_not_rounded_to_16_bits() -> None:
    check(kept("3730136"), NARROW_STEPS)


def test_scores_of_attention_are_moved_as_16_bits_move_them() -> None:
    """In inference mode torch's dispatcher shows a `matmul` whole, and what it leaves was not moved."""
    q, k, v = (Source(f"i{i}", (1, 1, 64, 32), kind=kind) for i, kind in enumerate(("wide", "whole", "normal")))
    call = "y = ttnn.transformer.scaled_dot_product_attention(i0, i1, i2, is_causal=False)"
    assert_noticed(program(call, sources=(q, k, v)), torch.bfloat16)


def test_programs_of_exact_numbers_are_not_left_out_for_16_bits() -> None:
    whole = Source("i0", (1, 16, 32, 32), kind="whole")
    one = program("y = ttnn.subtract(ttnn.relu(i0), i0)", "z = ttnn.sin(i0)", sources=(whole,))
    check_16_bits(one, reference(one), 2e-2, [torch.float16, torch.bfloat16])


def test_a_failure_is_shrunk_and_printed_as_a_script_that_stands_alone(tmp_path: Path) -> None:
    found = program(
        "t1 = ttnn.relu(i0)",
        "t2 = ttnn.add(t1, i0)",
        "t3 = ttnn.sigmoid(t2)",
        "t4 = ttnn.multiply(t3, t3)",
        results=("t4", "t2"),
    )
    small = shrunk(found, lambda one: any("sigmoid" in line for line in one.body) and _runs(one))
    assert len(small.body) <= 2 and any("sigmoid" in line for line in small.body)
    path = tmp_path / "difference.py"
    path.write_text(script(small, DEVICE))
    told = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, cwd=tmp_path)
    assert told.returncode == 0 and told.stdout.count("equal") == 5, told.stderr
    assert not still_fails(small, DEVICE)


def _runs(one: Program) -> bool:
    try:
        check(one, ALIKE)
    except Difference:
        return True
    except Exception:
        return False
    return True


def test_programs_are_small_with_the_padding_of_their_tiles_too() -> None:
    """Tensors of 24 to 32 Mi elements were results, and one of 1024 Mi was computed before it was refused."""
    with opened(ALIKE) as device:
        drawing = Drawing(1, Taste(), ttnn, device)
        tall = drawing.source("input", shape=(1, 1, 512, 64), dtype="bfloat16", layout="TILE")
        assert not drawing.make(f"ttnn.reshape({tall}, (512, 64, 1, 1))")
        assert drawing.make(f"ttnn.reshape({tall}, (1, 1, 64, 512))")
    for one in programs(range(20), "native"):
        with opened(ALIKE) as device:
            results = Running(replace(one, results=_tensors(one)), ttnn, device).call()
            assert max(math.prod(tensor.padded_shape) for tensor in results) <= Taste().largest_stored


def _tensors(one: Program) -> tuple[str, ...]:
    """All that the program makes and does not free."""
    made = [name for line in one.body if " = " in line for name in re.findall(r"t\d+", line.split(" = ")[0])]
    freed = {name for line in one.body for name in re.findall(r"(?:deallocate|move|reallocate)\((t\d+)\)", line)}
    return tuple(name for name in made if name not in freed)


def test_a_program_that_takes_long_is_named_while_it_runs() -> None:
    told = io.StringIO()
    with Progress(told, slow=0.02).watched("seed 7, its reference"):
        time.sleep(0.2)
        assert told.getvalue() == "seed 7, its reference: still running after 0 s\n"
    assert "seed 7, its reference: took 0 s" in told.getvalue()
    with Progress(told, slow=60.0).watched("seed 8"):
        pass
    assert "seed 8" not in told.getvalue()


def test_a_run_ends_in_its_time_and_says_how_far_it_came() -> None:
    told = io.StringIO()
    tally = run([ALIKE], range(1000), progress=Progress(told, every=0.0), seconds=0.0)[ALIKE]
    assert tally.programs == 1 and told.getvalue().startswith("1 of 1000 seeds") and "stopped after" in told.getvalue()


def test_programs_are_the_same_for_the_same_seed() -> None:
    first, again = (next(iter(programs(range(3, 4), "device"))) for _ in range(2))
    assert first == again


def test_cards_are_closed_after_a_program_that_fails() -> None:
    with pytest.raises(NameError), opened(DEVICE):
        raise NameError
    with opened(DEVICE):
        pass
