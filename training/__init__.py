# SPDX-License-Identifier: Apache-2.0
"""Training of the weights that the package ships, on the data sets that it draws itself."""
