/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

namespace usdma {

/*
 * How many CPUs this process can keep busy, at least 1: those of its first thread's affinity mask, limited by its
 * control groups' quota of CPU time, rounded up. root: "" or a test's directory.
 */
[[gnu::visibility("default")]] unsigned usable_cpus(const char *root = "");

} // namespace usdma
