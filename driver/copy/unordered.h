/* SPDX-License-Identifier: BSD-3-Clause */
/* For many copies in a row: their stores are ordered once, not by each. */
#pragma once

#include <cstddef>

#pragma GCC visibility push(default)
namespace usdma {

struct copy_tuning;
using copy_fn = void (*)(void *dst, const void *src, size_t len);

/* t.stream without the order of its stores: copy_order() before later ones. */
copy_fn stream_unordered(const copy_tuning &t);
void copy_order();

} // namespace usdma
#pragma GCC visibility pop
