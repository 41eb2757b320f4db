"""The time of a dispatched step."""

from __future__ import annotations

from collections.abc import Callable

from tt_cnn.virtual.arch import Card
from tt_cnn.virtual.cost.convolution import convolution_cycles
from tt_cnn.virtual.cost.elementwise import elementwise_cycles
from tt_cnn.virtual.cost.figures import Figures, figures_of
from tt_cnn.virtual.cost.ideal import ideal_of
from tt_cnn.virtual.cost.movement import (
    channels_last_cycles,
    concat_cycles,
    face_rows_cycles,
    from_shards_cycles,
    move_cycles,
    pages_cycles,
    reshard_cycles,
    tilize_cycles,
    to_shards_cycles,
    turned_cycles,
    untilize_cycles,
)
from tt_cnn.virtual.cost.parts import Cycles, KernelCost
from tt_cnn.virtual.cost.sliding import halo_cycles, pool_cycles, upsample_cycles
from tt_cnn.virtual.planning.plan import Step

_Coster = Callable[[Step, Figures], Cycles]


def _several_passes(step: Step, figures: Figures) -> Cycles:
    return elementwise_cycles(step, figures, passes=3)


_COSTERS: dict[str, _Coster] = {
    "Halo": halo_cycles,
    "Pool2D": pool_cycles,
    "Upsample": upsample_cycles,
    "BinaryNg": elementwise_cycles,
    "Unary": elementwise_cycles,
    "Typecast": elementwise_cycles,
    "Ternary": elementwise_cycles,
    "Softmax": _several_passes,
    "LayerNorm": _several_passes,
    "GroupNorm": _several_passes,
    "BatchNorm": elementwise_cycles,
    "Reduce": elementwise_cycles,
    "Move": move_cycles,
    "Copy": pages_cycles,
    "Clone": pages_cycles,
    "InterleavedToSharded": to_shards_cycles,
    "ShardedToInterleaved": from_shards_cycles,
    "Reshard": reshard_cycles,
    "Concat": concat_cycles,
    "Tilize": tilize_cycles,
    "TilizeWithValPadding": tilize_cycles,
    "Untilize": untilize_cycles,
    "UntilizeWithUnpadding": untilize_cycles,
    "UntilizeCodegen": untilize_cycles,
    "ConvertToHWC": channels_last_cycles,
    "ConvertToCHW": channels_last_cycles,
}
_BY_FACTORY: dict[str, _Coster] = {
    "TransposeWHProgramFactory": turned_cycles,
    "TransposeWHShardedProgramFactory": turned_cycles,
    "TransposeWHShardedRMProgramFactory": turned_cycles,
    "TransposeWHRMProgramFactory": turned_cycles,
    "MultiCoreBlockedGeneric": turned_cycles,
    "ReshapeViewTiledProgramFactory": face_rows_cycles,
}


def kernel_cost(step: Step, card: Card) -> KernelCost:
    """Predicted duration of a step's kernels on a card. Steps are immutable, so the answer is kept with the step."""
    known: dict[str, KernelCost] = step.__dict__.setdefault("_kernel_costs", {})
    cost = known.get(card.name)
    if cost is None:
        cost = known[card.name] = cost_with(step, card, figures_of(card))
    return cost


def cost_with(step: Step, card: Card, figures: Figures) -> KernelCost:
    """The same by other figures than the card's own."""
    cycles = step.program.time(step, figures)
    ideal = ideal_of(step, card, figures)
    ns = figures.ns
    return KernelCost(
        ns=figures.launch_ns + ns(cycles.total),
        matrix_ns=ns(cycles.matrix),
        vector_ns=ns(cycles.vector),
        unpack_pack_ns=ns(cycles.unpack_pack),
        dram_ns=ns(cycles.dram),
        noc_ns=ns(cycles.noc),
        launch_ns=figures.launch_ns,
        pm_ideal_ns=ideal.ideal_ns,
        pm_compute_ns=ideal.compute_ns,
        pm_bandwidth_ns=ideal.bandwidth_ns,
    )


def untyped_cycles(step: Step, figures: Figures) -> Cycles:
    if step.op == "Conv2d":
        return convolution_cycles(step, figures)
    coster = _BY_FACTORY.get(step.factory) or _COSTERS.get(step.op, pages_cycles)
    return coster(step, figures)
