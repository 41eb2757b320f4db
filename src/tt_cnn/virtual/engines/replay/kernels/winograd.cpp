// SPDX-License-Identifier: Apache-2.0
// Steps that multiply tiles of float32 after Winograd.
#include "winograd.h"

void multiply_tiles(const Step& s, const Team& team) { winograd(s, team); }
