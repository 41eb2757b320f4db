# SPDX-License-Identifier: Apache-2.0
"""The files of a brought-up folder, written from the program and its settings."""
