# SPDX-License-Identifier: Apache-2.0
"""Host conversions to the card's formats and back, bit for bit."""

from __future__ import annotations

from collections.abc import Collection

import torch

from tt_cnn.conformance.corpus import Corpus, Record
from tt_cnn.conformance.making import dtype
from tt_cnn.conformance.statistics import same_bits
from tt_cnn.conformance.tally import Tally
from tt_cnn.conformance.verdict import Verdict
from tt_cnn.virtual import ttnn
from tt_cnn.virtual.types import Layout


def replay_numerics(corpus: Corpus, record: Record, tally: Tally, ops: Collection[str]) -> None:
    name, kind = record.case["name"], record.case["dtype"]
    source = torch.from_numpy(corpus.arrays[f"{name}_in"])
    recorded = torch.from_numpy(corpus.arrays[f"{name}_{kind}"])
    found = ttnn.to_torch(ttnn.from_torch(source, dtype(kind), layout=Layout.TILE)).float()
    wrong = (
        int(((found != recorded) & ~(found.isnan() & recorded.isnan())).sum()) if found.shape == recorded.shape else -1
    )
    verdict = Verdict(same_bits(found, recorded), f"{recorded.numel()} numbers", f"{wrong} of them differ")
    tally.add("from_torch", record, {"numerics": verdict})
