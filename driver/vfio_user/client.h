/* SPDX-License-Identifier: BSD-3-Clause */
/* The vfio-user client: a device that another process, or another thread, serves on a UNIX socket. */
#pragma once

#include "driver/base/unique_fd.h"
#include "driver/vfio/device.h"
#include "driver/vfio_user/options.h"

namespace usdma::vfio {

/* Connects to PATH (a deadline applies) and negotiates. -ENOENT, -ECONNREFUSED, -EPROTO, -ETIMEDOUT, … */
int user_connect(const std::string &path, const user_options &opt, std::unique_ptr<device> *out);
/* Takes ownership of a connected socket (embedded: one end of a socketpair) and negotiates. */
int user_attach(unique_fd socket, const user_options &opt, std::unique_ptr<device> *out);

} // namespace usdma::vfio
