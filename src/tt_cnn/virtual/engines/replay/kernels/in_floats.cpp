// SPDX-License-Identifier: Apache-2.0
// Steps that multiply float32.
#include <omp.h>
#include "convolution.h"
#include "depthwise.h"
#include "winograd.h"

void in_floats(const Step& s, const Team& team) {
    switch (s.kind) {
        case WINOGRAD: return winograd(s, team);
        case DEPTHWISE: return depthwise(s, team);
        default: return convolution(s, team);
    }
}
