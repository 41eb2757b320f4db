# SPDX-License-Identifier: Apache-2.0
"""One subject of `growth.py` in a process of its own: says what it took to make it, then replays on request.

Ours is brought up from the torch module, as `tt-cnn bringup` does it without its optimiser, for an n150: no model is
tuned for all these sizes. Weights are seeded, with statistics measured on small images.
"""

from __future__ import annotations

import gc
import platform
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from asked import answer
from growth_fit import OURS
from speed_int8 import products_of
from torch import nn

from tt_cnn.bench import Subject, VirtualCard, create_peer, missing_packages
from tt_cnn.bench.rounds import batches_of_a_turn, settled
from tt_cnn.bringup.accuracy import RUNGS
from tt_cnn.bringup.bring_up import BringUp
from tt_cnn.bringup.source import model_source
from tt_cnn.models.running import reference_outputs
from tt_cnn.testing.pcc import agreement
from tt_cnn.virtual.engines.replay.replay import OnHost
from tt_cnn.virtual.kernel_library import library
from tt_cnn.zoo.resnet import Bottleneck, ResNet

CARD = "n150"
WARM_UPS = 2
SMALL = (1, 3, 64, 64)
"""What statistics of batch norms are measured on: they do not depend on the size, and torch is slow on large images."""


@dataclass(frozen=True)
class Kind:
    """What grows."""

    factory: str
    """Without the number, where it ends with one."""
    sizes: tuple[str, ...]
    shape: Callable[[str], tuple[int, int, int, int]]


def _image(size: str) -> tuple[int, int, int, int]:
    height, width = (int(one) for one in size.split("x"))
    return 1, 3, height, width


KINDS = {
    "batch": Kind("resnet_blocks_3", ("1", "2", "4", "8"), lambda size: (int(size), 3, 224, 224)),
    "resolution": Kind("unet", ("240x320", "480x640", "768x768", "1024x1024"), _image),
    "depth": Kind("resnet_blocks_{}", ("1", "2", "4", "8"), lambda size: (1, 3, 224, 224)),
}
"""ResNet50 by images of a batch, UNet by the size of its images, and ResNet by the bottlenecks of each stage."""


def unet() -> nn.Module:
    from tt_cnn.models.vanilla_unet.reference.model import UNet

    return UNet()


def resnet_blocks_1() -> nn.Module:
    return ResNet(Bottleneck, (1, 1, 1, 1))


def resnet_blocks_2() -> nn.Module:
    return ResNet(Bottleneck, (2, 2, 2, 2))


def resnet_blocks_3() -> nn.Module:
    """ResNet50."""
    return ResNet(Bottleneck, (3, 4, 6, 3))


def resnet_blocks_4() -> nn.Module:
    return ResNet(Bottleneck, (4, 4, 4, 4))


def resnet_blocks_8() -> nn.Module:
    return ResNet(Bottleneck, (8, 8, 8, 8))


def work_of(kind: str, size: str) -> BringUp:
    """The model with its weights, for inputs of this size; its lowering is still to come."""
    chosen = KINDS[kind]
    source = model_source(f"{Path(__file__)}:{chosen.factory.format(size)}")
    small = BringUp(source, SMALL, CARD)
    small.load()
    work = BringUp(source, chosen.shape(size), CARD)
    work.model, work.weights = small.model, small.weights
    return work


@contextmanager
def subject_of(name: str, work: BringUp, made: Callable[[], None]) -> Iterator[Subject]:
    """Ours or a peer; `made` is called when all is ready for it but itself."""
    assert work.model is not None
    example = work.example(seed=0)
    for peer in ("onnxruntime", "openvino"):  # imports, which replays that choose an engine need as well
        if not missing_packages(peer):
            create_peer(peer, nn.Conv2d(3, 8, 3), example[:, :, :16, :16])
    if name != OURS:
        made()
        yield create_peer(name, work.model, example)
        return
    library()
    work.lower()
    work.fit_in(RUNGS[0])
    with ExitStack() as opened:
        entry = opened.enter_context(work.entry())
        made()
        card = VirtualCard(entry.name, work.model, example, card=CARD)
        opened.callback(card.close)
        yield card


def peak() -> int:
    """Bytes of memory, the most since `forget_peak`."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def forget_peak() -> int:
    """The bytes in use, from which the next peak is counted."""
    gc.collect()
    if platform.libc_ver()[0] == "glibc":
        import ctypes

        ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return peak()


def arena_of(subject: Subject) -> int:
    """Bytes for images of our kernels; 0 where others compute."""
    runs = [part.run for part in getattr(subject, "parts", [])]
    return sum(getattr(run.host, "image_bytes", 0) for run in runs if isinstance(run, OnHost))


def serve(name: str, kind: str, size: str, threads: str) -> None:
    torch.set_num_threads(int(threads))
    work = work_of(kind, size)
    assert work.model is not None
    example = work.example(seed=0)
    products, expected = products_of(work.model, example), reference_outputs(work.model, example)
    before = 0

    def made() -> None:
        nonlocal before
        before = forget_peak()

    with subject_of(name, work, made) as subject:
        compiling = peak() - before
        forget_peak()
        for _ in range(WARM_UPS):
            (outputs,) = subject.run([example])
        answer(
            {
                "work": products,
                "memory": peak() - before,
                "compile_seconds": subject.compile_seconds,
                "compile_memory": compiling,
                "arena": arena_of(subject),
                "engines": ", ".join(dict.fromkeys(part.engine for part in getattr(subject, "parts", []))),
                "pcc": min(agreement(one, other) for one, other in zip(expected, outputs, strict=True)),
            }
        )
        for line in sys.stdin:
            number = max(int(line), batches_of_a_turn(settled(subject, example)))
            start = time.perf_counter()
            subject.run([example] * number)
            answer({"seconds": (time.perf_counter() - start) / number})


if __name__ == "__main__":
    serve(*sys.argv[1:])
