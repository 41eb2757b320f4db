# SPDX-License-Identifier: Apache-2.0
"""Figures over a data set: mAP, IoU and Dice, top-1 and top-5. All in points, 0 to 100."""

from tt_cnn.evaluation.metrics.mean_average_precision import MeanAveragePrecision
from tt_cnn.evaluation.metrics.metric import Metric
from tt_cnn.evaluation.metrics.overlap import Overlap
from tt_cnn.evaluation.metrics.ranking import Ranking

__all__ = ["MeanAveragePrecision", "Metric", "Overlap", "Ranking"]
