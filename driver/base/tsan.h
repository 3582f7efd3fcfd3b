/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

/* Of sanitizer/tsan_interface.h and TSan's runtime library, which not every compiler comes with. */
extern "C" {
[[gnu::weak]] void __tsan_ignore_thread_begin(void);
[[gnu::weak]] void __tsan_ignore_thread_end(void);
}

namespace usdma {

/* This library is built with ThreadSanitizer. */
#if defined(__SANITIZE_THREAD__)
inline constexpr bool built_with_tsan = true;
#elif defined(__has_feature)
inline constexpr bool built_with_tsan = __has_feature(thread_sanitizer);
#else
inline constexpr bool built_with_tsan = false;
#endif

/* The program is built with ThreadSanitizer, and this library is not: TSan sees only what passes through libc. */
inline bool beside_tsan()
{
	return !built_with_tsan && __tsan_ignore_thread_begin != nullptr;
}

/* TSan ignores what the thread accesses. */
class tsan_ignored {
public:
	tsan_ignored()
	{
		if (beside_tsan())
			__tsan_ignore_thread_begin();
	}
	~tsan_ignored()
	{
		if (beside_tsan())
			__tsan_ignore_thread_end();
	}
	tsan_ignored(const tsan_ignored &) = delete;
	tsan_ignored &operator=(const tsan_ignored &) = delete;
};

} // namespace usdma
