# SPDX-License-Identifier: Apache-2.0
"""Public weights: fetched or given, checked, kept in a cache folder, and loaded without running anything in them."""

from tt_cnn.preprocessing.weights.cache_folder import cache_folder, keep
from tt_cnn.preprocessing.weights.checkpoints import load_checkpoint, load_into
from tt_cnn.preprocessing.weights.checksums import WrongChecksum, verify
from tt_cnn.preprocessing.weights.darknet import load_darknet, save_darknet
from tt_cnn.preprocessing.weights.fetching import HostUnreachable, fetch
from tt_cnn.preprocessing.weights.sources import SOURCES, Source, sources_of

__all__ = [
    "SOURCES",
    "HostUnreachable",
    "Source",
    "WrongChecksum",
    "cache_folder",
    "fetch",
    "keep",
    "load_checkpoint",
    "load_darknet",
    "load_into",
    "save_darknet",
    "sources_of",
    "verify",
]
