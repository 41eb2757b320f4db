# SPDX-License-Identifier: Apache-2.0
"""The program whose graphs on the real library are in `tests/golden/data/live_graph.json.gz`.

Recorded on a mocked n150 with `python -m tests.conformance.live.recorded_program FILE` under the real library.
"""

import gzip
import json
import sys
from pathlib import Path

import torch

from tt_cnn import ttnn


def small_network(device):
    """A convolution that gives its input back, a pool, views, an op in place, a matmul, and what a caller frees."""
    x = ttnn.from_torch(torch.zeros(1, 1, 32 * 32, 16), dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT)
    x = ttnn.to_device(x, device, memory_config=ttnn.DRAM_MEMORY_CONFIG)
    y, _prepared = ttnn.conv2d(
        input_tensor=x,
        weight_tensor=ttnn.from_torch(torch.zeros(32, 16, 3, 3), dtype=ttnn.float32),
        bias_tensor=ttnn.from_torch(torch.zeros(1, 1, 1, 32), dtype=ttnn.float32),
        device=device,
        in_channels=16,
        out_channels=32,
        batch_size=1,
        input_height=32,
        input_width=32,
        kernel_size=(3, 3),
        stride=(1, 1),
        padding=(1, 1),
        conv_config=ttnn.Conv2dConfig(
            shard_layout=ttnn.TensorMemoryLayout.HEIGHT_SHARDED,
            deallocate_activation=True,
            weights_dtype=ttnn.bfloat8_b,
        ),
        slice_config=ttnn.Conv2dL1FullSliceConfig,
        return_weights_and_bias=True,
        dtype=ttnn.bfloat16,
    )
    y = ttnn.add(y, y, output_tensor=y)
    y = ttnn.reallocate(ttnn.reallocate(y))  # the second has nowhere better to go: nothing is dispatched
    z = ttnn.max_pool2d(y, 1, 32, 32, 32, [2, 2], [2, 2], [0, 0], [1, 1])
    ttnn.deallocate(y)
    z = ttnn.to_layout(ttnn.to_memory_config(z, ttnn.DRAM_MEMORY_CONFIG), ttnn.TILE_LAYOUT)
    rows = ttnn.reshape(z, (1, 1, 256, 32))
    factor = ttnn.from_torch(torch.zeros(1, 1, 32, 64), dtype=ttnn.bfloat8_b, layout=ttnn.TILE_LAYOUT, device=device)
    return ttnn.relu(ttnn.linear(rows, factor, memory_config=ttnn.L1_MEMORY_CONFIG))


def _record(file):
    from tt_cnn.conformance.live.graph_reading import call_graphs
    from tt_cnn.conformance.live.programs import ProgramOptions, find_program
    from tt_cnn.conformance.live.watching import GraphWatcher, peak_of_graph, watched

    graphs = {}
    for mode in ("NORMAL", "NO_DISPATCH"):
        watcher = GraphWatcher(ttnn, getattr(ttnn.graph.RunMode, mode), program_cache=False)
        with watched(ttnn, ("ttnn",), watcher):
            find_program("tests.conformance.live.recorded_program:small_network", ProgramOptions())()
        (graphs[mode],) = watcher.graphs
    graphs["peaks"] = [peak_of_graph(ttnn, part) for part in call_graphs(graphs["NO_DISPATCH"])]
    Path(file).write_bytes(gzip.compress(json.dumps(graphs).encode(), mtime=0))


if __name__ == "__main__":
    _record(sys.argv[1])
