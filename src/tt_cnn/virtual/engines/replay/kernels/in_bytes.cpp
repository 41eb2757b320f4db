// SPDX-License-Identifier: Apache-2.0
// Steps on images of bytes: a library of its own.
#include <omp.h>
#include "byte_convolution.h"
#include "depthwise.h"

extern "C" void in_bytes(const Step& s, const Team& team) {
    switch (s.kind) {
        case BYTE_DEPTHWISE: return byte_depthwise(s, team);
        case BYTE_MAX_POOL: return byte_max_pool(s, team);
        case BYTE_PIXELS: return byte_pixels(s, team);
        default: return byte_convolution(s, team);
    }
}
