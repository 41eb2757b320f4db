# SPDX-License-Identifier: Apache-2.0
"""torch's own form of a program without ops in place: what they write into a view is put into the tensor behind it.

Some ops have other names in it, which are turned back into those that a model's code calls.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import torch
from torch.export.graph_signature import OutputKind


class Op(NamedTuple):
    op: str
    target: str
    arguments: dict[str, Any]
    shape: Any


def without_writes(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, about its own code
        return program.run_decompositions({})


def usual(given: Op) -> Op:
    """The op that a model's code calls, where torch has another for it in this form."""
    own = given.arguments
    if given.op == "_native_batch_norm_legit_no_training":
        arguments = {**own, "training": False}
        return Op("batch_norm", "aten.batch_norm.default", arguments, given.shape[0])
    if given.op == "_unsafe_view":
        return Op("view", "aten.view.default", own, given.shape)
    if given.op == "copy":  # of `src`, spread over `self`
        arguments = {"self": own["src"], "size": list(given.shape)}
        return Op("expand", "aten.expand.default", arguments, given.shape)
    return given


def returned(program: torch.export.ExportedProgram, values: Any) -> list[Any]:
    """Those that the model returns, of all that the graph gives: what becomes of buffers and inputs is among them."""
    specs = program.graph_signature.output_specs
    return [value for spec, value in zip(specs, values, strict=True) if spec.kind is OutputKind.USER_OUTPUT]
