/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

namespace usdma {

/* A global that is never destroyed: threads may still use it while the process exits. */
template <class T> union immortal {
	T v;
	constexpr immortal() : v() {}
	constexpr ~immortal() {}
	constexpr T *operator->() { return &v; }
	constexpr T &operator*() { return v; }
};

} // namespace usdma
