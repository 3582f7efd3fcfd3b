/* SPDX-License-Identifier: BSD-3-Clause */
/* What a process has open and mapped, for tests that look for what stays behind. */
#pragma once

namespace usdma::test {

struct level {
	/* As it is now. */
	level();

	long fds;    /* descriptors */
	long files;  /* bytes mapped of our files: pinned memory, rings, device memory */
	long pinned; /* bytes that a device may reach */
	long maps;   /* mappings in all: the C library's heaps come and go among them */
};

/* The C library's memory, and part of the addresses, are a sanitizer's. */
extern const bool sanitized;

/* "": nothing stays that was not there before, else what. */
const char *what_stays(const level &before, const level &now);

} // namespace usdma::test
