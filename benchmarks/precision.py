# SPDX-License-Identifier: Apache-2.0
"""What precision alone gains under the guard, and how good the estimates are that it is chosen by.

    python benchmarks/precision.py resnet50:16 mobilenetv2 yolov4 vanilla_unet yolov8s
    python benchmarks/precision.py resnet50 --ranks 12

The first prints for each model the predicted device time before and after, PCC on the calibration input and on one that
nothing was chosen on, and the seconds that it took, of the processor and of the clock. `--ranks` lowers single layers
instead, so many of them, and prints the rank correlation of estimated and measured losses.
"""

from __future__ import annotations

import argparse
import time

import torch

from tt_cnn import ttnn
from tt_cnn.builder.overrides import Assignment
from tt_cnn.optimizer.guard import PccGuard
from tt_cnn.optimizer.moves import Move, moves_of
from tt_cnn.optimizer.prediction import planned_network
from tt_cnn.optimizer.search import Budget, Search
from tt_cnn.optimizer.steps.precision import PrecisionStep
from tt_cnn.optimizer.verification import verify

SETTINGS = (ttnn.MathFidelity.LoFi, ttnn.bfloat4_b)
"""That single layers are lowered to for `--ranks`."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="+", help="a model's name, with its batch size as in resnet50:16")
    parser.add_argument("--card", default="n150")
    parser.add_argument("--precision", default="tuned", choices=("tuned", "bfloat16"))
    parser.add_argument("--budget", type=float, default=120.0)
    parser.add_argument("--ranks", type=int, default=0)
    options = parser.parse_args()
    for model in options.models:
        name, _, batch = model.partition(":")
        if options.ranks:
            compare_ranks(name, options.card, options.ranks)
        else:
            choose(name, int(batch or 1), options)


def choose(name: str, batch_size: int, options: argparse.Namespace) -> None:
    began, spent = time.perf_counter(), time.process_time()
    where = {"card": options.card, "batch_size": batch_size, "precision": options.precision}
    with planned_network(name, **where) as network, PccGuard.for_model(name, **where) as guard:
        search = Search.starting_from(network, guard=guard, budget=Budget(seconds=options.budget))
        before = search.best.device_ns
        start = guard.accepts(Assignment()).pcc
        PrecisionStep().run(search)
        seconds = time.process_time() - spent, time.perf_counter() - began
        verdict = verify(search, guard)
        after = guard.accepts(search.best.assignment).pcc
        unseen = guard.verify(Assignment()).pcc
        print(
            f"{name}:{batch_size} {before / 1e3:.0f} -> {search.best.device_ns / 1e3:.0f} us "
            f"({before / search.best.device_ns:.3f} times); PCC {shown(start)} -> {shown(after)}; "
            f"unseen {shown(unseen)} -> {shown(verdict.pcc)}; {seconds[0]:.0f} s of the processor, {seconds[1]:.0f} s; "
            f"{len(search.journal.attempts)} attempts, {network.predictions} planned",
            flush=True,
        )


def compare_ranks(name: str, card: str, count: int) -> None:
    with PccGuard.for_model(name, card=card) as guard:
        own = guard.model.configurations  # type: ignore[attr-defined]
        for value in SETTINGS:
            moves = [move for layer, each in own.items() for move in moves_of(layer, each) if move.value == value]
            losses = guard.losses(Assignment(), moves)
            ordered = sorted(losses, key=lambda move: -sum(losses[move].values()))
            picked = ordered[:: max(1, len(ordered) // count)][:count]
            if len(picked) < 3:
                continue
            start = guard.accepts(Assignment()).pcc
            for output in start:
                pairs = [(losses[move][output], start[output] - lowered(guard, move, output)) for move in picked]
                print(f"{name} {value.name} {output}: rank correlation {ranks(pairs):.2f} of {len(pairs)} layers")


def lowered(guard: PccGuard, move: Move, output: str) -> float:
    return guard.accepts(Assignment({move.layer: move.settings})).pcc[output]


def ranks(pairs: list[tuple[float, float]]) -> float:
    places = torch.tensor(pairs).argsort(0).argsort(0).float()
    return float(torch.corrcoef(places.T)[0, 1])


def shown(pcc: dict[str, float]) -> str:
    return " ".join(f"{value:.4f}" for value in pcc.values())


if __name__ == "__main__":
    main()
