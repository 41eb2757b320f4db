# SPDX-License-Identifier: Apache-2.0
"""Pipelines and executors, as tests of TT-CNN use them."""

import pytest
import torch
import ttnn
from models.tt_cnn.tt.executor import (
    ModelExecutor,
    MultiCQModelOverlappedInputExecutor,
    MultiCQTracedModelOverlappedInputExecutor,
    MultiCQTracedModelPipelinedIOExecutor,
    TracedModelExecutor,
)
from models.tt_cnn.tt.pipeline import (
    PipelineConfig,
    create_pipeline_from_config,
    get_memory_config_for_persistent_dram_tensor,
)
from tests.ttnn.utils_for_testing import assert_equal

DEVICE = pytest.mark.parametrize(
    "device_params",
    [{"l1_small_size": 16384, "trace_region_size": 32768, "num_command_queues": 2}],
    indirect=True,
)
KINDS = {
    ModelExecutor: (False, 1, False),
    TracedModelExecutor: (True, 1, False),
    MultiCQModelOverlappedInputExecutor: (False, 2, False),
    MultiCQTracedModelOverlappedInputExecutor: (True, 2, False),
    MultiCQTracedModelPipelinedIOExecutor: (True, 2, True),
}
SIZES = {(1, 1, 32, 32): (1, 1), (1, 1, 512, 64): (4, 8)}


