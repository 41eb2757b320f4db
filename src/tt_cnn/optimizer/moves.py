# SPDX-License-Identifier: Apache-2.0
"""What can be changed about the precision of a layer: dials, each from fine to coarse, and turns of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder.configuration import Configuration
from tt_cnn.builder.convolution_configuration import BLOCK_FLOATS

_FIDELITY = ttnn.MathFidelity


@dataclass(frozen=True)
class Dial:
    """One setting and its values, the finest first."""

    name: str
    setting: str
    values: tuple[Any, ...]
    local: bool = True
    """Whether only the layer itself gets faster; else also those that read what it writes."""
    ordered: bool = True
    """Whether what stands first is finer; else it is only quicker or slower, and may lose either way."""

    needs: str = ""
    """A property of configurations that have the dial; empty: all that have the setting."""

    def place(self, configuration: Configuration) -> int | None:
        """Where it stands in a layer; None where the layer has no such setting, or a value that is not here."""
        value = getattr(configuration, self.setting, None)
        has = not self.needs or getattr(configuration, self.needs, False)
        return self.values.index(value) if has and value in self.values else None


DIALS = (
    Dial("fidelity", "math_fidelity", (_FIDELITY.HiFi4, _FIDELITY.HiFi3, _FIDELITY.HiFi2, _FIDELITY.LoFi)),
    Dial("weights", "weights_dtype", (ttnn.float32, ttnn.bfloat16, ttnn.bfloat8_b, ttnn.bfloat4_b)),
    Dial("outputs", "output_dtype", (ttnn.float32, ttnn.bfloat16, ttnn.bfloat8_b), local=False),
    Dial("inputs", "activation_dtype", (ttnn.bfloat16, ttnn.bfloat8_b), local=False),
    Dial("float32 sums", "fp32_dest_acc_en", (True, False)),
    Dial("packer sums", "packer_l1_acc", (False, True), ordered=False),
    Dial("hard Mish", "hard_mish", (False, True), needs="has_mish"),
)
"""`inputs` is followed by models that convert what they give to a layer (UNet, where it joins tensors), and not by the
layers themselves."""


@dataclass(frozen=True)
class Move:
    """One dial of one layer turned."""

    layer: str
    dial: Dial
    value: Any
    raises: bool = False
    """Whether it is finer than before."""

    @property
    def group(self) -> tuple[str, str]:
        """Of several moves with the same, only one can be made."""
        return self.layer, self.dial.name

    @property
    def settings(self) -> dict[str, Any]:
        return {self.dial.setting: self.value}

    def __str__(self) -> str:
        return f"{self.dial.name} {shown(self.value)} in {self.layer}"


def shown(value: Any) -> str:
    """As a person says it: LoFi, bfloat8_b, on."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return value.name if isinstance(value, ttnn.MathFidelity) else str(value.name).lower()


def moves_of(
    layer: str, configuration: Configuration, dials: Iterable[Dial] = DIALS, raising: bool = False
) -> list[Move]:
    """All coarser values of all dials; with `raising` the next finer ones too, but for float32 tensors."""
    moves: list[Move] = []
    for dial in dials:
        now = dial.place(configuration)
        if now is None:
            continue
        for place, value in enumerate(dial.values):
            finer = place == now - 1 and dial.ordered
            wanted = place > now or (finer and raising and value != ttnn.float32)
            if wanted and not _in_rows(configuration, dial, value):
                moves.append(Move(layer, dial, value, finer))
    return moves


def _in_rows(configuration: Any, dial: Dial, value: Any) -> bool:
    """Block formats exist only as tiles: a layer that gives rows cannot have them."""
    rows = getattr(configuration, "output_layout", ttnn.TILE_LAYOUT) == ttnn.ROW_MAJOR_LAYOUT
    return rows and dial.setting == "output_dtype" and value in BLOCK_FLOATS


def changes_of(moves: Iterable[Move]) -> dict[str, dict[str, Any]]:
    """Settings by layer."""
    changes: dict[str, dict[str, Any]] = {}
    for move in moves:
        changes.setdefault(move.layer, {}).update(move.settings)
    return changes


def describe_moves(moves: Iterable[Move], at_most: int = 3) -> str:
    """`fidelity LoFi in 12 layers, weights bfloat4_b in encoder1.conv1`."""
    by_turn: dict[str, list[str]] = {}
    for move in moves:
        by_turn.setdefault(f"{move.dial.name} {shown(move.value)}", []).append(move.layer)
    return ", ".join(
        f"{turn} in {', '.join(layers) if len(layers) <= at_most else f'{len(layers)} layers'}"
        for turn, layers in by_turn.items()
    )


Losses = Mapping[str, float]
"""By how much the PCC of each output falls."""
