"""Time of element-wise steps: tiles stream through unpack, math and pack, from shards or from interleaved pages."""

from __future__ import annotations

from typing import Any

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.network import in_l1_shards, page_move_cycles
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.cost.tensix import pack_cycles, unpack_cycles, vector_cycles
from tt_cnn.virtual.planning.plan import Step
from tt_cnn.virtual.types.enums import DataType
from tt_cnn.virtual.types.geometry import TILE_SIZE, div_up
from tt_cnn.virtual.types.tensor_spec import Spec

_WHOLE = (DataType.FLOAT32, DataType.INT32, DataType.UINT32)
_TILE = TILE_SIZE * TILE_SIZE


def elementwise_cycles(step: Step, figures: Figures, passes: int = 1) -> Cycles:
    """`passes`: times that each tile goes through the core (reductions and normalizations take several)."""
    output = step.outputs[0].spec
    largest = max((s.spec for s in (*step.inputs, *step.outputs)), key=lambda spec: spec.volume)
    cores = step.cores.num_cores()
    tiles = _tiles_of_a_core(largest, cores)
    unpack = sum(unpack_cycles(figures, s.spec.dtype) for s in step.inputs)
    pack = pack_cycles(figures, output.dtype)
    vector = _vector_cycles(step, figures)
    through = max(figures.elementwise_cycles, unpack, pack) + vector
    reading = [_arrives(s.spec, tiles, cores, figures) for s in step.inputs]
    writing = 0.0 if in_l1_shards(output) else _pages(output, tiles, cores, figures, read=False)
    brought = sum(reading)
    total = passes * max(tiles * through, brought, writing)
    specs = [s.spec for s in step.inputs]
    dram = sum(t for t, spec in zip(reading, specs, strict=True) if spec.memory_config.is_dram())
    dram += writing if output.memory_config.is_dram() else 0.0
    return Cycles(
        total,
        vector=passes * tiles * vector,
        unpack_pack=passes * tiles * max(unpack, pack),
        dram=passes * dram,
        noc=passes * max(0.0, max(brought, writing) - dram),
    )


def _tiles_of_a_core(spec: Spec, cores: int) -> int:
    if in_l1_shards(spec):
        return div_up(spec.shard.shape[0] * spec.shard.shape[1], _TILE)
    return div_up(div_up(spec.volume, _TILE), max(1, cores))


def _arrives(spec: Spec, tiles: int, cores: int, figures: Figures) -> float:
    return 0.0 if in_l1_shards(spec) else _pages(spec, tiles, cores, figures, read=True)


def _pages(spec: Spec, tiles: int, cores: int, figures: Figures, read: bool) -> float:
    """Page after page, each waited for."""
    page = max(1, spec.page_bytes)
    pages = tiles * _TILE * spec.dtype.element_bytes / page if spec.page_shape[0] == 1 else tiles
    latency = figures.dram_latency_cycles if spec.memory_config.is_dram() else figures.l1_latency_cycles
    return page_move_cycles(figures, spec, pages, page, cores, read) + pages * latency


def _vector_cycles(step: Step, figures: Figures) -> float:
    """Vector unit's cycles a tile, of the op and of what is fused with it."""
    attributes = step.program.decisions
    cycles = 0.0
    for kernel in attributes.get("chain", ()):
        cycles += vector_cycles(figures, kernel.name, kernel.approx)
    for group in attributes.get("activations", ()):
        for name, *_ in group:
            cycles += 0.0 if name.name == "RELU" else vector_cycles(figures, name.name, False)  # the packer's work
    if step.op == "BinaryNg" and step.inputs[0].spec.dtype in _WHOLE:
        cycles += vector_cycles(figures, _binary_name(attributes.get("kind")), False) + figures.copy_tile_cycles
    if step.op == "Typecast":
        cycles += vector_cycles(figures, "typecast", False)
    return cycles


def _binary_name(kind: Any) -> str:
    return {"DIV": "recip", "DIVIDE": "recip"}.get(str(getattr(kind, "name", kind)).upper(), "square")
