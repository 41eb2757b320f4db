# SPDX-License-Identifier: Apache-2.0
"""How fast a model replays on this machine, beside what people use otherwise."""

from tt_cnn.bench.peers import PEERS, NotCapturable, create_peer, missing_packages, peers_beside
from tt_cnn.bench.rounds import Comparison, Timing, compare
from tt_cnn.bench.subject import Subject
from tt_cnn.bench.virtual_card import VirtualCard

__all__ = [
    "PEERS",
    "Comparison",
    "NotCapturable",
    "Subject",
    "Timing",
    "VirtualCard",
    "compare",
    "create_peer",
    "missing_packages",
    "peers_beside",
]
