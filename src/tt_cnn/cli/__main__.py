# SPDX-License-Identifier: Apache-2.0
from tt_cnn.cli import main

main()
