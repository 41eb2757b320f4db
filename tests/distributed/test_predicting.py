# SPDX-License-Identifier: Apache-2.0
"""`tt-cnn run MODEL FOLDER|PARQUET --ray`: every image once, as the pipeline says it, in Parquet or COCO's format."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow
import pytest
import torch
from pyarrow import parquet
from pycocotools.coco import COCO
from typer.testing import CliRunner, Result

from tests.docs.bring_up import trained_stripes
from tests.evaluation.stand_ins import DETECTOR, SEGMENTER
from tt_cnn.cli import app
from tt_cnn.distributed import prediction_folder
from tt_cnn.distributed.predicting import prediction_job
from tt_cnn.distributed.prediction_rows import ROWS
from tt_cnn.distributed.sources import pictures_of
from tt_cnn.evaluation.class_names import class_names
from tt_cnn.evaluation.drawn_data import DetectionShapes
from tt_cnn.evaluation.pictures import read_picture
from tt_cnn.evaluation.preparation import prepare
from tt_cnn.evaluation.tasks import TASKS
from tt_cnn.models import ModelEntry, create_reference, register
from tt_cnn.models.running import running_model

COUNT = 21
STAND_INS = "tests.evaluation.stand_ins"
OPTIONS = {"card": None, "executor": "plain", "precision": "tuned", "resolution": (64, 64)}


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Of several sizes; they are drawn."""
    for width in (64, 96, 80):
        DetectionShapes("val", size=(64, width), count=COUNT // 3, seed=width).write(tmp_path / str(width))
    folder = tmp_path / "images"
    folder.mkdir()
    for path in tmp_path.rglob("*.png"):
        path.rename(
            folder / f"{path.parents[1].name if path.parent.name == 'images' else path.parent.name}-{path.name}"
        )
    assert len(list(folder.iterdir())) == COUNT
    return folder


@pytest.fixture
def table(images: Path, tmp_path: Path) -> Path:
    """The same images in a file, in groups of four rows, half of them as Hugging Face has them."""
    file = tmp_path / "images.parquet"
    content = [path.read_bytes() for path in sorted(images.iterdir())]
    parquet.write_table(pyarrow.table({"image": content, "label": list(range(COUNT))}), file, row_group_size=4)
    return file


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(app, ["run", *map(str, arguments)])


def by_name(folder: Path) -> dict[str, dict[str, Any]]:
    rows = [row for part in sorted(folder.glob("part-*.parquet")) for row in parquet.read_table(part).to_pylist()]
    assert len({row["image"] for row in rows}) == len(rows)
    return {row["image"]: row for row in rows}


def expected(entry: ModelEntry, folder: Path) -> dict[str, dict[str, Any]]:
    """What the pipeline says of each image in this process, in batches of the same size."""
    reference = create_reference(entry.name, shipped=True) if entry.shipped else create_reference(entry.name, seed=0)
    task, rows = TASKS[entry.task], ROWS[entry.task]
    names = getattr(reference, "class_names", None) or class_names({"segmentation": 1, "detection": 4}[entry.task])
    found = {}
    with running_model(entry, reference, executor="plain", batch_size=max(entry.batch_sizes)) as running:
        for path in sorted(folder.iterdir()):
            image, placement = prepare(entry, read_picture(path))
            (outputs,) = running.run([image])
            row = rows.row(task.prediction(outputs, placement), names)
            height, width = placement.picture
            found[path.name] = {"image": path.name, "width": width, "height": height, **row}
    as_stored = pyarrow.Table.from_pylist(list(found.values()), rows.schema()).to_pylist()
    return {row["image"]: row for row in as_stored}


def without_names(rows: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {key: {k: v for k, v in row.items() if k not in ("names", "name")} for key, row in rows.items()}


@pytest.mark.parametrize("entry", [DETECTOR, SEGMENTER], ids=lambda entry: entry.name)
def test_predictions_are_the_pipeline_s(address: str, images: Path, tmp_path: Path, entry: ModelEntry) -> None:
    register(entry)
    name = "DETECTOR" if entry is DETECTOR else "SEGMENTER"
    result = run(f"{STAND_INS}:{name}", images, "--ray", address, "-o", tmp_path / "out", "--executor", "plain")
    assert result.exit_code == 0, result.output + repr(result.exception)
    assert f"for {COUNT} of {COUNT} images" in result.stdout
    assert without_names(by_name(tmp_path / "out")) == without_names(expected(entry, images))


def test_images_in_parquet_give_the_same_and_bad_ones_are_named(
    address: str, images: Path, table: Path, tmp_path: Path
) -> None:
    trained_stripes()
    content = parquet.read_table(table).column("image").to_pylist()
    rows = [{"bytes": each, "path": None} for each in content]
    rows[5]["bytes"], rows[9]["bytes"] = b"no image", None
    parquet.write_table(pyarrow.table({"image": rows}), table, row_group_size=4)
    out = tmp_path / "out"
    result = run("--ray", address, "stripes:ENTRY", table, "-o", out, "--executor", "plain", "--threads", 2)
    assert result.exit_code == 1, result.output + repr(result.exception)
    said = " ".join(result.stderr.split())
    assert f"left out: {table}#5: it cannot be read as an image" in said
    assert f"left out: {table}#9: there are no bytes of an image in its column 'image'" in said
    assert len((out / "unreadable.txt").read_text().splitlines()) == 2
    right = list(expected(stripes_entry(), images).values())
    numbered = {f"{table.name}#{number}": row for number, row in enumerate(right) if number not in (5, 9)}
    assert by_name(out) == {name: {**row, "image": name} for name, row in numbered.items()}


def stripes_entry() -> ModelEntry:
    import stripes

    entry: ModelEntry = stripes.ENTRY
    return entry


def test_a_job_that_was_ended_does_what_is_left(
    address: str, images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tt_cnn.distributed.cluster import connected

    def job() -> Any:
        return prediction_job(f"{STAND_INS}:DETECTOR", None, OPTIONS, pictures_of(images), tmp_path / "out")

    monkeypatch.setattr(prediction_folder, "PART_ROWS", 4)
    done = 0

    def ends_after_ten(pictures: int) -> None:
        nonlocal done
        done += pictures
        if done == 10:
            raise KeyboardInterrupt

    with connected(address) as cluster, pytest.raises(KeyboardInterrupt):
        job().run(cluster, progress=ends_after_ten)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("part-*")}
    assert len(before) == 3 and len(by_name(tmp_path / "out")) == 10
    second = job()
    assert len(second.left) == COUNT - 10
    result = run(f"{STAND_INS}:DETECTOR", images, "--ray", address, "-o", tmp_path / "out", "--executor", "plain")
    assert result.exit_code == 0 and f"10 of {COUNT} images were done before" in result.stderr
    assert before.items() <= {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("part-*")}.items()
    register(DETECTOR, replace=True)
    assert without_names(by_name(tmp_path / "out")) == without_names(expected(DETECTOR, images))
    with pytest.raises(prediction_folder.AnotherJob, match=r"with threshold None, and 0\.5 is asked for"):
        prediction_job(f"{STAND_INS}:DETECTOR", None, OPTIONS, pictures_of(images), tmp_path / "out", threshold=0.5)


def test_coco_s_format_is_read_by_its_own_tools(address: str, images: Path, tmp_path: Path) -> None:
    register(SEGMENTER)
    out = tmp_path / "found.json"
    result = run(f"{STAND_INS}:SEGMENTER", images, "--ray", address, "-o", out, "--executor", "plain")
    assert result.exit_code == 0, result.output + repr(result.exception)
    assert [path.name for path in tmp_path.glob("found*")] == ["found.json"]
    coco, right = COCO(str(out)), expected(SEGMENTER, images)
    assert [each["file_name"] for each in coco.loadImgs(coco.getImgIds())] == sorted(right)
    for annotation in coco.loadAnns(coco.getAnnIds()):
        name = coco.imgs[annotation["image_id"]]["file_name"]
        assert coco.annToMask(annotation).sum() == right[name]["pixels"] > 0
    assert "found.json is there already" in str(run("brightness", images, "--ray", "-o", out).exception)

    job = prediction_job(f"{STAND_INS}:DETECTOR", None, OPTIONS, pictures_of(images)[:1], tmp_path / "boxes.json")
    job.folder.add(
        {"image": job.sources[0].name, "width": 64, "height": 64, "classes": [2], "names": ["cat"]}
        | {"scores": [0.5], "boxes": [[1.0, 2.0, 4.0, 8.0]]}
    )
    job.folder.flush()
    assert job.finish() == []
    (found,) = json.loads((tmp_path / "boxes.json").read_text())["annotations"]
    assert (found["bbox"], found["category_id"], found["score"], found["image_id"]) == ([1, 2, 4, 8], 2, 0.5, 1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["IMAGES", "--ray"], "with --ray it needs -o OUT"),
        (["--ray", "-o", "x"], "with --ray it takes MODEL and FOLDER|PARQUET"),
        (["nowhere", "--ray", "-o", "x"], "there is no such folder of images, nor a file NAME.parquet"),
        (["IMAGES", "--ray", "-o", "x.json"], "COCO's format has no place for classes of images"),
        (["IMAGES", "--ray", "-o", "IMAGES"], "is there already and holds no predictions"),
        (["LABELS", "--ray", "-o", "x"], "it has no column 'image' with images' bytes; it has label"),
        (["BROKEN", "--ray", "-o", "x"], "broken.parquet: it cannot be read as Parquet"),
        (["IMAGES", "--ray", "--batch", "3", "-o", "x"], "No such option: --batch"),
        (["IMAGES", "--ray", "-o", "x", "--resolution", "9x9"], "StripesNet is tuned for (64, 64)"),
    ],
)
def test_mistakes_are_told_in_a_sentence(images: Path, tmp_path: Path, arguments: list[str], words: str) -> None:
    trained_stripes()
    parquet.write_table(pyarrow.table({"label": [1]}), tmp_path / "labels.parquet")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1")
    places = {"IMAGES": images, "LABELS": tmp_path / "labels.parquet", "BROKEN": tmp_path / "broken.parquet"}
    given = [str(places.get(each, tmp_path / each if each.startswith("x") else each)) for each in arguments]
    result = run("stripes:ENTRY", *given)
    assert result.exit_code != 0
    assert words in " ".join(f"{result.stderr} {result.exception}".split())


def test_a_script_keeps_its_own_options(tmp_path: Path) -> None:
    script = tmp_path / "own.py"
    script.write_text("import sys, pathlib\npathlib.Path(sys.argv[0] + '.txt').write_text(' '.join(sys.argv[1:]))\n")
    for given in (["--ray", "auto", "-o", "x"], ["--rays"], ["a", "--ray=3"]):
        command = [sys.executable, "-m", "tt_cnn.cli", "run", str(script), *given]
        assert subprocess.run(command, check=False).returncode == 0
        assert Path(f"{script}.txt").read_text() == " ".join(given)
    assert run("-o", "x", script).exit_code == 2


def test_names_of_images_must_differ(tmp_path: Path, images: Path) -> None:
    twice = pictures_of(images)[:1] * 2
    with pytest.raises(ValueError, match="there are two images with the name"):
        prediction_job(f"{STAND_INS}:DETECTOR", None, OPTIONS, twice, tmp_path / "out")
    assert torch.equal(*[torch.from_numpy(source.read()) for source in twice])
