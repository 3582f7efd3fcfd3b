/* SPDX-License-Identifier: BSD-3-Clause */
/* The control groups of this process. */
#pragma once

namespace usdma {

/* dir: the group's directory; shown: the same without the root. */
using cgroup_visit = void(const char *dir, const char *shown, void *arg);

/*
 * Visits this process's group in the hierarchy of a controller (nullptr: version 2, which has one for all), then each
 * group above it up to the mount point. root: "" or a test's directory.
 */
void cgroup_each(const char *root, const char *controller, cgroup_visit *visit, void *arg);

} // namespace usdma
