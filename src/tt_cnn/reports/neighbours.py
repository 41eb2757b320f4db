# SPDX-License-Identifier: Apache-2.0
"""Who makes the tensors of a profile, and who reads them."""

from __future__ import annotations

from collections import defaultdict

from tt_cnn.reports.records import Profile, Row, TensorRecord
from tt_cnn.reports.replanning import Replanner


class Neighbours:
    def __init__(self, replanner: Replanner) -> None:
        profile = replanner.profile
        self.replanner, self.profile = replanner, profile
        self.readers: dict[int, list[Row]] = defaultdict(list)
        self.makers: dict[int, Row] = {}
        for row in profile.rows:
            for tensor in row.inputs:
                self.readers[tensor.buffer].append(row)
            for tensor in row.outputs:
                self.makers.setdefault(tensor.buffer, row)
        self.kept = _read_by_host(profile)

    def name(self, row: Row) -> str:
        """Its layer's, or what it is and which layer comes next."""
        if row.layer:
            return row.name
        after = next((later.layer for later in self.profile.rows[row.index :] if later.layer), "")
        return f"{row.call_name} (step {row.index}{f', before {after}' if after else ''})"

    def made_by(self, maker: Row | None, row: Row) -> str:
        return f"output of {self.name(maker)}" if maker is not None else f"input of {self.name(row)}"

    def own_call(self, row: Row) -> bool:
        """The step is all that its call does: the call can be left out."""
        return len(self.replanner.calls[row.call]) == 1

    def only_reader(self, row: Row) -> Row | None:
        """The one step that reads a step's output."""
        output = row.outputs[0].buffer
        readers = self.readers[output]
        return readers[0] if len(readers) == 1 and output not in self.kept else None

    def mover_before(self, tensor: TensorRecord, ops: tuple[str, ...]) -> Row | None:
        maker = self.makers.get(tensor.buffer)
        if maker is None or maker.op not in ops or not self.own_call(maker) or self.only_reader(maker) is None:
            return None
        return maker


def _read_by_host(profile: Profile) -> set[int]:
    """Buffers that are there after the last step and look like what the host reads."""
    last = len(profile.rows) - 1
    read = {(one.shape, one.dtype, one.memory) for one in profile.transfers if one.direction == "read"}
    return {
        number
        for number, b in enumerate(profile.buffers)
        if b.last_row >= last and (b.shape, b.dtype, f"{b.buffer_type}_{b.memory_layout}") in read
    }
