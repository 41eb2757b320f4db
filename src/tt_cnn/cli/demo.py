# SPDX-License-Identifier: Apache-2.0
"""`tt-cnn demo`: a model on the card, its answers drawn beside PyTorch's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from tt_cnn.cli.kept_memory import keep_freed_memory
from tt_cnn.cli.model_options import (
    Card,
    Executor,
    Precision,
    Resolution,
    Weights,
    entry_of,
    precision_of,
    resolution_of,
)
from tt_cnn.runtime import choice

Model = Annotated[
    str | None,
    typer.Argument(
        metavar="MODEL",
        help="A model of the package, or your own as module:ENTRY. Without one, UNet and YOLOv4 are brought up.",
        show_default=False,
    ),
]
Image = Annotated[Path | None, typer.Option("--image", metavar="FILE_OR_DIR", help="An image, or a folder of images.")]
Video = Annotated[Path | None, typer.Option("--video", metavar="FILE", help="A video, instead of images.")]
Count = Annotated[int | None, typer.Option("--count", min=1, help="The most images (default: 4) or frames to process.")]
Threshold = Annotated[
    float | None,
    typer.Option("--threshold", min=0.0, max=1.0, help="The confidence from which on boxes and masks are drawn."),
]
Folder = Annotated[
    Path, typer.Option("-o", "--output", metavar="DIR", help="Where the images go; DIR-2, -3, ... if it is taken.")
]
Force = Annotated[bool, typer.Option("--force", help="Empty the folder instead, if only images are in it.")]


def demo(
    model: Model = None,
    image: Image = None,
    video: Video = None,
    count: Count = None,
    weights: Weights = None,
    card: Card = None,
    executor: Executor = "trace+2cq",
    precision: Precision = "tuned",
    resolution: Resolution = None,
    threshold: Threshold = None,
    folder: Folder = Path("out/demo"),
    force: Force = False,
) -> None:
    """Show what a model sees on the card, drawn beside what PyTorch sees.

    Without a model: UNet and YOLOv4 are brought up on the virtual card stage by stage, from their weights to annotated
    images, as docs/bring-up.md does it.

    With one, images go through its pipeline: boxes, masks or classes are drawn into them, PyTorch's and the card's
    side by side, and the rate is printed. Without --image and --video the images are drawn for the model, or are
    scikit-image's photographs.

    Examples:

    \b
    tt-cnn demo
    tt-cnn demo yolov4
    tt-cnn demo vanilla_unet --image slides/ -o out/slides
    tt-cnn demo yolov4 --weights public --video street.mp4 --pipeline trace+2cq+io
    """
    from tt_cnn.evaluation.optional import require
    from tt_cnn.evaluation.output_folder import result_folder
    from tt_cnn.virtual import kernel_library

    if image is not None and video is not None:
        raise typer.BadParameter("--image and --video were both given; the demo shows one of them")
    require("PIL", "drawing images")
    if video is not None:
        require("av", "reading and writing videos")
    keep_freed_memory()
    if choice() != "ttnn":
        kernel_library.begin()  # while torch is imported, whose threads would take the compiler's time to wait awake
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    from tt_cnn.cli import demo_pictures, demo_stages

    if model is None:
        if any(each is not None for each in (image, video, weights, resolution, threshold)):
            raise typer.BadParameter("name the model that this is for: tt-cnn demo MODEL ...")
        demo_stages.show_stages(
            card=card, executor=executor, folder=result_folder(folder, force=force), pictures=count or 2
        )
        return
    entry = entry_of(model)
    show = demo_pictures.Show(
        entry=entry,
        weights=weights,
        card=card,
        executor=executor,
        precision=precision_of(precision),
        resolution=resolution_of(entry, resolution),
        threshold=threshold,
    )
    if video is not None:
        show.video(video, result_folder(folder / entry.name, force=force), count)
    else:
        show.pictures(image, result_folder(folder / entry.name, force=force), count or 4)
