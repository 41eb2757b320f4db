# SPDX-License-Identifier: Apache-2.0
"""Calls whose graphs were captured on the real library, written for both: `ttnn` is that, or the virtual card's.

Each function makes its inputs, yields, and makes the calls that are captured; what it returns stays alive until the
capture has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import torch

CALLS: dict[str, Callable[[Any, Any], Iterator[None]]] = {}


def recorded(function):
    CALLS[function.__name__] = function
    return function


def _tensor(ttnn, device, *shape, layout="TILE_LAYOUT", memory="DRAM_MEMORY_CONFIG"):
    config = getattr(ttnn, memory) if isinstance(memory, str) else memory
    return ttnn.from_torch(
        torch.zeros(shape), dtype=ttnn.bfloat16, layout=getattr(ttnn, layout), device=device, memory_config=config
    )


def _in_l1(ttnn, device, *shape):
    return _tensor(ttnn, device, *shape, memory="L1_MEMORY_CONFIG")


def _shards(ttnn, shape, x, y, strategy="HEIGHT"):
    return ttnn.create_sharded_memory_config(shape, ttnn.CoreGrid(x=x, y=y), getattr(ttnn.ShardStrategy, strategy))


def _conv(ttnn, device, x, channels, side, kernel=3, shards=None, deallocate=False, l1=True, weights=None, **options):
    cin, cout = channels
    if weights is None:
        weights = ttnn.from_torch(torch.zeros(cout, cin, kernel, kernel)), ttnn.from_torch(torch.zeros(1, 1, 1, cout))
    config = ttnn.Conv2dConfig(
        weights_dtype=ttnn.bfloat16,
        shard_layout=None if shards is None else getattr(ttnn.TensorMemoryLayout, f"{shards}_SHARDED"),
        deallocate_activation=deallocate,
    )
    if l1:
        options["slice_config"] = ttnn.Conv2dL1FullSliceConfig
    return ttnn.conv2d(
        input_tensor=x,
        weight_tensor=weights[0],
        bias_tensor=weights[1],
        device=device,
        in_channels=cin,
        out_channels=cout,
        batch_size=1,
        input_height=side,
        input_width=side,
        kernel_size=(kernel, kernel),
        stride=(1, 1),
        padding=(kernel // 2, kernel // 2),
        dilation=(1, 1),
        groups=1,
        conv_config=config,
        dtype=ttnn.bfloat16,
        **options,
    )


def _pool(ttnn, x, channels, kernel=3, padding=1):
    window = [kernel, kernel], [2, 2], [padding, padding], [1, 1]
    return ttnn.max_pool2d(x, 1, 32, 32, channels, *window)


@recorded
def conv_height(ttnn, device):
    x = _tensor(ttnn, device, 1, 1, 1024, 32, layout="ROW_MAJOR_LAYOUT")
    yield
    return _conv(ttnn, device, x, (32, 64), 32, shards="HEIGHT")


@recorded
def conv_block(ttnn, device):
    x = _tensor(ttnn, device, 1, 1, 1024, 128)
    yield
    return _conv(ttnn, device, x, (128, 256), 32, shards="BLOCK")


@recorded
def conv_width(ttnn, device):
    x = _tensor(ttnn, device, 1, 1, 64, 512)
    yield
    return _conv(ttnn, device, x, (512, 512), 8, shards="WIDTH")


@recorded
def conv_1x1(ttnn, device):
    x = _tensor(ttnn, device, 1, 1, 1024, 128)
    yield
    return _conv(ttnn, device, x, (128, 256), 32, kernel=1)


@recorded
def conv_in_slices(ttnn, device):
    x = _tensor(ttnn, device, 1, 1, 128 * 128, 32)
    yield
    return _conv(ttnn, device, x, (32, 32), 128, l1=False)


@recorded
def conv_gives_its_input_back(ttnn, device):
    x = _tensor(ttnn, device, 1, 1, 1024, 32)
    x = ttnn.to_memory_config(x, _shards(ttnn, (1, 1, 1024, 32), 8, 4))
    yield
    return _conv(ttnn, device, x, (32, 64), 32, shards="HEIGHT", deallocate=True)


@recorded
def conv_keeps_its_input(ttnn, device):
    x = _tensor(ttnn, device, 1, 1, 1024, 32)
    x = ttnn.to_memory_config(x, _shards(ttnn, (1, 1, 1024, 32), 8, 4))
    yield
    return _conv(ttnn, device, x, (32, 64), 32, shards="HEIGHT")


@recorded
def network(ttnn, device):
    x = _tensor(ttnn, device, 1, 1, 1024, 32)
    yield
    a = _conv(ttnn, device, x, (32, 64), 32, shards="HEIGHT")
    b = _conv(ttnn, device, a, (64, 64), 32, shards="HEIGHT", deallocate=True)
    c = ttnn.relu(b)
    ttnn.deallocate(b)
    d = ttnn.add(c, c)
    del c
    return d


@recorded
def pool(ttnn, device):
    x = _tensor(ttnn, device, 1, 1, 1024, 32, layout="ROW_MAJOR_LAYOUT")
    yield
    return _pool(ttnn, x, 32)


@recorded
def pool_beside_tensors(ttnn, device):
    """A dry run of it fails."""
    x = _tensor(ttnn, device, 1, 1, 1024, 32, layout="ROW_MAJOR_LAYOUT", memory="L1_MEMORY_CONFIG")
    yield
    try:
        return _pool(ttnn, x, 32), x
    except RuntimeError:
        return ttnn.relu(x), x


@recorded
def chain(ttnn, device):
    x = _in_l1(ttnn, device, 1, 1, 64, 64)
    yield
    a = ttnn.relu(x)
    b = ttnn.relu(a)
    ttnn.deallocate(a)
    c = ttnn.silu(b)
    del b
    return c, x


@recorded
def memory_configs(ttnn, device):
    x = _tensor(ttnn, device, 1, 1, 64, 64)
    yield
    shape = (1, 1, 64, 64)
    a = ttnn.to_memory_config(x, _shards(ttnn, shape, 2, 1))
    b = ttnn.to_memory_config(a, _shards(ttnn, shape, 2, 1, "WIDTH"))
    c = ttnn.sharded_to_interleaved(b, ttnn.L1_MEMORY_CONFIG)
    d = ttnn.interleaved_to_sharded(c, _shards(ttnn, shape, 1, 1))
    return ttnn.to_memory_config(d, ttnn.DRAM_MEMORY_CONFIG)


@recorded
def matmul(ttnn, device):
    x, y = _tensor(ttnn, device, 1, 1, 64, 64), _tensor(ttnn, device, 1, 1, 64, 128)
    yield
    return ttnn.matmul(x, y, memory_config=ttnn.L1_MEMORY_CONFIG)


@recorded
def concat_and_split(ttnn, device):
    x, y = _tensor(ttnn, device, 1, 1, 64, 64), _tensor(ttnn, device, 1, 1, 64, 64)
    yield
    z = ttnn.concat([x, y], 3, memory_config=ttnn.L1_MEMORY_CONFIG)
    return ttnn.split(z, 64, 3)


@recorded
def names_that_end_otherwise(ttnn, device):
    x, mean = _tensor(ttnn, device, 1, 32, 32, 32), _tensor(ttnn, device, 1, 32, 1, 1)
    rows = _tensor(ttnn, device, 1, 16, 16, 32, layout="ROW_MAJOR_LAYOUT")
    yield
    return ttnn.batch_norm(x, running_mean=mean, running_var=mean), ttnn.upsample(rows, 2), ttnn.clone(x)


@recorded
def moves(ttnn, device):
    x, y = _in_l1(ttnn, device, 1, 1, 64, 64), _in_l1(ttnn, device, 1, 1, 64, 64)
    ttnn.deallocate(x)
    yield
    return ttnn.move(y)


@recorded
def deallocated_twice(ttnn, device):
    x = _in_l1(ttnn, device, 1, 1, 64, 64)
    yield
    a = ttnn.relu(x)
    ttnn.deallocate(a)
    ttnn.deallocate(a)
    b = ttnn.relu(x)
    b.deallocate()
    ttnn.deallocate(x)


@recorded
def given_outputs(ttnn, device):
    x, y = _in_l1(ttnn, device, 1, 1, 64, 64), _in_l1(ttnn, device, 1, 1, 64, 64)
    yield
    ttnn.add(x, y, output_tensor=y)
    ttnn.relu(x, output_tensor=x)
    return x, y


@recorded
def transfers(ttnn, device):
    host = ttnn.from_torch(torch.zeros(1, 1, 64, 64), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT)
    yield
    x = ttnn.to_device(host, device, memory_config=ttnn.L1_MEMORY_CONFIG)
    ttnn.copy_host_to_device_tensor(host, x)
    ttnn.from_device(x)
    return x, ttnn.zeros((1, 1, 64, 64), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)


@recorded
def does_not_fit(ttnn, device):
    x, y = _tensor(ttnn, device, 1, 1, 64, 64), _tensor(ttnn, device, 1, 1, 8192, 8192)
    yield
    with suppress(RuntimeError):
        ttnn.relu(y, memory_config=ttnn.L1_MEMORY_CONFIG)
    return ttnn.relu(x, memory_config=ttnn.L1_MEMORY_CONFIG)


@recorded
def nested(ttnn, device):
    """The inner capture's run mode is the outer one's."""
    x = _in_l1(ttnn, device, 1, 1, 64, 64)
    yield
    a = ttnn.relu(x)
    ttnn.graph.begin_graph_capture(ttnn.graph.RunMode.NO_DISPATCH)
    b = ttnn.add(a, a)
    inner = ttnn.graph.end_graph_capture()
    return ttnn.relu(b), x, inner


def capture(ttnn, device, name, mode):
    """The nodes of a call; what it returned is dropped."""
    graph = ttnn.graph
    call = CALLS[name](ttnn, device)
    next(call)
    graph.begin_graph_capture(getattr(graph.RunMode, mode))
    kept = None
    try:
        next(call)
    except StopIteration as end:
        kept = end.value
    nodes = graph.end_graph_capture()
    del kept
    return nodes


def summary(ttnn, nodes):
    """What is compared: all that happens in L1 in its order, the device operations, and the answers to questions."""
    happened = []
    for node in nodes:
        kind, params = node["node_type"], node["params"] or {}
        if kind in ("buffer_allocate", "buffer_deallocate") and params["type"] == "L1":
            small = params["buffer_type"] == 3  # the addresses of tables depend on what was there before
            happened.append([kind, params["max_size_per_bank"], params["num_cores"], 0 if small else params["address"]])
        elif kind.endswith("_allocate") and kind != "buffer_allocate":
            borrowed = params.get("globally_allocated", params.get("borrows_memory"))
            happened.append([kind, params["size"], borrowed, params["core_range_set"], params["address"]])
        elif kind == "circular_buffer_deallocate_all":
            happened.append([kind])
        elif kind == "function_start" and "program_factory_type" in params:
            happened.append([params["name"], params["program_cache_hit"], len(node["input_tensors"])])
    graph = ttnn.graph
    usage = graph.extract_resource_usage_per_core(nodes)
    return {
        "happened": happened,
        "usage": {key: getattr(usage, key) for key in ("peak_cb", "peak_l1", "peak_dataflow_buffer", "peak_total")},
        "peak": graph.extract_peak_L1_memory_usage(nodes),
        "calls": [one for one in graph.extract_calltrace(nodes) if one.startswith("ttnn.")],
        "outputs": [repr(one) for one in graph.extract_output_info(nodes)],
    }
