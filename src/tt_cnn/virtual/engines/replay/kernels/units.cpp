// SPDX-License-Identifier: Apache-2.0
// What follows the card's units register by register, for `exact` numerics: a library of its own.
#include <omp.h>
#include "followed.h"
#include "gathering.h"
#include "registers.h"
#include "units.h"
