/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

/* Of sanitizer/tsan_interface.h and TSan's runtime library, which not every compiler comes with. */
extern "C" {
[[gnu::weak]] void __tsan_ignore_thread_begin(void);
[[gnu::weak]] void __tsan_ignore_thread_end(void);
}

namespace usdma {

/* The program is built with ThreadSanitizer, and this library is not: TSan sees only what passes through libc. */
inline bool beside_tsan()
{
#ifdef __SANITIZE_THREAD__
	return false;
#else
#ifdef __has_feature
#if __has_feature(thread_sanitizer)
	return false;
#endif
#endif
	return __tsan_ignore_thread_begin != nullptr;
#endif
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
