# SPDX-License-Identifier: Apache-2.0
"""Models by the text that a user types: a name of the package's, or `module:NAME` for a model of their own."""

from __future__ import annotations

import importlib
import os
import sys

from tt_cnn.models.registry import ModelEntry, list_models, model_entry, register


def entry_of(text: str) -> ModelEntry:
    """A model by its name, or a user's own as `module:NAME` (a ModelEntry), found from the current folder."""
    if ":" not in text:
        return model_entry(text)
    entry = own_entry(text)
    list_models()  # so that the package's own are there, and one of the same name gives way
    register(entry, replace=True)
    return entry


def own_entry(text: str) -> ModelEntry:
    """Anybody's own, which stays unknown to the registry."""
    module_name, _, attribute = text.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        entry = getattr(importlib.import_module(module_name), attribute)
    except AttributeError as error:
        raise ValueError(f"{text}: the module {module_name} has no {attribute}") from error
    if not isinstance(entry, ModelEntry):
        raise ValueError(f"{text} is a {type(entry).__name__}; it must be a tt_cnn.models.ModelEntry")
    return entry
