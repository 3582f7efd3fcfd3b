/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

namespace usdma {

/* A global that is never destroyed: threads may still use it while the process exits. */
template <class T> union no_destructor {
	T v;
	constexpr no_destructor() : v() {}
	constexpr ~no_destructor() {}
	constexpr T *operator->() { return &v; }
	constexpr T &operator*() { return v; }
};

} // namespace usdma
