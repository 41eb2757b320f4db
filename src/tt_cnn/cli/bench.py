"""`tt-cnn bench`: how fast a model replays here."""

from __future__ import annotations

import json
import resource
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import track
from rich.table import Table

from tt_cnn.cli.console import errors, output
from tt_cnn.cli.model_options import Card, Resolution, entry_of, resolution_of

if TYPE_CHECKING:
    from tt_cnn.bench import Comparison, Timing

Model = Annotated[str, typer.Argument(metavar="MODEL", help="A model of the package, or your own as module:ENTRY.")]
Batch = Annotated[int, typer.Option("--batch", min=1, help="Pictures at a time; one that the model is tuned for.")]
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
Executor = Annotated[
    str, typer.Option("--executor", help="plain, trace, 2cq, trace+2cq, trace+2cq+io, or all to measure each.")
]
Peers = Annotated[bool, typer.Option("--peers", help="Beside torch, torch.compile, ONNX Runtime and OpenVINO.")]
Rounds = Annotated[int, typer.Option("--rounds", min=1, help="Interleaved rounds; medians are shown.")]
Explain = Annotated[bool, typer.Option("--explain", help="Show which parts of the trace run on which engine, and why.")]
Folder = Annotated[
    Path | None, typer.Option("-o", "--output", metavar="DIR", help="Write bench.json and bench.png there.")
]


def bench(
    model: Model,
    batch: Batch = 1,
    engine: Engine = "cpu",
    numerics: Numerics = "native",
    executor: Executor = "trace+2cq",
    peers: Peers = False,
    rounds: Rounds = 7,
    resolution: Resolution = None,
    card: Card = None,
    explain: Explain = False,
    folder: Folder = None,
) -> None:
    """Time a model on this machine: latency, pictures a second, compile time, PCC against torch.

    Times are of the host, not of a card; `tt-cnn profile` predicts the card's. Input conversion and reading of the
    outputs are included, for the peers as for us.

    Examples:

    \b
    tt-cnn bench resnet50
    tt-cnn bench yolov4 --peers --rounds 9 -o out/bench
    tt-cnn bench vanilla_unet --engine onnxruntime --explain
    tt-cnn bench resnet50 --executor all
    """
    from tt_cnn.bench import PEERS, Comparison, VirtualCard, compare, create_peer
    from tt_cnn.models import EXECUTORS, create_reference
    from tt_cnn.models.running import reference_outputs

    entry = entry_of(model)
    size = resolution_of(entry, resolution)
    if folder is not None and folder.exists() and any(folder.iterdir()):
        raise ValueError(f"{folder} is there already and not empty; name another folder for the results")
    if executor != "all" and executor not in EXECUTORS:
        raise ValueError(f"--executor is {executor!r}; it must be all or one of {', '.join(EXECUTORS)}")
    reference = create_reference(entry.name)
    example = entry.example_input(batch_size=batch, resolution=size).bfloat16().float()
    expected = reference_outputs(reference, example)
    others = [
        create_peer(name, reference, example)
        for name in track(list(PEERS) if peers else [], "preparing the peers", console=errors, transient=True)
    ]
    timings: list[Timing] = []
    for name in EXECUTORS if executor == "all" else [executor]:  # a card is opened once at a time
        with errors.status(f"compiling for {name}"):
            ours = VirtualCard(
                entry.name, reference, example, resolution=size, executor=name, numerics=numerics, engine=engine,
                card=card or "n150",
            )  # fmt: skip
        try:
            with errors.status(f"measuring {name}"):
                result = compare([ours, *others], expected, example, rounds=rounds)
            if explain:
                _explain(ours.parts)
        finally:
            ours.close()
        timings.append(result.ours)
    result = Comparison((*timings, *result.timings[1:]))
    _show(result, f"{entry.title} {size[0]}x{size[1]}, batch {batch}")
    if folder is not None:
        _write(result, folder, entry.title)


def _show(result: Comparison, title: str) -> None:
    table = Table(title=title)
    for heading in ("", "median ms", "p99 ms", "pictures/s", "PCC", "same bits", "compile s", "time / ours"):
        table.add_column(heading, justify="left" if not heading else "right")
    for one in result.timings:
        table.add_row(
            one.name,
            f"{one.median * 1e3:.1f}",
            f"{one.p99 * 1e3:.1f}",
            f"{one.fps:.1f}",
            f"{one.pcc:.6f}",
            "yes" if one.repeats else "no",
            f"{one.compile_seconds:.1f}",
            f"{result.ratio(one):.2f}",
        )
    output.print(table)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    output.print(f"peak memory of the process {peak:.0f} MB; times of this machine, not of a card")


def _explain(parts: list[Any]) -> None:
    if not parts:
        output.print("the trace is not compiled: its commands run one by one in torch")
    for number, part in enumerate(parts, 1):
        names = ", ".join(dict.fromkeys(command.name for command in part.commands))
        why = f" because of {part.reason}" if part.reason else ""
        output.print(f"part {number}: {len(part.commands)} commands on {part.engine}{why} ({names})", soft_wrap=True)


def _write(result: Comparison, folder: Path, title: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
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
    (folder / "bench.json").write_text(json.dumps({"title": title, "rows": rows}, indent=2))
    try:
        from tt_cnn.bench.chart import draw_bars
    except ImportError as error:
        errors.print(f"no bench.png: {error}", markup=False)
    else:
        draw_bars(result, title, folder / "bench.png")
    output.print(f"written to {folder}")
