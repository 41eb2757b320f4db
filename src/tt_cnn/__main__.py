# SPDX-License-Identifier: Apache-2.0
"""`python -m tt_cnn` is `tt-cnn`."""

from tt_cnn.cli import main

main()
