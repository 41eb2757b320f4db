# SPDX-License-Identifier: Apache-2.0
"""Generated code, imported from a folder of its own and known to the registry for a while."""

from __future__ import annotations

import importlib
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from torch import nn

from tt_cnn.bringup.codegen.files import Facts
from tt_cnn.bringup.folder import GeneratedFolder
from tt_cnn.models.registry import ModelEntry, registered


@contextmanager
def generated_entry(facts: Facts, files: Mapping[str, bytes], reference: nn.Module) -> Iterator[ModelEntry]:
    """An entry of the model that `files`, those of a brought-up folder, make; only what is under `tt/` is run."""
    place = Path(tempfile.mkdtemp(prefix="tt-cnn-bringup-"))
    package = f"_bringup_{facts.name}"
    try:
        code = {name: content for name, content in files.items() if name.startswith("tt/")}
        GeneratedFolder(place / package).write({"__init__.py": b"", **code})
        with _importable(place, package):
            module = importlib.import_module(f"{package}.tt.model")
            made = ModelEntry(
                name=facts.name,
                title=facts.title,
                task=facts.task,  # type: ignore[arg-type]
                reference=lambda: reference,
                tt=getattr(module, facts.tt_class),
                gates=facts.gates,
                resolutions=(facts.resolution,),
                batch_sizes=(facts.input_shape[0],),
                l1_small_size=facts.l1_small_size,
                own_weights=True,
                input_shape=facts.input_shape if facts.images is None else None,
                more_inputs=facts.more_inputs,
            )
            if facts.images is not None:
                made = replace(made, mean=facts.images.mean, std=facts.images.std)
            with registered(made):
                yield made
    finally:
        shutil.rmtree(place, ignore_errors=True)


@contextmanager
def _importable(place: Path, package: str) -> Iterator[None]:
    sys.path.insert(0, str(place))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(str(place))
        for name in [each for each in sys.modules if each == package or each.startswith(package + ".")]:
            del sys.modules[name]
