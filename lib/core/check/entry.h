/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include "lib/core/config/race.h"

/* What libusdma looks up in libusdma-check (lib/native/libraries.cpp). */
extern "C" [[gnu::visibility("default")]] const usdma::core::race_hooks *usdma_race_detector();
