# SPDX-License-Identifier: Apache-2.0
"""The snippets of the bring-up guide, as they stand there, on a UNet; what they leave open is filled in beside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from tests.seeds.unet import (
    TtUNetEncoder,
    UNet,
    create_unet_configs_from_parameters,
    create_unet_from_configs,
    create_unet_preprocessor,
    load_reference_model,
)
from tt_cnn import ttnn
from tt_cnn.builder import Conv2dConfiguration, HeightShardedStrategyConfiguration, TtConv2d
from tt_cnn.pipeline import (
    MultiCQTracedModelOverlappedInputExecutor,
    MultiCQTracedModelPipelinedIOExecutor,
    PipelineConfig,
    create_pipeline_from_config,
    get_memory_config_for_persistent_dram_tensor,
)
from tt_cnn.preprocessing import preprocess_model_parameters
from tt_cnn.testing import (
    assert_with_pcc,
    create_random_input_tensor,
    verify_conv2d_from_config,
    verify_maxpool2d_from_config,
)

HEIGHT, WIDTH = 64, 64


@pytest.fixture
def device(open_card: Callable[..., Any]) -> Any:
    return open_card(l1_small_size=65536, num_command_queues=2, hazards="raise")


# --- 3. preprocessing ---------------------------------------------------------------------------------------------


def test_using_preprocess_model_parameters(device: Any) -> None:
    # Load your PyTorch model
    reference_model = load_reference_model()  # Returns PyTorch UNet model

    # Extract and convert weights to TT-NN format
    parameters = preprocess_model_parameters(
        initialize_model=lambda: reference_model,
        custom_preprocessor=create_unet_preprocessor(device),
        device=None,  # Weights are not placed on device yet
    )

    assert parameters["encoder1"][0]["weight"] is parameters.encoder1[0].weight
    assert tuple(parameters["encoder1"][0]["weight"].shape) == (32, 3, 3, 3)
    assert tuple(parameters["encoder1"][0]["bias"].shape) == (1, 1, 1, 32)
    assert tuple(parameters["encoder1"][1]["weight"].shape) == (32, 32, 3, 3)
    assert not ttnn.is_tensor_storage_on_device(parameters["encoder1"][0]["weight"])
    image = torch.randn(1, 3, 16, 16)
    folded = parameters["encoder1"][0]
    found = torch.conv2d(image, ttnn.to_torch(folded["weight"]).float(), padding=1)
    found += ttnn.to_torch(folded["bias"]).float().reshape(1, -1, 1, 1)
    assert_with_pcc(reference_model.encoder1[:2](image).detach(), found, 0.9999)


# --- 5. the model -------------------------------------------------------------------------------------------------


@pytest.fixture
def parameters(device: Any) -> Any:
    return preprocess_model_parameters(
        initialize_model=load_reference_model, custom_preprocessor=create_unet_preprocessor(device), device=None
    )


def test_the_first_encoder_at_full_size(device: Any, parameters: Any) -> None:
    """480x640, with the block height of the guide."""
    configs = create_unet_configs_from_parameters(parameters, 480, 640, 1)
    assert configs.encoder1_conv1.sharding_strategy.act_block_h_override == 480
    torch_input, ttnn_input = create_random_input_tensor(
        input_channels=3,
        input_height=480,
        input_width=640,
        channel_order="first",
        pad=False,
        device=device,
        memory_config=configs.l1_input_memory_config,
    )
    own = (getattr(configs, f"encoder1_{part}") for part in ("conv1", "conv2", "pool"))
    downblock1 = TtUNetEncoder(*own, device)
    enc1, skip1 = downblock1(ttnn.experimental.convert_to_hwc(ttnn_input))
    reference = load_reference_model()
    with torch.no_grad():
        expected = reference.encoder1(torch_input)
        pooled = reference.pool1(expected)
    assert skip1.memory_config() == ttnn.DRAM_MEMORY_CONFIG
    assert_with_pcc(expected, ttnn.to_torch(skip1).float().reshape(1, 480, 640, 32).permute(0, 3, 1, 2), 0.998)
    assert_with_pcc(pooled, ttnn.to_torch(enc1).float().reshape(1, 240, 320, 32).permute(0, 3, 1, 2), 0.998)


# --- 6. all together ----------------------------------------------------------------------------------------------


def prepare_ttnn_input(input_data: torch.Tensor, memory_config: Any, device: Any) -> Any:
    padded = nn.functional.pad(input_data, (0, 0, 0, 0, 0, 13)).reshape(1, 1, 16, -1)
    return ttnn.from_torch(padded, dtype=ttnn.bfloat16, device=device, memory_config=memory_config)


@pytest.mark.usefixtures("open_card")
def test_put_it_all_together() -> None:
    # Initialize device (typically provided by pytest fixtures)
    device = ttnn.open_device(device_id=0, l1_small_size=65536)

    # Step 1: Load PyTorch model
    reference_model = load_reference_model()

    # Step 2: Preprocess weights
    parameters = preprocess_model_parameters(
        initialize_model=lambda: reference_model,
        custom_preprocessor=create_unet_preprocessor(device),
        device=None,
    )

    # Step 3: Create configurations with weights
    configs = create_unet_configs_from_parameters(
        parameters=parameters,  # Contains all preprocessed weights
        input_height=HEIGHT,
        input_width=WIDTH,
        batch_size=1,
    )

    # Step 4: Build TT-NN model
    tt_model = create_unet_from_configs(configs, device)

    # Run inference
    # Option 1: Manual input preparation
    input_data = torch.randn(1, 3, HEIGHT, WIDTH).bfloat16().float()
    ttnn_input = prepare_ttnn_input(input_data, configs.l1_input_memory_config, device)
    check(reference_model, input_data, tt_model(ttnn_input))

    # Option 2: Use TT-CNN testing utility (supports various formats)
    torch_input, ttnn_input = create_random_input_tensor(
        batch_size=1,
        input_channels=3,
        input_height=HEIGHT,
        input_width=WIDTH,
        channel_order="first",  # "first" for NCHW, "last" for NHWC
        fold=True,  # Flatten HW dimensions for conv
        pad=True,  # Pad to tile size
        ttnn_dtype=ttnn.bfloat16,
        memory_config=configs.l1_input_memory_config,
        device=device,
    )

    output = tt_model(ttnn_input)

    check(reference_model, torch_input, output)

    # Cleanup
    ttnn.close_device(device)


def check(reference_model: UNet, image: torch.Tensor, output: Any) -> None:
    with torch.no_grad():
        expected = reference_model(image)
    assert_with_pcc(expected, ttnn.to_torch(output).float().reshape(expected.shape), 0.97)


# --- 7. trace and two queues --------------------------------------------------------------------------------------


def test_when_to_use_all_transfers_on_separate_command_queue(device: Any) -> None:
    # Standard 2CQ: Input transfers on CQ1, compute+output on CQ0
    config = PipelineConfig(use_trace=True, num_command_queues=2)
    assert type(executor_of(config, device)) is MultiCQTracedModelOverlappedInputExecutor

    # Full separation: All transfers on CQ1, only compute on CQ0
    config = PipelineConfig(
        use_trace=True,
        num_command_queues=2,
        all_transfers_on_separate_command_queue=True,
    )
    assert type(executor_of(config, device)) is MultiCQTracedModelPipelinedIOExecutor


def executor_of(config: PipelineConfig, device: Any) -> Any:
    dram = get_memory_config_for_persistent_dram_tensor(
        (1, 1, 32, 32), ttnn.TensorMemoryLayout.HEIGHT_SHARDED, device.dram_grid_size()
    )
    return create_pipeline_from_config(config, lambda x: x, device, ttnn.L1_MEMORY_CONFIG, dram, dram).executor


# test_perf.py
def create_unet_pipeline_model(model):
    """Wrapper to make model compatible with pipeline"""

    def run(input_l1_tensor: ttnn.Tensor):
        # Model receives L1 tensors from pipeline
        return model(input_l1_tensor, deallocate_input_activation=False)

    return run


def test_implementation_example(device: Any, parameters: Any) -> None:
    configs = create_unet_configs_from_parameters(parameters, HEIGHT, WIDTH, 1)
    tt_model = create_unet_from_configs(configs, device)
    torch_input, ttnn_input = create_random_input_tensor(
        input_channels=3, input_height=HEIGHT, input_width=WIDTH, channel_order="first"
    )
    sample_input, num_iterations = ttnn_input, 3
    dram_input_memory_config = get_memory_config_for_persistent_dram_tensor(
        ttnn_input.shape, ttnn.TensorMemoryLayout.WIDTH_SHARDED, device.dram_grid_size()
    )
    dram_output_memory_config = get_memory_config_for_persistent_dram_tensor(
        (1, 1, 1, HEIGHT * WIDTH), ttnn.TensorMemoryLayout.WIDTH_SHARDED, device.dram_grid_size()
    )

    # Configure pipeline with tracing and 2 command queues
    pipeline = create_pipeline_from_config(
        config=PipelineConfig(
            use_trace=True,  # Enable tracing for performance
            num_command_queues=2,  # Use 2 CQs for overlapped execution
            all_transfers_on_separate_command_queue=True,  # Separate I/O queue
        ),
        model=create_unet_pipeline_model(tt_model),
        device=device,
        dram_input_memory_config=dram_input_memory_config,
        dram_output_memory_config=dram_output_memory_config,
        l1_input_memory_config=configs.l1_input_memory_config,
    )

    # Compile once
    pipeline.compile(sample_input)

    # Run inference
    input_tensors = [ttnn_input] * num_iterations
    outputs = pipeline.enqueue(input_tensors).pop_all()

    # Cleanup
    pipeline.cleanup()

    assert len(outputs) == 3
    for output in outputs:
        check(load_reference_model(), torch_input, output)


# --- 8. performance -----------------------------------------------------------------------------------------------


def test_sliding_window_configuration(device: Any) -> None:
    # Tune convolution activation block sizes to improve performance
    sharding_strategy = HeightShardedStrategyConfiguration(
        act_block_h_override=15 * 32,  # Must fit in L1 memory per core
        reshard_if_not_optimal=False,
    )

    configuration = Conv2dConfiguration.with_random_weights(
        120,
        256,
        16,
        16,
        1,
        (3, 3),
        padding=(1, 1),
        sharding_strategy=sharding_strategy,
        # Enable double buffering for throughput
        enable_act_double_buffer=True,  # Double buffer activations
        enable_weights_double_buffer=True,  # Double buffer weights
    )
    assert verify_conv2d_from_config(configuration, device) > 0.999


def test_data_types(device: Any) -> None:
    """The sizes that every configuration needs are the only addition."""
    sizes = {"input_height": 16, "input_width": 16, "in_channels": 32, "out_channels": 32, "batch_size": 1}
    weight, bias = Conv2dConfiguration.convert_torch_weight_and_bias_to_ttnn(torch.randn(32, 32, 3, 3), torch.randn(32))
    layer = {**sizes, "kernel_size": (3, 3), "padding": (1, 1), "weight": weight, "bias": bias}

    # Example mixed precision strategy
    encoder1_conv1 = Conv2dConfiguration(
        activation_dtype=ttnn.bfloat16,  # First layer uses higher precision
        weights_dtype=ttnn.bfloat8_b,  # Weights in lower precision
        output_dtype=ttnn.bfloat16,
        **layer,
    )

    encoder2_conv1 = Conv2dConfiguration(
        activation_dtype=ttnn.bfloat8_b,  # Intermediate layers use lower precision
        weights_dtype=ttnn.bfloat8_b,
        output_dtype=ttnn.bfloat8_b,
        **layer,
    )

    for configuration in (encoder1_conv1, encoder2_conv1):
        assert verify_conv2d_from_config(configuration, device, 0.99) > 0.99


@pytest.mark.usefixtures("open_card")
def test_multi_device_support() -> None:
    mesh_device = ttnn.open_mesh_device(ttnn.MeshShape(1, 2), card="n300", l1_small_size=16384)
    reference_model = load_reference_model()

    # For multi-device deployment
    inputs_mesh_mapper = ttnn.ShardTensorToMesh(mesh_device, dim=0)
    weights_mesh_mapper = ttnn.ReplicateTensorToMesh(mesh_device)

    parameters = preprocess_model_parameters(
        initialize_model=lambda: reference_model,
        custom_preprocessor=create_unet_preprocessor(mesh_device, mesh_mapper=weights_mesh_mapper),
        device=None,
    )

    configuration = Conv2dConfiguration(32, 32, 3, 32, 1, padding=(1, 1), kernel_size=(3, 3), **parameters.encoder1[0])
    images = torch.randn(2, 3, 32, 32).bfloat16().float()
    x = ttnn.from_torch(
        images.permute(0, 2, 3, 1), dtype=ttnn.bfloat16, device=mesh_device, mesh_mapper=inputs_mesh_mapper
    )
    output = TtConv2d(configuration, mesh_device)(x)
    rows = ttnn.to_torch(output, mesh_composer=ttnn.ConcatMeshToTensor(mesh_device, dim=0)).float()
    ttnn.close_mesh_device(mesh_device)
    expected = reference_model.encoder1[:2](images).detach()
    assert_with_pcc(expected, rows.reshape(2, 32, 32, 32).permute(0, 3, 1, 2), 0.999)


# --- testing ------------------------------------------------------------------------------------------------------


pcc_threshold = 0.99


# Test a single Conv2d layer
def test_encoder1_conv1(device, parameters):
    encoder1_conv1_config = create_unet_configs_from_parameters(parameters, HEIGHT, WIDTH, 1).encoder1_conv1
    config = encoder1_conv1_config  # From your config.py
    pcc_threshold = 0.99

    # Automatically creates test input, runs PyTorch reference,
    # and compares with TT-NN implementation
    verify_conv2d_from_config(config, device, pcc_threshold)


# Test a MaxPool2d layer
def test_encoder1_pool(device, parameters):
    encoder1_pool_config = create_unet_configs_from_parameters(parameters, HEIGHT, WIDTH, 1).encoder1_pool
    config = encoder1_pool_config
    verify_maxpool2d_from_config(config, device, pcc_threshold)


def test_the_imports_as_they_stand() -> None:
    from tt_cnn import compat

    compat.install(everything=True)
    try:
        namespace: dict[str, Any] = {}
        exec(
            "import ttnn\n"
            "from ttnn.model_preprocessing import fold_batch_norm2d_into_conv2d\n"
            "from ttnn.model_preprocessing import preprocess_model_parameters\n"
            "from models.tt_cnn.tt.builder import TtConv2d, TtMaxPool2d\n"
            "from models.tt_cnn.tt.testing import create_random_input_tensor\n"
            "from models.tt_cnn.tt.pipeline import PipelineConfig, create_pipeline_from_config\n"
            "from models.tt_cnn.tt.testing import verify_conv2d_from_config, verify_maxpool2d_from_config\n",
            namespace,
        )
    finally:
        compat.uninstall()
    assert namespace["verify_maxpool2d_from_config"] is verify_maxpool2d_from_config
