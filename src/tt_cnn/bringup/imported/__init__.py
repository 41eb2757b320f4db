# SPDX-License-Identifier: Apache-2.0
"""Models from files: an exported `.pt2` or an ONNX file read into ops, and a torch module made of these.

Nothing in a file is executed: neither pickles nor code nor shared libraries, and only torch's own ops are taken.
"""
