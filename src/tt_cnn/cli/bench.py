# SPDX-License-Identifier: Apache-2.0
"""`tt-cnn bench`: how fast a model replays here."""

from __future__ import annotations

import json
import resource
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import track

from tt_cnn.cli.console import errors, output, say
from tt_cnn.cli.model_options import Card, Resolution, entry_of, resolution_of
from tt_cnn.cli.tables import Column, Listing, numbers, texts

if TYPE_CHECKING:
    import torch
    from torch import nn

    from tt_cnn.bench import Comparison, Subject, Timing

Model = Annotated[str, typer.Argument(metavar="MODEL", help="A model of the package, or your own as module:ENTRY.")]
Batch = Annotated[int, typer.Option("--batch", min=1, help="Images at a time; one that the model is tuned for.")]
Engine = Annotated[
    str,
    typer.Option(
        "--engine",
        help="cpu (the quickest of the host engines, measured), kernels, openvino, onnxruntime, torch, or cuda.",
    ),
]
Numerics = Annotated[
    str, typer.Option("--numerics", help="native (the host's float32, for speed) or device (the card's rounding).")
]
Precision = Annotated[
    str,
    typer.Option(
        "--precision",
        help="float32 (16 bits with --engine cuda), int8, or with --engine cuda fp8: "
        "8 bits where the PCC against float32 stays above the guard.",
    ),
]
Guard = Annotated[float | None, typer.Option("--guard", help="The PCC that int8 or fp8 must keep; 0.99 if not given.")]
Executor = Annotated[
    str, typer.Option("--executor", help="plain, trace, 2cq, trace+2cq, trace+2cq+io, or all to measure each.")
]
Peers = Annotated[
    bool,
    typer.Option(
        "--peers",
        help="Beside torch, torch.compile, ONNX Runtime and OpenVINO; with --engine cuda "
        "beside torch, its CUDA graph and torch.compile on the GPU.",
    ),
]
Rounds = Annotated[int, typer.Option("--rounds", min=1, help="Interleaved rounds; medians are shown.")]
Explain = Annotated[bool, typer.Option("--explain", help="Show which parts of the trace run on which engine, and why.")]
Folder = Annotated[
    Path | None, typer.Option("-o", "--output", metavar="DIR", help="Write bench.json and bench.png there.")
]


AsJson = Annotated[bool, typer.Option("--json", help="Print the content of bench.json.")]


