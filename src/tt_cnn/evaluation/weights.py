# SPDX-License-Identifier: Apache-2.0
"""The weights that a user means, in the reference model."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from tt_cnn.models import ModelEntry, create_reference
from tt_cnn.preprocessing.weights import cache_folder, sources_of
from tt_cnn.preprocessing.weights.packages import file_in_package

SHIPPED, PUBLIC, SEEDED = "shipped", "public", "seeded"


@dataclass(frozen=True)
class ChosenWeights:
    """Whose weights the reference of a model gets, found before anything is made."""

    model: str
    words: str
    """Whose they are, for people."""
    options: Mapping[str, Any]
    """Of `create_reference`."""

    def reference(self) -> nn.Module:
        """In eval mode."""
        return create_reference(self.model, **self.options)


def chosen_weights(entry: ModelEntry, weights: str | None) -> ChosenWeights:
    """`weights` is `shipped`, `public`, `seeded` or a file; None takes the first of the three that is here."""
    chosen = weights or _best(entry)
    if chosen == SHIPPED:
        return ChosenWeights(entry.name, "shipped weights", {"shipped": True})
    if chosen == SEEDED:
        return ChosenWeights(entry.name, "seeded (random) weights", {"seed": 0})
    if chosen != PUBLIC:
        if not Path(chosen).is_file():
            known = f"{SHIPPED}, {PUBLIC} and {SEEDED}"
            raise FileNotFoundError(f"{chosen}: there is no such file; beside files there are {known}")
        return ChosenWeights(entry.name, f"weights of {Path(chosen).name}", {"weights": chosen})
    path = public_file(entry)
    if path is None:
        raise FileNotFoundError(
            f"the public weights of {entry.title} are not on this machine; get them with tt-cnn weights {entry.name}"
        )
    return ChosenWeights(entry.name, f"public weights ({path.name})", {"weights": path})


def reference_with(entry: ModelEntry, weights: str | None) -> tuple[nn.Module, str]:
    """The reference in eval mode, and in words whose weights it has."""
    chosen = chosen_weights(entry, weights)
    return chosen.reference(), chosen.words


def public_file(entry: ModelEntry) -> Path | None:
    """The public checkpoint, where it is in the cache folder or in an installed package; nothing is fetched."""
    for source in sources_of(entry.name):
        path = cache_folder() / entry.name / source.file
        if source.package:
            with suppress(ImportError):
                path = file_in_package(source.package, source.file)
        if path.is_file():
            return path
    return None


def _best(entry: ModelEntry) -> str:
    if entry.shipped is not None:
        return SHIPPED
    return SEEDED if public_file(entry) is None else PUBLIC
