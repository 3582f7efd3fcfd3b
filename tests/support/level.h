/* SPDX-License-Identifier: BSD-3-Clause */
/* What a process has open and mapped, for tests that check for leaks. */
#pragma once

namespace usdma::test {

struct level {
	/* The current state. */
	level();

	long fds;    /* descriptors */
	long files;  /* mapped bytes of our memfds: pinned memory, rings, device memory */
	long pinned; /* bytes that a device may reach */
	long maps;   /* all mappings; the C library's heaps change their number */
};

/* Built with a sanitizer, which replaces the C library's allocator and uses part of the addresses. */
extern const bool sanitized;

/* "": no leak; else a text with the differences. */
const char *leak_report(const level &before, const level &now);

} // namespace usdma::test
