/* SPDX-License-Identifier: BSD-3-Clause */
/* Standard output of a tool: what could not be written is an error. */
#pragma once

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <unistd.h>

namespace usdma::tool {

/* Of the first write that failed: stdio drops the data with it, so that no later call fails for the same cause. */
inline int output_err = 0;

inline void output_failed(int err)
{
	if (!output_err)
		output_err = err ? err : EIO;
}

inline void put(const std::string &text)
{
	errno = 0;
	if (fwrite(text.data(), 1, text.size(), stdout) != text.size())
		output_failed(errno);
}

/* False: something is lost, now or earlier; it is of no use to go on. */
inline bool flush_output()
{
	errno = 0;
	if (fflush(stdout) || ferror(stdout))
		output_failed(errno);
	return !output_err;
}

/*
 * The status to leave with: 1 where status is 0 and output is lost.  Nobody is told of a pipe without a reader: the
 * reader has seen what it wanted.
 */
inline int end_output(const char *tool, int status)
{
	/* Some file systems say it only when a descriptor is closed. */
	if (const int fd = flush_output() ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3) : -1; fd >= 0 && close(fd))
		output_failed(errno);
	if (!output_err)
		return status;
	if (output_err != EPIPE)
		fprintf(stderr, "%s: standard output cannot be written: %s\n", tool, strerror(output_err));
	return status ? status : 1;
}

} // namespace usdma::tool
