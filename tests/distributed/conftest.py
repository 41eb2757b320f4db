# SPDX-License-Identifier: Apache-2.0
"""A cluster of Ray's on this machine, with a virtual card for each of two cores."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

STORE_BYTES = 128 * 2**20


@pytest.fixture(scope="package")
def address() -> Iterator[str]:
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    try:
        cluster.add_node(num_cpus=2, resources={"tt_card": 2}, object_store_memory=STORE_BYTES, include_dashboard=False)
        yield cluster.address
    finally:
        cluster.shutdown()
