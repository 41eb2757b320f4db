// SPDX-License-Identifier: Apache-2.0
// What follows the card's units register by register, for `exact` numerics and outside of traces.
#include <omp.h>
#include "followed.h"
#include "gathering.h"
#include "registers.h"
#include "units.h"
