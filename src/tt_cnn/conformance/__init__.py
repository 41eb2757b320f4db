# SPDX-License-Identifier: Apache-2.0
"""Recorded answers of the real TT-NN, replayed on the virtual card and compared field by field.

`corpus.read_corpus` reads a recording, `replay.replay` replays it into a `tally.Tally`; `tt-cnn conformance` is both.
"""
