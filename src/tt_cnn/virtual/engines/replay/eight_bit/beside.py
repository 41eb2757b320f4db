# SPDX-License-Identifier: Apache-2.0
"""Inputs on a GPU, looked at while their replay runs already."""

from __future__ import annotations

from tt_cnn.virtual.engines.replay.eight_bit.inputs import statistics
from tt_cnn.virtual.engines.replay.eight_bit.replay import LearningReplay
from tt_cnn.virtual.engines.replay.measurement import Measurement, create_measurement
from tt_cnn.virtual.engines.replay.replay import values_of


class LearningBeside(LearningReplay):
    """Launches a replay in 8 bits, and another without them where its inputs turn out to be unlike the samples.

    There are no witnesses within it: the host would have to wait for its end, and the GPU for the host.
    """

    _measurement: Measurement | None

    def _compile_whole(self) -> bool:
        self._measurement = None
        return super()._compile_whole()

    def _look_at_inputs(self) -> str:
        inputs = [value for cell, _ in self._ranges for value in values_of(cell)]
        if self._measurement is None:
            self._measurement = create_measurement(statistics, inputs)
        self._measurement.start(inputs)
        return ""

    def _look_at_results(self) -> str:
        assert self._measurement is not None
        ranges = [known for cell, known in self._ranges for _ in values_of(cell)]
        found = zip(ranges, self._measurement.wait(), strict=True)
        return next(filter(None, (known.unlike(numbers) for known, numbers in found)), "")
