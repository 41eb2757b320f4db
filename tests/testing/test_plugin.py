# SPDX-License-Identifier: Apache-2.0
"""The pytest plugin, in runs of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tt_cnn import compat, runtime

pytest_plugins = ["pytester"]
PLUGIN = ("-p", "tt_cnn.testing.plugin", "-p", "no:cacheprovider")


@pytest.fixture(autouse=True)
def nothing_stays_behind() -> Iterator[None]:
    before = {name: os.environ.get(name) for name in (runtime.VARIABLE, "TT_CNN_CARD")}
    chosen = runtime.select()
    yield
    assert {name: os.environ.get(name) for name in before} == before
    assert not compat.installed() and runtime.select() is chosen


def passes(pytester: pytest.Pytester, source: str, *options: str, **outcomes: int) -> pytest.RunResult:
    pytester.makepyfile(source)
    result = pytester.runpytest_inprocess(*PLUGIN, *options)
    result.assert_outcomes(**(outcomes or {"passed": 1}))
    return result


def test_device_takes_its_parameters_and_is_closed_again(pytester: pytest.Pytester) -> None:
    source = """
        import pytest
        from tt_cnn import ttnn
        seen = []

        @pytest.mark.parametrize("device_params", [{"l1_small_size": 24576, "num_command_queues": 2}], indirect=True)
        def test_with_parameters(device, device_params):
            assert device.l1_small_size == device_params["l1_small_size"] == 24576
            assert len(device.queues) == 2
            assert ttnn.GetDefaultDevice() is device
            seen.append(device)

        def test_without(device, device_params, use_program_cache):
            assert device_params == {} and seen[0].closed
            assert ttnn.GetDefaultDevice() is device
    """
    result = passes(pytester, source, "--ttnn-runtime", "virtual", passed=2)
    result.stdout.fnmatch_lines(["*tt-cnn: the virtual card (TT_CNN_RUNTIME=virtual)*"])


def test_meshes(pytester: pytest.Pytester) -> None:
    source = """
        import pytest

        def test_all_devices_of_the_card(mesh_device, use_program_cache):
            assert tuple(mesh_device.shape) == (1, 2)

        @pytest.mark.parametrize("mesh_device", [4], indirect=True)
        def test_a_number(mesh_device):
            assert tuple(mesh_device.shape) == (1, 4)

        @pytest.mark.parametrize("mesh_device", [(2, 2)], indirect=True)
        @pytest.mark.parametrize("device_params", [{"l1_small_size": 1024}], indirect=True)
        def test_rows_and_columns(mesh_device):
            assert tuple(mesh_device.shape) == (2, 2) and mesh_device.l1_small_size == 1024

        @pytest.mark.parametrize("mesh_device", [64], indirect=True)
        def test_too_many(mesh_device):
            raise AssertionError
    """
    result = passes(pytester, source, "--card", "n300", "-rs", passed=3, skipped=1)
    result.stdout.fnmatch_lines(["*Requested more devices (64) than available (32). Test not applicable for machine*"])


def test_the_card(pytester: pytest.Pytester) -> None:
    passes(
        pytester,
        """
        from tt_cnn import ttnn

        def test_blackhole(device):
            assert ttnn.get_arch_name() == "blackhole" and device.card.name == "p150"
        """,
        "--card",
        "p150",
    )


def test_seeds_models_and_errors(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    pytester.mkdir("weights").joinpath("unet.pt").touch()
    monkeypatch.setenv("TT_CNN_MODELS", str(pytester.path / "weights"))
    monkeypatch.setenv("CI", "true")
    source = """
        import random
        import numpy
        import torch

        numbers = []

        def draw():
            return torch.rand(3).tolist() + [random.random(), numpy.random.rand()]

        def test_one(reset_seeds):
            numbers.append(draw())

        def test_two(reset_seeds):
            assert draw() == numbers[0]
            torch.manual_seed(213919)
            assert torch.rand(3).tolist() == numbers[0][:3]

        def test_models(model_location_generator, is_ci_env):
            assert model_location_generator("unet.pt", model_subdir="", download_if_ci_v2=True).is_file()
            assert model_location_generator("unet.pt", "elsewhere") == "unet.pt"
            assert is_ci_env

        def test_errors(expect_error):
            with expect_error(ValueError, "wro.g"):
                raise ValueError("wrong")
    """
    passes(pytester, source, passed=4)


def test_unmodified_code_of_ttnn(pytester: pytest.Pytester) -> None:
    source = """
        import torch
        import ttnn
        from ttnn.model_preprocessing import preprocess_model_parameters

        def test_linear(device):
            model = torch.nn.Linear(32, 64)
            parameters = preprocess_model_parameters(initialize_model=lambda: model, device=device)
            x = torch.randn(1, 1, 32, 32)
            y = ttnn.linear(
                ttnn.from_torch(x, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device),
                parameters.weight, bias=parameters.bias,
            )
            assert torch.allclose(ttnn.to_torch(y).float(), model(x), atol=0.1)
    """
    passes(pytester, source, "--compat", "ttnn")


def test_fixtures_of_a_folder_that_open_devices_themselves(pytester: pytest.Pytester) -> None:
    """What the fixtures of TT-NN's own repository ask of the library, on the way in and on the way out."""
    pytester.makeconftest("""
        import pytest
        import ttnn

        @pytest.fixture
        def device_params(request):
            return getattr(request, "param", {})

        @pytest.fixture(autouse=True)
        def default_device():
            before = ttnn.GetDefaultDevice()
            yield
            ttnn.SetDefaultDevice(before)

        @pytest.fixture
        def mesh_device(request, device_params):
            chips = getattr(request, "param", None)
            if chips is None:
                chips = ttnn._ttnn.multi_device.SystemMeshDescriptor().shape().mesh_size()
            if not ttnn.using_distributed_env() and chips > ttnn.get_num_devices():
                pytest.skip("not so many chips")
            assert ttnn.cluster.get_cluster_type() != ttnn.cluster.ClusterType.TG
            axis = ttnn.DispatchCoreAxis.COL if ttnn.device.is_blackhole() else ttnn.DispatchCoreAxis.ROW
            config = ttnn.DispatchCoreConfig(ttnn.device.DispatchCoreType.WORKER, axis)
            mesh = ttnn.open_mesh_device(
                mesh_shape=ttnn.MeshShape(1, chips), dispatch_core_config=config, **device_params
            )
            ttnn.SetDefaultDevice(mesh)
            yield mesh
            ttnn.ReadDeviceProfiler(mesh)
            for part in mesh.get_submeshes():
                ttnn.close_mesh_device(part)
            ttnn.close_mesh_device(mesh)
    """)
    source = """
        import pytest
        import torch
        import ttnn

        @pytest.mark.parametrize("device_params", [{"l1_small_size": 24576, "num_command_queues": 2}], indirect=True)
        def test_mesh(mesh_device):
            x = ttnn.from_torch(torch.ones(1, 1, 32, 32), layout=ttnn.TILE_LAYOUT, device=mesh_device)
            assert ttnn.to_torch(ttnn.add(x, x)).sum() == 2048

        @pytest.mark.parametrize("mesh_device", [1], indirect=True)
        def test_asked_for(mesh_device):
            assert mesh_device.get_num_devices() == 1
    """
    passes(pytester, source, "--compat", "ttnn", passed=2)


