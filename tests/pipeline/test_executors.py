# SPDX-License-Identifier: Apache-2.0
"""The five executors: the same outputs, to the bit, from each; no hazards; nothing left behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.pipeline.programs import (
    CONFIGS,
    DEVICE,
    EXECUTORS,
    MODELS,
    SMALL,
    TALL,
    TRACED,
    TWO_QUEUES,
    Size,
    dram,
    host,
    identity,
    l1,
    nested,
    pipeline,
    random_inputs,
    relu,
    same,
    surviving,
    surviving_reference,
    to_torch,
)
from tt_cnn import ttnn
from tt_cnn.pipeline import (
    Executor,
    MultiCQModelOverlappedInputExecutor,
    MultiCQTracedModelOverlappedInputExecutor,
    MultiCQTracedModelPipelinedIOExecutor,
    create_pipeline_from_config,
)

OpenCard = Callable[..., Any]


@pytest.fixture
def device(open_card: OpenCard) -> Any:
    return open_card(**DEVICE)


@pytest.mark.parametrize("name", MODELS)
def test_all_executors_agree_to_the_bit_over_200_inputs(device: Any, name: str) -> None:
    model, reference = MODELS[name]
    inputs = random_inputs(200)
    expected = [reference(x) for x in inputs]
    for executor in EXECUTORS:
        with pipeline(executor, model, device) as pipe:
            pipe.compile(host(inputs[0]))
            outputs = [to_torch(o) for o in pipe.enqueue([host(x) for x in inputs]).pop_all()]
        assert len(outputs) == 200
        wrong = [i for i, (o, e) in enumerate(zip(outputs, expected, strict=True)) if not same(o, e)]
        assert not wrong, f"{executor.__name__}: outputs {wrong[:5]} differ"


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("size", [SMALL, TALL])
@pytest.mark.parametrize("model", [relu, identity])
def test_rounds_of_inputs(device: Any, executor: type[Executor], size: Size, model: Any) -> None:
    pipe = pipeline(executor, model, device, size)
    assert type(pipe.executor) is executor
    pipe.compile(host(random_inputs(1, size)[0]))
    for seed in range(3):
        inputs = random_inputs(8, size, seed)
        outputs = pipe.enqueue([host(x) for x in inputs]).pop_all()
        expected = [torch.relu(x) if model is relu else x for x in inputs]
        assert same([to_torch(o) for o in outputs], expected)
        assert outputs is pipe.output_tensors
    pipe.cleanup()


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("model", [relu, nested])
def test_preallocated_outputs_are_filled_again_and_again(device: Any, executor: type[Executor], model: Any) -> None:
    reference = MODELS["nested outputs" if model is nested else "one output"][1]
    with pipeline(executor, model, device) as pipe:
        pipe.compile(host(random_inputs(1)[0]))
        assert pipe.preallocate_output_tensors_on_host(6) is pipe
        assert pipe.preallocated_output_tensors
        slots = pipe.output_tensors
        assert len(slots) == 6
        for seed in range(2):
            inputs = random_inputs(6, seed=seed)
            outputs = pipe.enqueue([host(x) for x in inputs]).pop_all()
            assert outputs is slots is pipe.output_tensors
            assert same([to_torch(o) for o in outputs], [reference(x) for x in inputs])
        few = pipe.enqueue([host(x) for x in random_inputs(2, seed=5)]).pop_all()
        assert len(few) == 2 and all(output is slot for output, slot in zip(few, slots, strict=False))


@pytest.mark.parametrize("executor", EXECUTORS)
def test_enqueueing_twice_before_popping_keeps_all_outputs(device: Any, executor: type[Executor]) -> None:
    inputs = random_inputs(6)
    with pipeline(executor, relu, device) as pipe:
        pipe.compile(host(inputs[0]))
        outputs = pipe.enqueue([host(x) for x in inputs[:2]]).enqueue([host(x) for x in inputs[2:]]).pop_all()
        assert same([to_torch(o) for o in outputs], [torch.relu(x) for x in inputs])
        assert pipe.pop_all() == []


def test_reads_are_signalled_once_for_each_input(device: Any) -> None:
    pipe = pipeline(MultiCQTracedModelPipelinedIOExecutor, identity, device, TALL)
    signalled: list[int] = []
    original = pipe.executor.signal_read_complete

    def counting() -> None:
        signalled.append(1)
        original()

    pipe.executor.signal_read_complete = counting  # type: ignore[method-assign]
    inputs = random_inputs(32, TALL)
    pipe.compile(host(inputs[0]))
    for _ in range(3):
        outputs = pipe.enqueue([host(x) for x in inputs]).pop_all()
        assert same([to_torch(o) for o in outputs], inputs)
    pipe.cleanup()
    assert len(signalled) == 96


# --- hazards -----------------------------------------------------------------------------------------------------

WAITS = [
    (MultiCQModelOverlappedInputExecutor, "staged"),
    (MultiCQModelOverlappedInputExecutor, "written"),
    (MultiCQTracedModelOverlappedInputExecutor, "staged"),
    (MultiCQTracedModelOverlappedInputExecutor, "written"),
    (MultiCQTracedModelPipelinedIOExecutor, "staged"),
    (MultiCQTracedModelPipelinedIOExecutor, "written"),
    (MultiCQTracedModelPipelinedIOExecutor, "spilled"),
    (MultiCQTracedModelPipelinedIOExecutor, "read"),
]


def _waits_of(pipe: Any, inputs: list[torch.Tensor]) -> set[str]:
    """The names that a schedule waits for."""
    names: set[str] = set()
    original = pipe.executor.wait
    pipe.executor.wait = lambda queue, name: (names.add(name), original(queue, name))
    pipe.enqueue([host(x) for x in inputs]).pop_all()
    del pipe.executor.wait
    return names


@pytest.mark.parametrize("executor", EXECUTORS)
def test_the_list_of_waits_is_complete(device: Any, executor: type[Executor]) -> None:
    inputs = random_inputs(4)
    with pipeline(executor, identity, device) as pipe:
        pipe.compile(host(inputs[0]))
        assert _waits_of(pipe, inputs) == {name for known, name in WAITS if known is executor}


@pytest.mark.parametrize(("executor", "name"), WAITS)
def test_a_wait_that_is_missing_is_a_hazard(device: Any, executor: type[Executor], name: str) -> None:
    inputs = [host(x) for x in random_inputs(6)]
    pipe = pipeline(executor, identity, device).compile(inputs[0])
    assert len(pipe.enqueue(inputs).pop_all()) == 6
    original = pipe.executor.wait

    def careless(queue: int, mark: str) -> None:
        if mark != name:
            original(queue, mark)

    pipe.executor.wait = careless  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match=r"nothing orders the two"):
        pipe.enqueue(inputs)
    pipe.cleanup()


# --- memory ------------------------------------------------------------------------------------------------------


def _allocated(device: Any) -> list[int]:
    kinds = (ttnn.BufferType.L1, ttnn.BufferType.DRAM, ttnn.BufferType.TRACE)
    return [ttnn.get_memory_view(device, kind).total_bytes_allocated_per_bank for kind in kinds]


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("name", MODELS)
def test_cleanup_gives_everything_back(device: Any, executor: type[Executor], name: str) -> None:
    before = _allocated(device)
    pipe = pipeline(executor, MODELS[name][0], device)
    inputs = [host(x) for x in random_inputs(4)]
    pipe.compile(inputs[0]).enqueue(inputs).pop_all()
    pipe.cleanup()
    assert _allocated(device) == before
    pipe.cleanup()
    assert _allocated(device) == before


@pytest.mark.parametrize(("executor", "call"), [(e, 1) for e in EXECUTORS] + [(e, 2) for e in TRACED])
def test_a_model_that_fails_while_compiling_leaves_nothing(device: Any, executor: type[Executor], call: int) -> None:
    before = _allocated(device)
    calls: list[int] = []

    def failing(x: Any) -> Any:
        calls.append(1)
        y = ttnn.identity(x)
        if len(calls) == call:
            raise ArithmeticError("the model failed")
        return y

    inputs = [host(x) for x in random_inputs(3)]
    pipe = pipeline(executor, failing, device)
    with pytest.raises(ArithmeticError, match="the model failed"):
        pipe.compile(inputs[0])
    assert _allocated(device) == before
    outputs = (
        pipe.compile(inputs[0]).enqueue(inputs).pop_all()
    )  # nothing is captured any more, so it can be tried again
    assert same([to_torch(o) for o in outputs], [to_torch(x) for x in inputs])
    pipe.cleanup()
    assert _allocated(device) == before


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_model_may_give_its_input_back_through_a_view(device: Any, executor: type[Executor]) -> None:
    """As convolutions with `deallocate_activation` do, behind a reshape."""

    def viewing(x: Any) -> Any:
        view = ttnn.reshape(x, (1, 32, 1, 32))
        assert view.buffer_address() == x.buffer_address()
        tiled = ttnn.tilize(x)
        ttnn.deallocate(view)
        assert not x.is_allocated()
        return ttnn.to_layout(ttnn.relu(tiled), ttnn.ROW_MAJOR_LAYOUT)

    inputs = random_inputs(5)
    with pipeline(executor, viewing, device) as pipe:
        outputs = pipe.compile(host(inputs[0])).enqueue([host(x) for x in inputs]).pop_all()
        assert same([to_torch(o) for o in outputs], [torch.relu(x) for x in inputs])


@pytest.mark.parametrize("executor", TRACED)
def test_an_output_in_the_place_of_the_input_is_refused(device: Any, executor: type[Executor]) -> None:
    before = _allocated(device)

    def swapping(x: Any) -> Any:
        y = ttnn.to_memory_config(x, ttnn.DRAM_MEMORY_CONFIG)
        ttnn.deallocate(x)
        return ttnn.to_memory_config(y, l1(SMALL))

    pipe = pipeline(executor, swapping, device)
    with pytest.raises(RuntimeError, match=r"L1 input tensor address mismatch: trace captured \d+, but"):
        pipe.compile(host(random_inputs(1)[0]))
    assert _allocated(device) == before


def test_a_trace_region_that_is_too_small(open_card: OpenCard) -> None:
    device = open_card(num_command_queues=2, trace_region_size=1024)
    before = _allocated(device)
    pipe = pipeline(TRACED[0], relu, device)
    with pytest.raises(RuntimeError, match=r"Creating trace buffers of size \d+B on MeshDevice \d+, but only 1024B"):
        pipe.compile(host(random_inputs(1)[0]))
    assert _allocated(device) == before


def test_interleaved_inputs_and_outputs_work_too(device: Any) -> None:
    inputs = random_inputs(5)
    for config in CONFIGS.values():
        pipe = create_pipeline_from_config(
            config, surviving, device, ttnn.L1_MEMORY_CONFIG, ttnn.DRAM_MEMORY_CONFIG, ttnn.DRAM_MEMORY_CONFIG
        )
        with pipe.compile(host(inputs[0])):
            outputs = pipe.enqueue([host(x) for x in inputs]).pop_all()
            assert same([to_torch(o) for o in outputs], [surviving_reference(x) for x in inputs])


def test_output_configs_in_the_structure_of_the_outputs(device: Any) -> None:
    inputs = random_inputs(5)
    config = CONFIGS[MultiCQTracedModelPipelinedIOExecutor]
    places = [dram(SMALL), (ttnn.DRAM_MEMORY_CONFIG, dram(SMALL))]
    with create_pipeline_from_config(config, nested, device, l1(SMALL), dram(SMALL), places) as pipe:
        pipe.compile(host(inputs[0]))
        assert pipe.executor.dram_outputs[1][0].memory_config() == ttnn.DRAM_MEMORY_CONFIG
        outputs = pipe.enqueue([host(x) for x in inputs]).pop_all()
        assert same([to_torch(o) for o in outputs], [MODELS["nested outputs"][1](x) for x in inputs])
    for model, returned in ((nested, "2 outputs"), (relu, "one output")):
        pipe = create_pipeline_from_config(config, model, device, l1(SMALL), dram(SMALL), places[:1])
        with pytest.raises(
            ValueError, match=f"dram_output_memory_config has 1 entries where the model returns {returned}"
        ):
            pipe.compile(host(inputs[0]))


# --- queues ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("executor", TWO_QUEUES)
def test_writes_go_to_the_second_queue(device: Any, executor: type[Executor]) -> None:
    inputs = [host(x) for x in random_inputs(3)]
    with pipeline(executor, relu, device) as pipe:
        pipe.compile(inputs[0])
        with device.record_commands() as commands:
            pipe.enqueue(inputs).pop_all()
    names = {(c.queue, c.name) for c in commands}
    assert (1, "ttnn.copy_host_to_device_tensor") in names and (0, "ttnn.copy_host_to_device_tensor") not in names
    reads = {queue for queue, name in names if name == "ttnn.from_device"}
    assert reads == {pipe.executor.get_read_cq()} == {1 if pipe.executor.spills else 0}


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_queue_chosen_around_the_pipeline_does_not_move_it(device: Any, executor: type[Executor]) -> None:
    inputs = random_inputs(4)
    with pipeline(executor, relu, device) as pipe, ttnn.command_queue(1):
        pipe.compile(host(inputs[0]))
        outputs = pipe.enqueue([host(x) for x in inputs]).pop_all()
        streamed = [to_torch(o) for o in pipe.stream([host(x) for x in inputs])]
        assert same([to_torch(o) for o in outputs], [torch.relu(x) for x in inputs])
        assert same(streamed, [torch.relu(x) for x in inputs])
