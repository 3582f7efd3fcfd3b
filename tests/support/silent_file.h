/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptors that block a process that uses or closes them: a file of a FUSE
 * server that stops to answer once it is open, and a socket that lingers because
 * its data is never read.
 */
#pragma once

namespace usdma::test {

/*
 * -1: unavailable, for the reason *why.  Call it before there are threads.  A process that closes the file, an
 * inherited one too, waits until end_silent_file() has ended the server.  One at a time.  closes: only a close is
 * answered.
 */
int silent_file(const char **why, bool closes = false);
void end_silent_file();
/*
 * As silent_file(), a file of 4 MiB, byte n of which is faulty_byte(n): the first MiB can be read and written, the
 * second one fails with EIO (read) and ENOSPC (write), and the others are not answered. fsync(2) fails with EIO after
 * faulty_sync_ms.
 */
int faulty_file(const char **why);
inline constexpr unsigned long faulty_at = 1 << 20, silent_at = 2 << 20;
inline constexpr unsigned faulty_sync_ms = 6000;
inline unsigned char faulty_byte(unsigned long n)
{
	return static_cast<unsigned char>(n ^ n >> 8 ^ n >> 16);
}
/* A TCP connection whose peer does not read, with full buffers: close(2) of its last descriptor waits for an hour. */
int lingering_socket();

} // namespace usdma::test
