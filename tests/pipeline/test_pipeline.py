# SPDX-License-Identifier: Apache-2.0
"""The pipeline itself: its configurations, wrong use, and its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from tests.pipeline.programs import (
    CONFIGS,
    DEVICE,
    EXECUTORS,
    SMALL,
    dram,
    host,
    l1,
    pipeline,
    random_inputs,
    relu,
    same,
    to_torch,
)
from tt_cnn import ttnn
from tt_cnn.pipeline import (
    Executor,
    ModelExecutor,
    MultiCQTracedModelPipelinedIOExecutor,
    Pipeline,
    PipelineConfig,
    TracedModelExecutor,
    create_pipeline_from_config,
    get_memory_config_for_persistent_dram_tensor,
)

WIDTH, HEIGHT = ttnn.TensorMemoryLayout.WIDTH_SHARDED, ttnn.TensorMemoryLayout.HEIGHT_SHARDED


@pytest.fixture
def device(open_card: Callable[..., Any]) -> Any:
    return open_card(**DEVICE)


@pytest.fixture(params=EXECUTORS)
def pipe(device: Any, request: pytest.FixtureRequest) -> Iterator[Pipeline]:
    """Compiled, for each executor."""
    with pipeline(request.param, relu, device) as made:
        yield made.compile(host(random_inputs(1)[0]))


# --- configurations ----------------------------------------------------------------------------------------------


def test_defaults_are_those_of_tt_cnn() -> None:
    config = PipelineConfig()
    assert config.use_trace is True
    assert config.num_command_queues == 1
    assert config.all_transfers_on_separate_command_queue is False
    with pytest.raises(AttributeError):
        config.use_trace = False  # type: ignore[misc]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_command_queues": 3}, "num_command_queues is 3; it must be 1 or 2"),
        ({"num_command_queues": True}, "num_command_queues is True; it must be 1 or 2"),
        ({"use_trace": 1}, "use_trace is 1; it must be True or False"),
        ({"all_transfers_on_separate_command_queue": None}, "all_transfers_on_separate_command_queue is None"),
    ],
)
def test_bad_fields_are_named(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PipelineConfig(**fields)


SEPARATE = {"all_transfers_on_separate_command_queue": True}
PLACES = {"l1_input_memory_config": l1(SMALL), "dram_input_memory_config": dram(SMALL)}


@pytest.mark.parametrize(
    ("config", "places", "message"),
    [
        (
            {"use_trace": False, "num_command_queues": 2, **SEPARATE},
            PLACES,
            r"Pipelined I/O \(all_transfers_on_separate_command_queue\) requires tracing",
        ),
        ({"num_command_queues": 1, **SEPARATE}, PLACES, r"requires num_command_queues=2 \(was 1\)"),
        (
            {"num_command_queues": 2, **SEPARATE},
            PLACES,
            r"dram_output_memory_config must be provided when all_transfers_on_separate_command_queue=True.",
        ),
        ({}, {"l1_input_memory_config": l1(SMALL)}, "dram_input_memory_config must be provided when using trace"),
        (
            {"use_trace": False, "num_command_queues": 2},
            {"l1_input_memory_config": l1(SMALL)},
            "dram_input_memory_config must be provided when using multi-CQ executor",
        ),
        ({"use_trace": False}, {}, "l1_input_memory_config must be provided"),
        ({}, {**PLACES, "l1_input_memory_config": dram(SMALL)}, "l1_input_memory_config is in .*DRAM; it must be in"),
        ({}, {**PLACES, "dram_input_memory_config": l1(SMALL)}, "dram_input_memory_config is in .*L1; it must be in"),
    ],
)
def test_configurations_that_do_not_go_together(config: Any, places: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        create_pipeline_from_config(PipelineConfig(**config), relu, None, **places)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"config": {}}, "config is a dict; it must be a PipelineConfig"),
        ({"model": 1}, "model is a int; it must be callable"),
        ({"l1_input_memory_config": "L1"}, "l1_input_memory_config is a str; it must be a ttnn.MemoryConfig"),
    ],
)
def test_arguments_of_another_type(arguments: dict[str, Any], message: str) -> None:
    given = {"config": PipelineConfig(), "model": relu, "device": None, **PLACES, **arguments}
    with pytest.raises(TypeError, match=message):
        create_pipeline_from_config(**given)


@pytest.mark.parametrize(
    ("shape", "strategy", "banks", "shard"),
    [
        ((1, 1, 64, 64), WIDTH, 2, [64, 32]),
        ((1, 1, 64, 64), HEIGHT, 2, [32, 64]),
        ((1, 1, 3, 307200), WIDTH, 12, [3, 25600]),
        ((1, 1, 3, 307201), WIDTH, 12, [3, 307201]),
        ((1, 1, 100, 32), HEIGHT, 12, [10, 32]),
        ((2, 3, 8, 32), HEIGHT, 12, [4, 32]),
        ((2, 3, 8, 32), WIDTH, 12, [48, 4]),
    ],
)
def test_persistent_dram_tensors_are_sharded_evenly(shape: Any, strategy: Any, banks: int, shard: list[int]) -> None:
    config = get_memory_config_for_persistent_dram_tensor(shape, strategy, ttnn.CoreCoord(banks, 1))
    assert config.buffer_type == ttnn.BufferType.DRAM
    assert config.memory_layout == strategy
    assert config.shard_spec.shape == shard
    height = shape[0] * shape[1] * shape[2]
    assert config.shard_spec.grid.num_cores() == (height // shard[0]) * (shape[3] // shard[1])


@pytest.mark.parametrize(
    ("shape", "strategy", "grid", "message"),
    [
        ((1, 1, 64, 64), WIDTH, (2, 2), "Only 1D DRAM grid is supported"),
        ((64,), WIDTH, (2, 1), "Shape must be 2D or higher"),
        ((1, 1, 64, 64), ttnn.TensorMemoryLayout.INTERLEAVED, (2, 1), "WIDTH_SHARDED or HEIGHT_SHARDED"),
        ((1, 1, 64, 0), WIDTH, (2, 1), "no empty dimension"),
    ],
)
def test_persistent_dram_tensors_that_cannot_be(shape: Any, strategy: Any, grid: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        get_memory_config_for_persistent_dram_tensor(shape, strategy, ttnn.CoreCoord(*grid))


# --- wrong use ---------------------------------------------------------------------------------------------------


def test_device_tensors_are_refused(device: Any, pipe: Pipeline) -> None:
    on_device = ttnn.to_device(host(random_inputs(1)[0]), device)
    good = host(random_inputs(1)[0])
    with pytest.raises(ValueError, match="All input tensors must be on host"):
        pipe.enqueue([good, on_device])
    assert pipe.pop_all() == []
    with pytest.raises(ValueError, match="Input tensor must be on host"):
        list(pipe.stream([on_device]))
    with pytest.raises(ValueError, match="Input tensor must be on host"):
        pipeline(ModelExecutor, relu, device).compile(on_device)


def test_torch_tensors_and_single_tensors_are_refused(pipe: Pipeline) -> None:
    with pytest.raises(TypeError, match=r"input 0 is a Tensor; a pipeline takes ttnn.Tensor, see ttnn.from_torch"):
        pipe.enqueue(random_inputs(2))
    with pytest.raises(TypeError, match="put it into a list"):
        pipe.enqueue(host(random_inputs(1)[0]))
    with pytest.raises(TypeError, match="put it into a list"):
        pipe.stream(host(random_inputs(1)[0]))


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"shape": (1, 1, 64, 32)}, r"Input 1 has shape .*64.*; the pipeline was compiled for .*32"),
        ({"dtype": ttnn.float32}, r"Input 1 has dtype .*FLOAT32; the pipeline was compiled for .*BFLOAT16"),
        ({"layout": ttnn.TILE_LAYOUT}, r"Input 1 has layout .*TILE; the pipeline was compiled for .*ROW_MAJOR"),
    ],
)
def test_inputs_unlike_the_first_are_refused(pipe: Pipeline, other: dict[str, Any], message: str) -> None:
    options = {"dtype": ttnn.bfloat16, "layout": ttnn.ROW_MAJOR_LAYOUT, **other}
    strange = ttnn.from_torch(torch.zeros(options.pop("shape", SMALL.shape)), **options)
    good = host(random_inputs(1)[0])
    with pytest.raises(ValueError, match=message):
        pipe.enqueue([good, strange])
    with pytest.raises(ValueError, match=message):
        list(pipe.stream([good, strange]))
    assert len(pipe.enqueue([good, good]).pop_all()) == 2


def test_the_order_of_calls(device: Any) -> None:
    pipe = pipeline(TracedModelExecutor, relu, device)
    sample = host(random_inputs(1)[0])
    for early in (lambda: pipe.enqueue([sample]), pipe.pop_all, lambda: pipe.stream([sample])):
        with pytest.raises(RuntimeError, match="must be compiled before"):
            early()
    with pytest.raises(RuntimeError, match=r"Pipeline must be compiled before pre-allocating output tensors\."):
        pipe.preallocate_output_tensors_on_host(2)
    with pytest.raises(RuntimeError, match=r"Executor must be compiled before getting the output schema\."):
        pipe.executor.get_output_schema()
    pipe.compile(sample)
    assert pipe.output_schema == pipe.executor.get_output_schema()
    with pytest.raises(RuntimeError, match="compiled already"):
        pipe.compile(sample)
    pipe.cleanup()
    late = {
        "compile": lambda: pipe.compile(sample),
        "enqueue": lambda: pipe.enqueue([sample]),
        "pop_all": pipe.pop_all,
        "stream": lambda: pipe.stream([sample]),
        "preallocate_output_tensors_on_host": lambda: pipe.preallocate_output_tensors_on_host(1),
    }
    for verb, call in late.items():
        with pytest.raises(RuntimeError, match=f"The pipeline was cleaned up; {verb} needs a new one"):
            call()


def test_more_inputs_than_preallocated_outputs(pipe: Pipeline) -> None:
    inputs = [host(x) for x in random_inputs(3)]
    pipe.preallocate_output_tensors_on_host(4)
    with pytest.raises(
        ValueError, match=r"Number of inputs \(6\) exceeds the number of pre-allocated output slots \(4\)"
    ):
        pipe.enqueue(inputs * 2)
    pipe.enqueue(inputs)
    with pytest.raises(ValueError, match=r"inputs \(3\) exceeds .* slots \(4\)\. 3 of them wait for pop_all"):
        pipe.enqueue(inputs)
    with pytest.raises(RuntimeError, match="Outputs are pending"):
        pipe.preallocate_output_tensors_on_host(8)
    assert len(pipe.pop_all()) == 3
    with pytest.raises(ValueError, match="number_of_tensors_to_allocate is 0; it must be 1 or more"):
        pipe.preallocate_output_tensors_on_host(0)


def test_pipelined_io_needs_two_inputs_in_a_batch(device: Any) -> None:
    with pipeline(MultiCQTracedModelPipelinedIOExecutor, relu, device) as pipe:
        (values,) = random_inputs(1)
        pipe.compile(host(values))
        with pytest.raises(ValueError, match=r"requires at least 2 inputs for pipelining \(got 1\)"):
            pipe.enqueue([host(values)])
        assert same([to_torch(o) for o in pipe.stream([host(values)])], [torch.relu(values)])


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        (lambda x: {"a": x}, TypeError, r"the model's output is a dict"),
        (lambda x: [ttnn.identity(x), (None,)], TypeError, r"the model's output\[1\]\[0\] is a NoneType"),
        (lambda x: (ttnn.identity(x).cpu(),), ValueError, r"the model's output\[0\] is on the host"),
    ],
)
@pytest.mark.parametrize("executor", EXECUTORS)
def test_outputs_that_are_no_device_tensors(
    device: Any, executor: type[Executor], model: Any, error: type[Exception], message: str
) -> None:
    with pipeline(executor, model, device) as pipe, pytest.raises(error, match=message):
        pipe.compile(host(random_inputs(1)[0]))


def test_a_model_that_fails_later_leaves_the_pipeline_usable(device: Any) -> None:
    fails = [False]

    def moody(x: Any) -> Any:
        if fails[0]:
            raise ArithmeticError("moody")
        return ttnn.identity(x)

    with pipeline(ModelExecutor, moody, device) as pipe:
        values = random_inputs(2)
        pipe.compile(host(values[0]))
        fails[0] = True
        with pytest.raises(ArithmeticError):
            pipe.enqueue([host(x) for x in values])
        fails[0] = False
        assert same([to_torch(o) for o in pipe.enqueue([host(x) for x in values]).pop_all()], values)
        assert pipe.stats().inputs == 2


# --- the end -----------------------------------------------------------------------------------------------------


def test_an_exception_in_the_block_cleans_up_and_leaves(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = [host(x) for x in random_inputs(3)]
    with pytest.raises(KeyError, match="mine"), pipeline(TracedModelExecutor, relu, device) as pipe:
        pipe.compile(inputs[0]).enqueue(inputs)
        raise KeyError("mine")
    with pytest.raises(RuntimeError, match="cleaned up"):
        pipe.pop_all()
    assert not device.traces

    def broken() -> None:
        raise OSError("cleaning up failed")

    with pytest.raises(KeyError, match="mine"), pipeline(TracedModelExecutor, relu, device) as pipe:
        monkeypatch.setattr(pipe.executor, "cleanup", broken)
        raise KeyError("mine")


def test_cleaning_up_after_the_device_was_closed_says_so_once(device: Any) -> None:
    pipe = pipeline(TracedModelExecutor, relu, device).compile(host(random_inputs(1)[0]))
    ttnn.close_device(device)
    with pytest.raises(RuntimeError, match="closed"):
        pipe.cleanup()
    pipe.cleanup()


def test_cleaning_up_before_compiling(device: Any) -> None:
    pipe = pipeline(TracedModelExecutor, relu, device)
    pipe.cleanup()
    pipe.cleanup()


def test_every_configuration_has_its_executor(device: Any) -> None:
    for executor, config in CONFIGS.items():
        made = create_pipeline_from_config(config, relu, device, **PLACES, dram_output_memory_config=dram(SMALL))
        assert type(made.executor) is executor
