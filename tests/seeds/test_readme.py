# SPDX-License-Identifier: Apache-2.0
"""The snippets of TT-CNN's README, as they stand there; what they leave open comes from the fixtures below."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tt_cnn import ttnn
from tt_cnn.pipeline import (
    ModelExecutor,
    MultiCQTracedModelOverlappedInputExecutor,
    MultiCQTracedModelPipelinedIOExecutor,
    PipelineConfig,
    TracedModelExecutor,
    create_pipeline_from_config,
    get_memory_config_for_persistent_dram_tensor,
)
from tt_cnn.testing import assert_equal

SHAPE = (1, 1, 512, 64)


@pytest.fixture
def device(open_card: Callable[..., Any]) -> Any:
    return open_card(l1_small_size=16384, trace_region_size=65536, num_command_queues=2, hazards="raise")


@pytest.fixture
def dram_memory_config(device: Any) -> Any:
    return get_memory_config_for_persistent_dram_tensor(
        SHAPE, ttnn.TensorMemoryLayout.HEIGHT_SHARDED, device.dram_grid_size()
    )


@pytest.fixture
def l1_memory_config() -> Any:
    return ttnn.create_sharded_memory_config(SHAPE, ttnn.CoreGrid(x=8, y=1), ttnn.ShardStrategy.HEIGHT)


@pytest.fixture
def images() -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(SHAPE).bfloat16() for _ in range(6)]


@pytest.fixture
def inputs(images: list[torch.Tensor]) -> list[Any]:
    return [ttnn.from_torch(x, dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT) for x in images]


# Define your model as a Callable function
def my_model(l1_input_tensor):
    # Your model receives L1 device tensors - the Pipeline handles host-to-device transfers automatically
    assert l1_input_tensor.storage_type() == ttnn.StorageType.DEVICE
    assert l1_input_tensor.memory_config().buffer_type == ttnn.BufferType.L1

    x = ttnn.relu(l1_input_tensor)
    x = ttnn.tilize(x)
    x = ttnn.to_layout(x, ttnn.ROW_MAJOR_LAYOUT)

    return x


def test_getting_started(
    device: Any, dram_memory_config: Any, l1_memory_config: Any, inputs: Any, images: list[torch.Tensor]
) -> None:
    sample_input = inputs[0]

    # Configure the pipeline settings
    config = PipelineConfig(
        use_trace=True,  # Enable tracing
        num_command_queues=2,  # Use two command queues to pipeline subsequent model runs
        all_transfers_on_separate_command_queue=False,  # Use a separate command queue for all data transfers
    )

    # Create the pipeline with the specified configuration
    pipeline = create_pipeline_from_config(
        config=config,
        model=my_model,
        device=device,
        dram_input_memory_config=dram_memory_config,  # DRAM memory configuration for input
        l1_input_memory_config=l1_memory_config,  # L1 memory configuration for input
    )

    # Compile the pipeline with a sample input to warmup the program cache and record traces (if needed)
    # Note: sample_input must be a host tensor (StorageType.HOST)
    pipeline.compile(sample_input)
    # Enqueue TTNN host tensors for processing - pipeline handles all device transfers automatically
    outputs = pipeline.enqueue(inputs).pop_all()
    # Clean up and release resources used by the pipeline
    pipeline.cleanup()

    assert len(outputs) == len(images)
    for output, image in zip(outputs, images, strict=True):
        assert_equal(ttnn.to_torch(output), image.relu())


CONFIGURATIONS = {
    ModelExecutor: lambda: PipelineConfig(
        use_trace=False,
        num_command_queues=1,
    ),
    TracedModelExecutor: lambda: PipelineConfig(
        use_trace=True,
        num_command_queues=1,
    ),
    MultiCQTracedModelOverlappedInputExecutor: lambda: PipelineConfig(
        use_trace=True,
        num_command_queues=2,
        all_transfers_on_separate_command_queue=False,
    ),
    MultiCQTracedModelPipelinedIOExecutor: lambda: PipelineConfig(
        use_trace=True,
        num_command_queues=2,
        all_transfers_on_separate_command_queue=True,
    ),
}


@pytest.mark.parametrize("executor", CONFIGURATIONS, ids=lambda e: e.__name__)
def test_choosing_the_right_configuration(
    executor: Any,
    device: Any,
    dram_memory_config: Any,
    l1_memory_config: Any,
    inputs: Any,
    images: list[torch.Tensor],
) -> None:
    config = CONFIGURATIONS[executor]()
    with create_pipeline_from_config(
        config,
        my_model,
        device,
        l1_memory_config,
        dram_memory_config,
        dram_memory_config if executor.spills else None,
    ) as pipeline:
        assert type(pipeline.executor) is executor
        outputs = pipeline.compile(inputs[0]).enqueue(inputs).pop_all()
        for output, image in zip(outputs, images, strict=True):
            assert_equal(ttnn.to_torch(output), image.relu())


@pytest.mark.parametrize("shard_strategy", ["WIDTH_SHARDED", "HEIGHT_SHARDED"])
def test_dram_memory_configuration(device: Any, shard_strategy: str) -> None:
    input_shape = (1, 1, 512, 96)

    dram_memory_config = get_memory_config_for_persistent_dram_tensor(
        shape=input_shape,
        shard_strategy=getattr(ttnn.TensorMemoryLayout, shard_strategy),  # or HEIGHT_SHARDED
        dram_grid_size=device.dram_grid_size(),
    )

    assert dram_memory_config.buffer_type == ttnn.BufferType.DRAM
    shard = dram_memory_config.shard_spec
    whole = 512 * 96
    assert shard.grid.num_cores() * shard.shape[0] * shard.shape[1] == whole
    values = torch.randn(input_shape).bfloat16()
    host = ttnn.from_torch(values, dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT)
    kept = ttnn.allocate_tensor_on_device(host.shape, host.dtype, host.layout, device, dram_memory_config)
    ttnn.copy_host_to_device_tensor(host, kept)
    assert_equal(ttnn.to_torch(kept), values)


def test_preallocating_host_memory_for_output_tensors(
    device: Any, dram_memory_config: Any, l1_memory_config: Any, inputs: Any, images: list[torch.Tensor]
) -> None:
    number_of_inputs = len(inputs)
    with create_pipeline_from_config(PipelineConfig(), my_model, device, l1_memory_config, dram_memory_config) as pipe:
        pipe.compile(inputs[0])

        pipe.preallocate_output_tensors_on_host(number_of_inputs)

        allocated = list(pipe.output_tensors)
        outputs = pipe.enqueue(inputs).pop_all()
        assert all(output is kept for output, kept in zip(outputs, allocated, strict=True))
        for output, image in zip(outputs, images, strict=True):
            assert_equal(ttnn.to_torch(output), image.relu())


# --- the list of common issues ------------------------------------------------------------------------------------


def test_device_tensors_are_rejected(device: Any, dram_memory_config: Any, l1_memory_config: Any, inputs: Any) -> None:
    with create_pipeline_from_config(PipelineConfig(), my_model, device, l1_memory_config, dram_memory_config) as pipe:
        pipe.compile(inputs[0])
        with pytest.raises(ValueError, match="must be on host"):
            pipe.enqueue([ttnn.to_device(inputs[0], device)])


def test_a_trace_region_that_is_too_small_names_the_size(
    open_card: Callable[..., Any], l1_memory_config: Any, inputs: Any
) -> None:
    device = open_card(l1_small_size=16384, trace_region_size=1024)
    dram = get_memory_config_for_persistent_dram_tensor(
        SHAPE, ttnn.TensorMemoryLayout.HEIGHT_SHARDED, device.dram_grid_size()
    )
    pipe = create_pipeline_from_config(PipelineConfig(), my_model, device, l1_memory_config, dram)
    message = r"Creating trace buffers of size \d+B on MeshDevice \d+, but only 1024B is allocated for trace region"
    with pytest.raises(RuntimeError, match=message):
        pipe.compile(inputs[0])


def test_an_l1_configuration_for_another_shape_is_refused(device: Any, dram_memory_config: Any, inputs: Any) -> None:
    wrong = ttnn.create_sharded_memory_config((1, 1, 512, 32), ttnn.CoreGrid(x=8, y=1), ttnn.ShardStrategy.HEIGHT)
    pipe = create_pipeline_from_config(PipelineConfig(), my_model, device, wrong, dram_memory_config)
    with pytest.raises(RuntimeError, match="must match physical width"):
        pipe.compile(inputs[0])


def test_the_imports_as_they_stand() -> None:
    from tt_cnn import compat

    compat.install(everything=True)
    try:
        namespace: dict[str, Any] = {}
        exec(
            "import ttnn\n"
            "from models.tt_cnn.tt.pipeline import PipelineConfig, create_pipeline_from_config\n"
            "from models.tt_cnn.tt.pipeline import get_memory_config_for_persistent_dram_tensor\n",
            namespace,
        )
    finally:
        compat.uninstall()
    assert namespace["create_pipeline_from_config"] is create_pipeline_from_config
    assert namespace["ttnn"] is ttnn
