/* SPDX-License-Identifier: BSD-3-Clause */
/* What most tests include, compiled once (meson.build).  Sources still include what they use. */
#ifndef USDMA_TEST_PCH_H
#define USDMA_TEST_PCH_H

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/test.h"

#endif