def shards(shape, cores, where):
    grid = ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(cores - 1, 0))})
    spec = ttnn.ShardSpec(grid, [shape[-2] // cores, shape[-1]], ttnn.ShardOrientation.ROW_MAJOR)
    return ttnn.MemoryConfig(ttnn.TensorMemoryLayout.HEIGHT_SHARDED, where, spec)


def check_input(x, shape):
    assert x.storage_type() == ttnn.StorageType.DEVICE
    assert x.memory_config().buffer_type == ttnn.BufferType.L1
    assert shape == x.shape


def relu_model(shape):
    def run(x):
        check_input(x, shape)
        tiles = ttnn.tilize(x)
        ttnn.deallocate(x)
        return ttnn.to_layout(ttnn.relu(tiles), ttnn.ROW_MAJOR_LAYOUT)

    return run, torch.nn.functional.relu


def identity_model(shape):
    def run(x):
        check_input(x, shape)
        return ttnn.identity(x)

    return run, lambda x: x


def made(executor, model, device, shape):
    use_trace, queues, separate = KINDS[executor]
    config = PipelineConfig(
        use_trace=use_trace, num_command_queues=queues, all_transfers_on_separate_command_queue=separate
    )
    dram_cores, l1_cores = SIZES[shape]
    dram = shards(shape, dram_cores, ttnn.BufferType.DRAM)
    return create_pipeline_from_config(
        config=config,
        model=model,
        device=device,
        dram_input_memory_config=dram,
        l1_input_memory_config=shards(shape, l1_cores, ttnn.BufferType.L1),
        dram_output_memory_config=dram,
    )


def inputs(count, shape, reference):
    images = [torch.rand(shape, dtype=torch.bfloat16) for _ in range(count)]
    hosts = [
        ttnn.from_torch(x, dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT, memory_config=None, device=None)
        for x in images
    ]
    return hosts, [reference(x) for x in images]


def all_equal(outputs, references):
    assert len(outputs) == len(references)
    for output, reference in zip(outputs, references, strict=True):
        assert output.storage_type() == ttnn.StorageType.HOST
        assert_equal(ttnn.to_torch(output), reference)


@DEVICE
@pytest.mark.parametrize("executor", KINDS, ids=lambda e: e.__name__)
@pytest.mark.parametrize("shape", SIZES, ids=str)
@pytest.mark.parametrize("create_model", [relu_model, identity_model])
def test_rounds_of_inputs(device, executor, shape, create_model):
    model, reference = create_model(shape)
    pipe = made(executor, model, device, shape)
    assert isinstance(pipe.executor, executor)
    pipe.compile(inputs(1, shape, reference)[0][0])
    for _ in range(3):
        hosts, references = inputs(32, shape, reference)
        all_equal(pipe.enqueue(hosts).pop_all(), references)
    pipe.cleanup()


@DEVICE
@pytest.mark.parametrize("executor", KINDS, ids=lambda e: e.__name__)
@pytest.mark.parametrize("shape", SIZES, ids=str)
@pytest.mark.parametrize("create_model", [relu_model, identity_model])
def test_outputs_allocated_ahead(device, executor, shape, create_model):
    model, reference = create_model(shape)
    pipe = made(executor, model, device, shape)
    hosts, references = inputs(32, shape, reference)
    pipe.compile(hosts[0])
    pipe.preallocate_output_tensors_on_host(32)
    assert pipe.preallocated_output_tensors
    assert len(pipe.output_tensors) == 32
    outputs = pipe.enqueue(hosts).pop_all()
    pipe.cleanup()
    assert outputs is pipe.output_tensors
    all_equal(outputs, references)


@DEVICE
@pytest.mark.parametrize("executor", KINDS, ids=lambda e: e.__name__)
def test_several_outputs(device, executor):
    shape = (1, 1, 512, 64)

    def model(x):
        check_input(x, shape)
        kept = ttnn.identity(x)
        rectified = ttnn.relu(x)
        ttnn.deallocate(x)
        return [kept, rectified]

    pipe = made(executor, model, device, shape)
    hosts, references = inputs(8, shape, lambda x: [x, torch.relu(x)])
    pipe.compile(hosts[0])
    outputs = pipe.enqueue(hosts).pop_all()
    pipe.cleanup()
    for output, reference in zip(outputs, references, strict=True):
        all_equal(output, reference)


@DEVICE
def test_the_end_of_a_read_is_signalled_once_for_each_input(device):
    shape = (1, 1, 512, 64)
    model, reference = identity_model(shape)
    pipe = made(MultiCQTracedModelPipelinedIOExecutor, model, device, shape)
    count, signal = [0], pipe.executor.signal_read_complete

    def counting():
        count[0] += 1
        signal()

    pipe.executor.signal_read_complete = counting
    pipe.compile(inputs(1, shape, reference)[0][0])
    for _ in range(3):
        hosts, references = inputs(32, shape, reference)
        all_equal(pipe.enqueue(hosts).pop_all(), references)
    pipe.cleanup()
    assert count == [96]


@pytest.mark.parametrize("layout, shard", [("WIDTH_SHARDED", [64, 32]), ("HEIGHT_SHARDED", [32, 64])])
def test_places_in_dram(layout, shard):
    strategy = getattr(ttnn.TensorMemoryLayout, layout)
    config = get_memory_config_for_persistent_dram_tensor((1, 1, 64, 64), strategy, ttnn.CoreCoord(2, 1))
    assert config.buffer_type == ttnn.BufferType.DRAM
    assert config.shard_spec.shape == shard
    with pytest.raises(ValueError):
        get_memory_config_for_persistent_dram_tensor((1, 1, 64, 64), strategy, ttnn.CoreCoord(2, 2))


@DEVICE
def test_a_schedule_written_by_hand(device):
    """Two queues, events and a trace, without an executor."""
    shape = (1, 1, 1024, 32)
    dram, l1 = shards(shape, 2, ttnn.BufferType.DRAM), shards(shape, 4, ttnn.BufferType.L1)

    def model(x):
        tiles = ttnn.tilize(x)
        return ttnn.relu(ttnn.add(tiles, tiles))

    hosts, references = inputs(4, shape, lambda x: torch.relu(x + x))
    kept = ttnn.allocate_tensor_on_device(hosts[0].shape, hosts[0].dtype, hosts[0].layout, device, dram)
    staged = ttnn.record_event(device, 0)

    def write(host):
        ttnn.wait_for_event(1, staged)
        ttnn.copy_host_to_device_tensor(host, kept, cq_id=1)
        ttnn.wait_for_event(0, ttnn.record_event(device, 1))

    write(hosts[0])
    x = ttnn.to_memory_config(kept, l1)
    output = model(x)
    output.deallocate(force=True)
    ttnn.deallocate(x)
    x = ttnn.reshard(kept, l1)
    address, spec = x.buffer_address(), x.spec
    ttnn.synchronize_device(device)
    trace = ttnn.begin_trace_capture(device, cq_id=0)
    output = model(x)
    ttnn.deallocate(x)
    x = ttnn.allocate_tensor_on_device(spec, device)
    ttnn.end_trace_capture(device, trace, cq_id=0)
    assert x.buffer_address() == address
    outputs = []
    for host in hosts:
        write(host)
        x = ttnn.reshard(kept, l1, x)
        staged = ttnn.record_event(device, 0)
        ttnn.execute_trace(device, trace, cq_id=0, blocking=False)
        outputs.append(output.cpu(blocking=False))
    ttnn.synchronize_device(device)
    ttnn.release_trace(device, trace)
    all_equal(outputs, references)
