# SPDX-License-Identifier: Apache-2.0
"""Our own host engine: a C++ program of steps on channels-last images."""
