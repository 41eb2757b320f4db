# SPDX-License-Identifier: Apache-2.0
"""A program run on the real TT-NN and on the virtual card, and what both did compared step by step.

`launching.record` runs it under an interpreter, in a process of its own; there `recorder` watches the card and writes a
`recording.Recording`: of the real library from its graph (`graph_reading`), of the virtual card from its commands
(`command_reading`). `comparison.compare` compares two recordings. `tt-cnn conformance --live` is all of it.

`recorder`, `recording`, `graph_reading` and `programs` run under the interpreter of the real library, which need not
have more than that library, torch and what the models import.
"""
