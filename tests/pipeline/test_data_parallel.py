# SPDX-License-Identifier: Apache-2.0
"""Pipelines on meshes: every chip its part of the batch, the outputs those of one chip."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from tests.pipeline.programs import DEVICE, EXECUTORS, MODELS, host, pipeline, random_inputs, same, to_torch
from tt_cnn import ttnn
from tt_cnn.pipeline import Executor

MESHES = {"n300": {"card": "n300"}, "1x4": {"mesh_shape": ttnn.MeshShape(1, 4)}}


@pytest.fixture(params=MESHES)
def mesh(request: pytest.FixtureRequest) -> Iterator[Any]:
    device = ttnn.open_mesh_device(**MESHES[request.param], **DEVICE)
    yield device
    ttnn.close_mesh_device(device)


def _joined(outputs: Any, mesh: Any) -> Any:
    if isinstance(outputs, (list, tuple)):
        return type(outputs)(_joined(one, mesh) for one in outputs)
    return ttnn.to_torch(outputs, mesh_composer=ttnn.ConcatMeshToTensor(mesh, dim=0))


def _parts(outputs: Any, count: int) -> list[Any]:
    """What each chip has of joined outputs."""
    if isinstance(outputs, (list, tuple)):
        columns = [_parts(one, count) for one in outputs]
        return [type(outputs)(column[i] for column in columns) for i in range(count)]
    return list(outputs.chunk(count))


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("preallocated", [False, True])
def test_a_mesh_gives_what_one_chip_gives(mesh: Any, executor: type[Executor], name: str, preallocated: bool) -> None:
    model = MODELS[name][0]
    chips = mesh.get_num_devices()
    values = random_inputs(6 * chips)
    mapper = ttnn.ShardTensorToMesh(mesh, dim=0)
    batches = [torch.cat(values[i * chips : (i + 1) * chips]) for i in range(6)]
    with pipeline(executor, model, mesh) as pipe:
        pipe.compile(host(batches[0], mesh_mapper=mapper))
        if preallocated:
            pipe.preallocate_output_tensors_on_host(6)
        outputs = pipe.enqueue([host(x, mesh_mapper=mapper) for x in batches]).pop_all()
        joined = [_joined(o, mesh) for o in outputs]
        streamed = [_joined(o, mesh) for o in pipe.stream(host(x, mesh_mapper=mapper) for x in batches)]
    mine = [part for one in joined for part in _parts(one, chips)]
    ttnn.close_mesh_device(mesh)
    device = ttnn.open_device(device_id=0, **DEVICE)
    with pipeline(executor, model, device) as pipe:
        pipe.compile(host(values[0]))
        single = [to_torch(o) for o in pipe.enqueue([host(x) for x in values]).pop_all()]
    ttnn.close_device(device)
    assert same(mine, single)
    assert same(joined, streamed)


def test_replicated_inputs_give_the_same_on_every_chip(mesh: Any) -> None:
    values = random_inputs(4)
    mapper = ttnn.ReplicateTensorToMesh(mesh)
    with pipeline(EXECUTORS[-1], MODELS["one output"][0], mesh) as pipe:
        pipe.compile(host(values[0], mesh_mapper=mapper))
        outputs = pipe.enqueue([host(x, mesh_mapper=mapper) for x in values]).pop_all()
        chips = mesh.get_num_devices()
        for output, x in zip(outputs, values, strict=True):
            assert same(list(_joined(output, mesh).chunk(chips)), [torch.relu(x)] * chips)
