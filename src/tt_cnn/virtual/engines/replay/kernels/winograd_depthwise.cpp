// SPDX-License-Identifier: Apache-2.0
// Steps that multiply windows of float32: tiles after Winograd, and channel by channel.
#include "depthwise.h"
#include "winograd.h"

void multiply_windows(const Step& s, const Team& team) { s.kind == WINOGRAD ? winograd(s, team) : depthwise(s, team); }
