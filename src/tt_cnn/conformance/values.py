# SPDX-License-Identifier: Apache-2.0
"""The numbers that kernels compute: to the last digit (`values`), and by the size of their error (`error`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from tt_cnn.conformance.answer import NotThere
from tt_cnn.conformance.corpus import Corpus, Record
from tt_cnn.conformance.planning_card import RECORDED_L1_SMALL
from tt_cnn.conformance.reference import REFERENCES
from tt_cnn.conformance.statistics import pcc, rms, same_numbers, same_specials
from tt_cnn.conformance.tally import Tally
from tt_cnn.conformance.value_calls import VALUE_CALLS, converted_inputs
from tt_cnn.conformance.verdict import Verdict
from tt_cnn.virtual import ttnn
from tt_cnn.virtual.arch import card_by_name
from tt_cnn.virtual.devices.device import MeshDevice
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types import DataType, MeshShape

PCC_FLOOR = {DataType.BFLOAT8_B: 0.999, DataType.BFLOAT4_B: 0.999}
PCC_FLOOR_OTHERWISE = 0.9999
ERROR_RATIO = (0.7, 1.4)
CLOSER_THAN_TORCH = 3
"""How many times nearer to the real kernel than float32 torch the virtual card must be, where it is not equal."""


@contextmanager
def computing_card(name: str, numerics: str) -> Iterator[MeshDevice]:
    """A clean card that computes."""
    card = MeshDevice(
        card_by_name(name),
        shape=MeshShape(1, 1),
        device_ids=[0],
        l1_small_size=RECORDED_L1_SMALL,
        numerics=numerics,
        hazards="off",
    )
    try:
        yield card
    finally:
        card.close()


def judge_values(found: torch.Tensor, real: torch.Tensor, reference: torch.Tensor) -> Verdict:
    """`reference` is float32 torch on the converted inputs."""
    if found.shape != real.shape:
        return Verdict(False, f"shape {list(real.shape)}", f"shape {list(found.shape)}")
    if same_numbers(found, real):
        return Verdict(True, "equal", "equal")
    limit = rms(reference.reshape(real.shape), real) / CLOSER_THAN_TORCH
    distance = rms(found, real)
    agrees = same_specials(found, real) and distance <= limit
    differing = int((found != real).sum())
    return Verdict(agrees, f"RMS difference at most {limit:.3g}", f"{distance:.3g}, {differing}/{real.numel()} differ")


def judge_error(found: torch.Tensor, real: torch.Tensor, truth: torch.Tensor, kind: DataType) -> Verdict:
    """`truth` is float32 torch on the unconverted inputs."""
    if found.shape != real.shape:
        return Verdict(False, f"shape {list(real.shape)}", f"shape {list(found.shape)}")
    truth = truth.reshape(real.shape)
    floor = PCC_FLOOR.get(kind, PCC_FLOOR_OTHERWISE)
    have, want, correlation = rms(found, truth), rms(real, truth), pcc(found, real)
    low, high = (ratio * want for ratio in ERROR_RATIO)
    agrees = same_specials(found, real) and low <= have <= high and correlation >= floor
    return Verdict(agrees, f"RMS error {low:.3g} to {high:.3g}, PCC {floor}", f"{have:.3g}, PCC {correlation:.6f}")


def read_back(tensor: Tensor) -> torch.Tensor:
    return ttnn.to_torch(tensor).float()


def guarded(op: str, judge: Callable[[], Verdict]) -> Verdict:
    """A call that fails does not agree; what is not there yet is passed on."""
    try:
        return judge()
    except NotThere:
        raise
    except NotImplementedError as error:
        raise NotThere(f"the numbers of ttnn.{op}") from error
    except Exception as error:
        return Verdict(False, "numbers", f"{type(error).__name__}: {error}")


def replay_values(corpus: Corpus, record: Record, tally: Tally, ops: Collection[str]) -> None:
    case = record.case
    op, arguments, key = case["op"], case["args"], case["id"]
    inputs = case_inputs(corpus, key)
    real = torch.from_numpy(corpus.arrays[f"{key}.out"])
    kind = DataType[record.result["out_dtype"]]
    if op not in VALUE_CALLS:
        raise NotThere(f"a replay of {op} values")

    def run(numerics: str) -> torch.Tensor:
        with computing_card(record.card, numerics) as card:
            return read_back(VALUE_CALLS[op](card, inputs, arguments))

    reference: Callable[[list[torch.Tensor], dict[str, Any]], torch.Tensor] = REFERENCES[op]
    verdicts = {
        "values": guarded(
            op, lambda: judge_values(run("exact"), real, reference(converted_inputs(op, inputs, arguments), arguments))
        ),
        "error": guarded(op, lambda: judge_error(run("device"), real, reference(inputs, arguments), kind)),
    }
    tally.add(arguments.get("name", op), record, verdicts)


def case_inputs(corpus: Corpus, key: str) -> list[torch.Tensor]:
    inputs: list[torch.Tensor] = []
    while f"{key}.in{len(inputs)}" in corpus.arrays:
        inputs.append(torch.from_numpy(corpus.arrays[f"{key}.in{len(inputs)}"]))
    return inputs