def bench(
    model: Model,
    batch: Batch = 1,
    engine: Engine = "cpu",
    numerics: Numerics = "native",
    precision: Precision = "float32",
    guard: Guard = None,
    executor: Executor = "trace+2cq",
    peers: Peers = False,
    rounds: Rounds = 7,
    resolution: Resolution = None,
    card: Card = None,
    explain: Explain = False,
    folder: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Time a model on this machine: latency, images per second, compile time, PCC against torch.

    Times are of the host, not of a card; `tt-cnn profile` predicts the card's. Input conversion and reading of the
    outputs are included, for the peers as for us.

    Examples:

    \b
    tt-cnn bench resnet50
    tt-cnn bench yolov4 --peers --rounds 9 -o out/bench
    tt-cnn bench vanilla_unet --engine onnxruntime --explain
    tt-cnn bench yolov4 --precision int8 --guard 0.995 --explain
    tt-cnn bench resnet50 --executor all
    tt-cnn bench yolov4 --engine cuda --peers
    tt-cnn bench yolov4 --engine cuda --precision fp8 --explain
    """
    from tt_cnn.bench import Comparison, VirtualCard, compare, peers_beside
    from tt_cnn.evaluation.output_folder import checked_folder
    from tt_cnn.models import EXECUTORS, create_reference
    from tt_cnn.models.running import reference_outputs
    from tt_cnn.virtual.engines.precision import EIGHT_BITS

    entry = entry_of(model)
    size = resolution_of(entry, resolution)
    if executor != "all" and executor not in EXECUTORS:
        raise ValueError(f"--executor is {executor!r}; it must be all or one of {', '.join(EXECUTORS)}")
    if folder is not None:
        checked_folder(folder)
    available = _available_peers(peers_beside(engine)) if peers else []
    reference = create_reference(entry.name)
    example = entry.example_input(batch_size=batch, resolution=size).bfloat16().float()
    expected = reference_outputs(reference, example)
    names = track(available, "preparing the peers", console=errors, transient=True)
    others = [peer for name in names if (peer := _peer(name, reference, example)) is not None]
    timings: list[Timing] = []
    eight_bit: list[str] = []
    for name in EXECUTORS if executor == "all" else [executor]:  # a card is opened once at a time
        with errors.status(f"compiling for {name}"):
            ours = VirtualCard(
                entry.name, reference, example, resolution=size, executor=name, numerics=numerics, engine=engine,
                card=card or "n150", precision=precision, guard=guard,
            )  # fmt: skip
        try:
            with errors.status(f"measuring {name}"):
                result = compare([ours, *others], expected, example, rounds=rounds)
            if precision in EIGHT_BITS:
                eight_bit += ours.eight_bit or [f"nothing in 8 bits: {name} has no trace to compile"]
            if explain and not as_json:
                _explain(ours.parts)
        finally:
            ours.close()
        timings.append(result.ours)
    result = Comparison((*timings, *result.timings[1:]))
    title = f"{entry.title} {size[0]}x{size[1]}, batch {batch}"
    if as_json:
        print(json.dumps(_figures(result, title, eight_bit)))
    else:
        _show(result, title)
        for one in eight_bit:
            say(one)
    if folder is not None:
        _write(result, folder, title, eight_bit)
        say(f"written to {folder}", console=errors if as_json else output)


def _available_peers(names: list[str]) -> list[str]:
    """Those whose packages are there. What is missing is said before anything is measured."""
    from tt_cnn.bench import missing_packages

    for name in names:
        missing = missing_packages(name)
        if missing:
            packages = f"{' and '.join(missing)} {'are' if len(missing) > 1 else 'is'} not installed"
            say(f"without {name}: {packages}; pip install 'tt-cnn[cpu]'", console=errors)
    return [name for name in names if not missing_packages(name)]


def _peer(name: str, reference: nn.Module, example: torch.Tensor) -> Subject | None:
    """None where it cannot be made: the model's own times, and those of the other peers, are not lost for it."""
    from tt_cnn.bench import create_peer

    try:
        return create_peer(name, reference, example)
    except (RuntimeError, ImportError, OSError) as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        say(f"without {name}: {first}", console=errors)
        return None


def _show(result: Comparison, title: str) -> None:
    table = Listing(
        (
            *texts("what"),
            *numbers("median ms"),
            Column("p99 ms", right=True, expendable=1),
            *numbers("images/s", "PCC"),
            Column("same bits", right=True, expendable=3),
            Column("compile s", right=True, expendable=2),
            *numbers("time / ours"),
        ),
        title,
    )
    for one in result.timings:
        table.add(
            one.name,
            f"{one.median * 1e3:.1f}",
            f"{one.p99 * 1e3:.1f}",
            f"{one.fps:.1f}",
            f"{one.pcc:.6f}",
            "yes" if one.repeats else "no",
            f"{one.compile_seconds:.1f}",
            f"{result.ratio(one):.2f}",
        )
    table.show()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    say(f"peak memory of the process {peak:.0f} MB; times of this machine, not of a card")


def _explain(parts: list[Any]) -> None:
    from tt_cnn.reports.words import counted

    if not parts:
        say("the trace is not compiled: its commands run one by one in torch")
    for number, part in enumerate(parts, 1):
        names = ", ".join(dict.fromkeys(command.name for command in part.commands))
        why = f" because of {part.reason}" if part.reason else ""
        say(f"part {number}: {counted(len(part.commands), 'command')} on {part.engine}{why} ({names})")
        if part.eight_bit is not None:
            say(f"  {part.eight_bit}")
            for kept in part.eight_bit.kept:
                say(f"  in {part.eight_bit.plain}: {kept}")


def _figures(result: Comparison, title: str, eight_bit: list[str]) -> dict[str, Any]:
    rows = [
        {
            "name": one.name,
            "seconds": one.seconds,
            "median": one.median,
            "p99": one.p99,
            "fps": one.fps,
            "pcc": one.pcc,
            "same_bits": one.repeats,
            "compile_seconds": one.compile_seconds,
            "ratio": result.ratio(one),
        }
        for one in result.timings
    ]
    return {"title": title, "rows": rows, "eight_bit": eight_bit}


def _write(result: Comparison, folder: Path, title: str, eight_bit: list[str]) -> None:
    """The figures first: whatever becomes of the image, they are kept."""
    (folder / "bench.json").write_text(json.dumps(_figures(result, title, eight_bit), indent=2))
    try:
        from tt_cnn.bench.chart import draw_bars
    except ImportError as error:
        errors.print(f"no bench.png: {error}", markup=False)
    else:
        draw_bars(result, title, folder / "bench.png")
