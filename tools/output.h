/* SPDX-License-Identifier: BSD-3-Clause */
/* Standard output of a tool: a failed write is an error. */
#pragma once

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <unistd.h>

namespace usdma::tool {

/* Error of the first failed write: stdio drops the data, so that no later call reports it. */
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

/* False: output was lost, now or earlier; the caller should stop. */
inline bool flush_output()
{
	errno = 0;
	if (fflush(stdout) || ferror(stdout))
		output_failed(errno);
	return !output_err;
}

/*
 * Exit status: 1 where status is 0 and output was lost. A closed pipe is not reported: its reader has seen what it
 * wanted.
 */
inline int end_output(const char *tool, int status)
{
	/* Some file systems report errors only on close(). */
	if (const int fd = flush_output() ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3) : -1; fd >= 0 && close(fd))
		output_failed(errno);
	if (!output_err)
		return status;
	if (output_err != EPIPE)
		fprintf(stderr, "%s: standard output cannot be written: %s\n", tool, strerror(output_err));
	return status ? status : 1;
}

} // namespace usdma::tool