def test_unmodified_tests_of_tt_cnn(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("import ttnn\n")  # conftests see it too
    source = """
        import pytest
        from models.common.utility_functions import run_for_wormhole_b0
        from models.tt_cnn.tt.builder import Conv2dConfiguration
        from models.tt_cnn.tt.testing import verify_conv2d_from_config
        from tests.ttnn.utils_for_testing import assert_with_pcc

        @run_for_wormhole_b0()
        @pytest.mark.parametrize("device_params", [{"l1_small_size": 32768}], indirect=True)
        def test_conv(device, reset_seeds):
            verify_conv2d_from_config(
                Conv2dConfiguration.with_random_weights(
                    input_height=8, input_width=8, in_channels=16, out_channels=16, batch_size=1,
                    kernel_size=(3, 3), padding=(1, 1),
                ),
                device, 0.99,
            )
    """
    passes(pytester, source, "--compat", "all")


def test_without_compat_nothing_is_taken_over(pytester: pytest.Pytester) -> None:
    source = """
        import importlib.util

        def test_off():
            assert importlib.util.find_spec("models") is None
    """
    passes(pytester, source)


def test_the_runtime_that_the_environment_asked_for_is_restored(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(runtime.VARIABLE, "auto")
    passes(
        pytester,
        """
        import os

        def test_virtual():
            assert os.environ["TT_CNN_RUNTIME"] == "virtual"
        """,
        "--ttnn-runtime=virtual",
    )
    assert os.environ[runtime.VARIABLE] == "auto"


def test_an_unknown_option_value_is_refused(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_inprocess(*PLUGIN, "--compat", "some")
    assert result.ret == pytest.ExitCode.USAGE_ERROR


def test_compat_and_the_real_runtime_exclude_each_other(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_inprocess(*PLUGIN, "--compat", "ttnn", "--ttnn-runtime", "ttnn")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--compat ttnn makes `import ttnn` give the virtual card, so it cannot go with*"])


def test_the_package_imports_nothing_of_ttnn_before_it_is_asked() -> None:
    import subprocess
    import sys

    source = "import sys, tt_cnn.testing.plugin; print([m for m in sys.modules if m.startswith('tt_cnn.virtual')])"
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_names_of_the_package() -> None:
    import tt_cnn.testing

    assert set(tt_cnn.testing.__all__) <= set(dir(tt_cnn.testing))
    for name in tt_cnn.testing.__all__:
        assert getattr(tt_cnn.testing, name).__name__ == name
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = tt_cnn.testing.nonsense  # type: ignore[attr-defined]
