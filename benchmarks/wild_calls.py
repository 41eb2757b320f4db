# SPDX-License-Identifier: Apache-2.0
"""Wild calls of every function of the virtual TT-NN: each gives a result, or a typed error when it is called.

    python benchmarks/wild_calls.py [--calls 20000] [--seed 1] [--op NAME] [--show 10]

Counts what must not happen: errors inside tt-cnn, failures on a queue of what was accepted and could have been refused,
errors of other kinds, crashes and hangs, refused calls that changed something, and bytes of L1 and DRAM that stay when
the tensors of a call are gone. Ends with status 1 where any of these is not 0. Calls run in a process of their own,
which is started again behind a call that ended it.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from wild_arguments import REFUSALS, Arguments, Pool, arguments, functions

from tt_cnn.virtual import ttnn
from tt_cnn.virtual.arguments.call_script import call_script
from tt_cnn.virtual.devices.device import MeshDevice
from tt_cnn.virtual.errors.card_error import InternalError, ValuesError
from tt_cnn.virtual.types.enums import BufferType

BATCH = 25
"""Calls that share tensors."""
LIMIT_S = 60
"""A call that takes longer hangs."""
HANG = 17
"""The status of a process that hung."""
GOOD = ("results", "typed errors", "errors of values on the queue")
WRONG = (
    "internal errors",
    "refused on the queue",
    "errors of other kinds",
    "refused but changed something",
    "bytes leaked",
    "crashes",
    "hangs",
)
KINDS = (BufferType.DRAM, BufferType.L1)


class Wrong(Exception):
    """What must not happen, and the error that shows it."""

    def __init__(self, kind: str, error: BaseException | None = None, count: int = 1) -> None:
        super().__init__(kind)
        self.kind, self.error, self.count = kind, error, count

    def place(self) -> str:
        """Where it broke, to count each place once."""
        error: BaseException | None = self.error
        if error is None:
            return self.kind
        while isinstance(error, InternalError) and error.__cause__ is not None:
            error = error.__cause__
        frames = traceback.extract_tb(error.__traceback__)
        ours = [frame for frame in frames if "tt_cnn" in frame.filename] or frames
        where = f"{ours[-1].filename.split('tt_cnn/')[-1]}:{ours[-1].lineno}"
        return f"{self.kind} at {where}, {type(error).__name__}"

    def text(self) -> str:
        error = (self.error.__cause__ if isinstance(self.error, InternalError) else self.error) or self.error
        return "" if error is None else "".join(f"# {line}\n" for line in str(error).strip().splitlines()[:8])


def in_use(devices: list[MeshDevice]) -> list[int]:
    return [one.memory_view(kind).total_bytes_allocated_per_bank for one in devices for kind in KINDS]


def settle(devices: list[MeshDevice]) -> None:
    """Wait, and raise what a queue has to tell; all of it is reported afterwards."""
    first: Exception | None = None
    for one in devices:
        for queue in range(len(one.queues)):
            try:
                ttnn.synchronize_device(one, queue)
            except Exception as error:
                first = first or error
    if first is not None:
        raise first


def outcome(function: Callable[..., Any], given: Arguments, pool: Pool, devices: list[MeshDevice]) -> str:
    """`results` or `typed errors`; anything else is raised as Wrong."""
    before, allocated = in_use(devices), [t.is_allocated() for t in pool.tensors]
    kept: Any = None
    try:
        kept = function(*given[0], **given[1])
        word = "results"
    except InternalError as error:
        raise Wrong("internal errors", error) from None
    except REFUSALS as error:
        if not str(error).strip():
            raise Wrong("errors of other kinds", error) from None
        word = "typed errors"
    except Exception as error:
        raise Wrong("errors of other kinds", error) from None
    try:
        settle(devices)
    except InternalError as error:
        raise Wrong("internal errors", error) from None
    except ValuesError:
        word = "errors of values on the queue"
    except Exception as error:
        raise Wrong("refused on the queue", error) from None
    if word == "typed errors" and [t.is_allocated() for t in pool.tensors] != allocated:
        raise Wrong("refused but changed something")
    del kept
    if any(now > then for now, then in zip(in_use(devices), before, strict=True)):
        gc.collect()
        for one in devices:
            one.clear_program_cache()  # programs keep their tables, a reshape's map in DRAM among them
        leaked = sum(max(0, now - then) for now, then in zip(in_use(devices), before, strict=True))
        if leaked:
            raise Wrong("bytes leaked", count=leaked)
    return word


def batch(number: int, calls: int, seed: int, names: list[str], devices: list[MeshDevice]) -> dict[str, Any]:
    """The counts of some calls, and an example of each thing that is wrong."""
    draw = random.Random(f"{seed}/{number}")
    torch.manual_seed(draw.randrange(2**31))
    pool = Pool(draw, *devices)
    known = functions()
    counts: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for _ in range(calls):
        name = draw.choice(names)
        given = arguments(known[name], pool)
        faulthandler.dump_traceback_later(LIMIT_S, exit=True)
        try:
            counts[outcome(known[name], given, pool, devices)] += 1
        except Wrong as wrong:
            counts[wrong.kind] += wrong.count
            examples.setdefault(f"ttnn.{name}: {wrong.place()}", wrong.text() + call_script(f"ttnn.{name}", *given))
        finally:
            faulthandler.cancel_dump_traceback_later()
    pool.tensors.clear()
    del pool, given
    for one in devices:
        one.clear_program_cache()
    gc.collect()
    left = sum(in_use(devices)) + sum(
        one.memory_view(BufferType.L1_SMALL).total_bytes_allocated_per_bank for one in devices
    )
    if left:
        counts["bytes leaked"] += left
        makers = sorted({live.made_by for one in devices for live in one.live.values()})
        examples.setdefault(f"{left} B left by calls of batch {number}, made by {makers}", "")
    return {"batch": number, "counts": counts, "examples": examples}


def work(first: int, calls: int, seed: int, names: list[str]) -> None:
    """Batches from `first` on, one line of JSON each."""
    warnings.simplefilter("ignore")
    os.chdir(tempfile.mkdtemp())  # some calls write files
    devices = [
        ttnn.open_device(device_id=0, l1_small_size=65536, num_command_queues=2),
        ttnn.open_device(device_id=1, l1_small_size=65536),
    ]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # calls that print do not disturb
    gc.collect()
    gc.freeze()
    for number in range(first, -(-calls // BATCH)):
        done = batch(number, min(BATCH, calls - number * BATCH), seed, names, devices)
        answers.write(json.dumps(done) + "\n")
        answers.flush()
        if done["counts"]["bytes leaked"]:
            return  # the next batch begins with new cards


def watch(calls: int, seed: int, op: str) -> tuple[Counter[str], dict[str, str]]:
    """All calls, in as many processes as it takes."""
    counts: Counter[str] = Counter()
    examples: dict[str, str] = {}
    next_batch, batches = 0, -(-calls // BATCH)
    while next_batch < batches:
        line = [sys.executable, __file__, "--calls", str(calls), "--seed", str(seed), "--worker", str(next_batch)]
        with tempfile.TemporaryFile("w+") as said:
            child = subprocess.Popen([*line, "--op", op], stdout=subprocess.PIPE, stderr=said, text=True)
            assert child.stdout is not None
            for text in child.stdout:
                done = json.loads(text)
                counts.update(done["counts"])
                for what, script in done["examples"].items():
                    examples.setdefault(what, script)
                next_batch = done["batch"] + 1
            status = child.wait()
            said.seek(0)
            last = said.read()[-4000:]
        if status:
            kind = "hangs" if "Timeout" in last else "crashes"
            counts[kind] += 1
            examples[f"{kind}: status {status} in batch {next_batch} of seed {seed}"] = last
            next_batch += 1
    return counts, examples


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--op", default="", help="only functions of this name")
    parser.add_argument(
        "--show", type=int, default=10, help="how many things that are wrong to show, each with a script"
    )
    parser.add_argument("--worker", type=int, default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    names = sorted(name for name in functions() if options.op in ("", name))
    if not names:
        parser.error(f"there is no function {options.op}")
    if options.worker is not None:
        work(options.worker, options.calls, options.seed, names)
        return 0
    begin = time.monotonic()
    counts, examples = watch(options.calls, options.seed, options.op)
    seconds = time.monotonic() - begin
    print(f"{options.calls} wild calls of {len(names)} functions, seed {options.seed}, in {seconds:.0f} s")
    for kind in (*GOOD, *WRONG):
        print(f"  {kind:<32}{counts[kind]:>8}")
    for what, script in list(examples.items())[: options.show]:
        print(f"\n{what}\n" + "\n".join(f"    {one}" for one in script.splitlines()))
    if len(examples) > options.show:
        print(f"\n{len(examples) - options.show} more places; --show {len(examples)} shows them")
    return 1 if any(counts[kind] for kind in WRONG) else 0


if __name__ == "__main__":
    sys.exit(main())
