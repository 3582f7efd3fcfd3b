/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptors that hold whoever uses or closes them: a file of a file system
 * (FUSE) whose process answers no more once it is open, and a socket that
 * lingers for what nobody reads.
 */
#pragma once

namespace usdma::test {

/*
 * -1: none can be had here, and *why says why.  To be called before there are threads; whoever inherits it, and closes
 * it, waits, until end_silent_file has ended what serves it.  One at a time.  closes: that alone is answered.
 */
int silent_file(const char **why, bool closes = false);
void end_silent_file();
/*
 * As silent_file(), a file of 4 MiB, byte n of which is faulty_byte(n): the first MiB is read and written, the second
 * one gives EIO (read) and ENOSPC (write), and from the third one on there is no answer. fsync(2) gives EIO, after
 * faulty_sync_ms.
 */
int faulty_file(const char **why);
inline constexpr unsigned long faulty_at = 1 << 20, silent_at = 2 << 20;
inline constexpr unsigned faulty_sync_ms = 6000;
inline unsigned char faulty_byte(unsigned long n)
{
	return static_cast<unsigned char>(n ^ n >> 8 ^ n >> 16);
}
/* A TCP connection to nobody who reads, its buffers full: close(2) of the last descriptor of it waits for an hour. */
int lingering_socket();

} // namespace usdma::test
