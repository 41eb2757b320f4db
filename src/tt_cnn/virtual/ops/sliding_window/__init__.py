# SPDX-License-Identifier: Apache-2.0
"""What convolutions, pools and bilinear upsampling share: window geometry, cores, and the halo step."""
