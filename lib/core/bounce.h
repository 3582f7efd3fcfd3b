/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies that the engine cannot do by itself: pageable memory by way of staging buffers, and between devices. */
#pragma once

#include "lib/core/copy.h"

namespace usdma::core {

/* Waits for the stream, copies, returns when it is done. At least one end is unregistered, or not within the engine's reach. */
int copy_pageable(stream *s, const ends &e, void *dst, const void *src, u64 len);
/* Memory out of the stream's device's reach, or of two devices that reach not each other: by way of the host; done when it returns. */
int copy_between(stream *s, const ends &e, void *dst, const void *src, u64 len);
/* A rectangle that no single request can do. Waits for the stream; done when it returns. */
int copy_2d_rows(stream *s, const ends &e, const copy_rect &c, deadline until);

/* -EFAULT where [addr, addr+len) leaves the allocated memory that p is the start of. */
int check_range(const place &p, u64 addr, u64 len, const char *which);
/* -EINVAL unless a pattern of 1, 4 or 8 bytes fills len bytes. */
int check_pattern(unsigned pattern_size, u64 len);
u64 rect_span(u64 pitch, u64 width, u64 height);
int copy_2d_direct(stream *s, const ends &e, const copy_rect &c);
int reachable(stream *s, const void *p, u64 len, const char *which, place *out);

} // namespace usdma::core
