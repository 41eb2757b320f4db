# SPDX-License-Identifier: Apache-2.0
"""What tests ask about the machine before they open a device."""

from __future__ import annotations

import pytest

from tt_cnn.virtual import ttnn


@pytest.mark.parametrize(
    ("card", "kind"), [("n150", "N150"), ("n300", "N300"), ("p150", "P150"), ("p150-13x10", "P150")]
)
def test_the_board_is_that_of_the_card(monkeypatch: pytest.MonkeyPatch, card: str, kind: str) -> None:
    monkeypatch.setenv("TT_CNN_CARD", card)
    assert ttnn.cluster.get_cluster_type() == getattr(ttnn.cluster.ClusterType, kind)
    assert ttnn.get_pcie_device_ids() == [0] and ttnn.GetNumPCIeDevices() == 1 and ttnn.GetPCIeDeviceID(0) == 0


@pytest.mark.parametrize(("card", "kind", "chips"), [("t3000", "T3K", 8), ("galaxy", "TG", 32)])
def test_machines_of_several_boards(monkeypatch: pytest.MonkeyPatch, card: str, kind: str, chips: int) -> None:
    monkeypatch.setenv("TT_CNN_CARD", card)
    assert ttnn.cluster.get_cluster_type() == getattr(ttnn.cluster.ClusterType, kind)
    assert ttnn.get_pcie_device_ids() == [0, 1, 2, 3] and ttnn.GetPCIeDeviceID(5) == 1
    mesh = ttnn.open_mesh_device()
    assert mesh.get_num_devices() == chips
    ttnn.close_mesh_device(mesh)


def test_numbers_are_those_of_ttnn() -> None:
    kinds = ttnn.cluster.ClusterType
    assert [int(kind.value) for kind in (kinds.N150, kinds.T3K, kinds.P150, kinds.CUSTOM)] == [1, 3, 7, 18]


def test_devices_by_their_numbers() -> None:
    devices = ttnn.CreateDevices([0], l1_small_size=1024)
    assert list(devices) == [0] and devices[0].get_num_devices() == 1
    ttnn.device.EnableMemoryReports()
    ttnn.device.DisableMemoryReports()
    ttnn.CloseDevices(devices)
