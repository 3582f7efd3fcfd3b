/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Errors: a function returns -errno and leaves a message in a buffer of the calling thread (allocated at its
 * first failure). The message names the cause and, if there is one, the remedy. A later failure in the same
 * thread replaces it.
 */
#pragma once

#include <cerrno>

#pragma GCC visibility push(default)
namespace usdma {

#ifdef __clang_analyzer__
/* The analyzer sees one file at a time; these declare that a failure is never 0. */
template <class... T> inline int fail(int err, const char *, T...)
{
	return err > 0 ? -err : -EINVAL;
}
template <class... T> inline int fail_errno(const char *, T...)
{
	return -EIO;
}
template <class... T> inline int fail_in(int err, const char *, T...)
{
	return err;
}
#else

/* Sets this thread's text and returns -err (err is a positive errno). */
[[gnu::format(printf, 2, 3), gnu::cold]] int fail(int err, const char *fmt, ...);

/* As fail, with "TEXT: strerror(errno)"; returns -errno. */
[[gnu::format(printf, 1, 2), gnu::cold]] int fail_errno(const char *fmt, ...);

/* Prepends "TEXT: " to this thread's current text; returns err unchanged. */
[[gnu::format(printf, 2, 3), gnu::cold]] int fail_in(int err, const char *fmt, ...);

#endif

/* -ENOMEM, "no memory for WHAT". */
[[gnu::cold]] inline int no_memory(const char *what)
{
	return fail(ENOMEM, "no memory for %s", what);
}

/* The failure of a step within a call that waits, whose -ETIMEDOUT says "not yet" and nothing else. */
inline int as_failure(int err)
{
	return err == -ETIMEDOUT ? -ETIME : err;
}

/* This thread's latest error text, or "". Valid until the next failure. */
const char *error_text();
void error_clear();

/* Saves this thread's text across calls that may replace it. */
class saved_error {
public:
	saved_error();
	/* Restores the saved text; returns err (0 or -errno) unchanged. */
	int again(int err) const;
	const char *text() const { return text_; }

private:
	char text_[512];
};

} // namespace usdma
#pragma GCC visibility pop
