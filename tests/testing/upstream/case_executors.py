# SPDX-License-Identifier: Apache-2.0
"""Executors made and driven by hand, in every form that TT-CNN takes."""

import inspect

import pytest
import torch
import ttnn
from models.tt_cnn.tt.executor import (
    Executor,
    ModelExecutor,
    MultiCQModelOverlappedInputExecutor,
    MultiCQTracedModelOverlappedInputExecutor,
    MultiCQTracedModelPipelinedIOExecutor,
    TracedModelExecutor,
)
from models.tt_cnn.tt.pipeline import Pipeline, pipeline
from tests.ttnn.utils_for_testing import assert_equal

DEVICE = pytest.mark.parametrize(
    "device_params",
    [{"l1_small_size": 16384, "trace_region_size": 32768, "num_command_queues": 2}],
    indirect=True,
)
SHAPE = (1, 1, 256, 64)


def shards(cores, where):
    grid = ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(cores - 1, 0))})
    spec = ttnn.ShardSpec(grid, [SHAPE[-2] // cores, SHAPE[-1]], ttnn.ShardOrientation.ROW_MAJOR)
    return ttnn.MemoryConfig(ttnn.TensorMemoryLayout.HEIGHT_SHARDED, where, spec)


DRAM, L1 = shards(4, ttnn.BufferType.DRAM), shards(8, ttnn.BufferType.L1)


def model(x):
    tiles = ttnn.tilize(x)
    ttnn.deallocate(x)
    return ttnn.to_layout(ttnn.relu(tiles), ttnn.ROW_MAJOR_LAYOUT)


MAKERS = {
    "plain": lambda device: ModelExecutor(model, device, L1),
    "plain by name": lambda device: ModelExecutor(model, device, l1_input_memory_config=L1, cq_id=0),
    "plain on the other queue": lambda device: ModelExecutor(model, device, L1, 1),
    "traced": lambda device: TracedModelExecutor(model, device, DRAM, L1),
    "traced by name": lambda device: TracedModelExecutor(
        model, device, dram_input_memory_config=DRAM, l1_input_memory_config=L1, cq_id=0
    ),
    "traced on the other queue": lambda device: TracedModelExecutor(model, device, DRAM, L1, 1),
    "overlapped": lambda device: MultiCQModelOverlappedInputExecutor(model, device, DRAM, L1),
    "traced and overlapped": lambda device: MultiCQTracedModelOverlappedInputExecutor(model, device, DRAM, L1),
    "pipelined": lambda device: MultiCQTracedModelPipelinedIOExecutor(model, device, DRAM, L1, DRAM),
    "pipelined by name": lambda device: MultiCQTracedModelPipelinedIOExecutor(
        model,
        device,
        dram_input_memory_config=DRAM,
        l1_input_memory_config=L1,
        dram_output_memory_config=DRAM,
    ),
}
EVERY = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())


def batch(count):
    values = [torch.randn(SHAPE, dtype=torch.bfloat16) for _ in range(count)]
    return [ttnn.from_torch(one, dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT) for one in values], values


@DEVICE
@EVERY
def test_execute_gives_outputs_on_the_device(device, make):
    executor = make(device)
    assert isinstance(executor, Executor)
    inputs, values = batch(5)
    executor.compile(inputs[0])
    shape, dtype, layout = executor.get_output_schema()
    assert (shape, dtype, layout) == (SHAPE, ttnn.bfloat16, ttnn.ROW_MAJOR_LAYOUT)
    for _ in range(2):
        outputs = []
        for output in executor.execute(inputs):
            assert output.storage_type() == ttnn.StorageType.DEVICE
            outputs.append(output.cpu(blocking=False, cq_id=executor.get_read_cq()))
        ttnn.synchronize_device(device)
        assert len(outputs) == len(values)
        for output, value in zip(outputs, values, strict=True):
            assert_equal(ttnn.to_torch(output), torch.relu(value))
    executor.cleanup()


@DEVICE
@EVERY
def test_a_pipeline_around_an_executor(device, make):
    inputs, values = batch(4)
    pipe = pipeline(make(device))
    assert isinstance(pipe, Pipeline) and pipe.output_schema is None
    pipe.compile(inputs[0]).preallocate_output_tensors_on_host(4)
    outputs = pipe.enqueue(inputs).pop_all()
    assert outputs is pipe.output_tensors
    for output, value in zip(outputs, values, strict=True):
        assert_equal(ttnn.to_torch(output), torch.relu(value))
    pipe.cleanup()


@DEVICE
@EVERY
def test_before_compiling_and_with_inputs_on_the_device(device, make):
    executor = make(device)
    with pytest.raises(RuntimeError, match="Executor must be compiled before getting the output schema"):
        executor.get_output_schema()
    inputs, _ = batch(1)
    with pytest.raises(ValueError, match="Input tensor must be on host"):
        executor.compile(ttnn.to_device(inputs[0], device))
    executor.cleanup()


@DEVICE
def test_pipelining_needs_two_inputs(device):
    executor = MAKERS["pipelined"](device)
    inputs, _ = batch(1)
    executor.compile(inputs[0])
    with pytest.raises(ValueError, match=r"requires at least 2 inputs for pipelining \(got 1\)"):
        list(executor.execute(inputs))
    executor.cleanup()


class Doubling(Executor):
    """An executor of one's own, with the five methods that TT-CNN asks for."""

    def __init__(self, device):
        self.device = device
        self.schema = None

    def compile(self, host_input):
        (output,) = self.execute([host_input])
        self.schema = (output.shape, output.dtype, output.layout)

    def execute(self, host_inputs):
        for host_input in host_inputs:
            x = ttnn.to_device(host_input, self.device, memory_config=L1)
            yield ttnn.add(x, x)

    def cleanup(self):
        self.schema = None

    def get_read_cq(self):
        return 0

    def get_output_schema(self):
        return self.schema


@DEVICE
def test_an_executor_of_ones_own(device):
    inputs, values = batch(3)
    pipe = pipeline(Doubling(device))
    for output, value in zip(pipe.compile(inputs[0]).enqueue(inputs).pop_all(), values, strict=True):
        assert_equal(ttnn.to_torch(output), value + value)
    pipe.preallocate_output_tensors_on_host(3)
    for output, value in zip(pipe.enqueue(inputs).pop_all(), values, strict=True):
        assert_equal(ttnn.to_torch(output), value + value)
    pipe.cleanup()


class Tracing(Executor):
    """A trace of one's own, with the input written straight to L1."""

    def __init__(self, model, device, l1_input_memory_config, cq_id=0):
        self.model, self.device, self.cq_id, self.place = model, device, cq_id, l1_input_memory_config
        self.output_schema = self.trace_id = None

    def get_output_schema(self):
        return self.output_schema

    def get_read_cq(self):
        return self.cq_id

    def compile(self, host_input):
        output = self.model(ttnn.to_device(host_input, device=self.device, memory_config=self.place))
        self.output_schema = (output.shape, output.dtype, output.layout)
        ttnn.deallocate(output, force=True)
        given = ttnn.to_device(host_input, device=self.device, memory_config=self.place)
        spec, address = given.spec, given.buffer_address()
        self.trace_id = ttnn.begin_trace_capture(self.device, cq_id=self.cq_id)
        self.output = self.model(given)
        self.kept = ttnn.allocate_tensor_on_device(spec, self.device)
        assert self.kept.buffer_address() == address
        ttnn.end_trace_capture(self.device, self.trace_id, cq_id=self.cq_id)

    def execute(self, host_inputs):
        for host_input in host_inputs:
            ttnn.copy_host_to_device_tensor(host_input, self.kept, cq_id=self.cq_id)
            ttnn.execute_trace(self.device, self.trace_id, cq_id=self.cq_id, blocking=False)
            yield self.output

    def cleanup(self):
        ttnn.release_trace(self.device, self.trace_id)


@DEVICE
def test_a_trace_of_ones_own(device):
    inputs, values = batch(3)
    pipe = pipeline(Tracing(model, device, L1)).compile(inputs[0])
    for output, value in zip(pipe.enqueue(inputs).pop_all(), values, strict=True):
        assert_equal(ttnn.to_torch(output), torch.relu(value))
    pipe.cleanup()


def test_signatures():
    names = {
        ModelExecutor: ["model", "device", "l1_input_memory_config", "cq_id"],
        TracedModelExecutor: ["model", "device", "dram_input_memory_config", "l1_input_memory_config", "cq_id"],
    }
    for executor, expected in names.items():
        assert list(inspect.signature(executor).parameters) == expected
    assert MultiCQTracedModelOverlappedInputExecutor.CQ_OPS_AND_OUTPUT_READ == 0
    assert MultiCQModelOverlappedInputExecutor.CQ_INPUT_WRITE == 1
    assert (MultiCQTracedModelPipelinedIOExecutor.CQ_OPS, MultiCQTracedModelPipelinedIOExecutor.CQ_IO) == (0, 1)
