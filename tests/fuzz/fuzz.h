/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the fuzz targets share.  Each defines LLVMFuzzerTestOneInput; linked with
 * libFuzzer (-Dfuzz=true, clang) it searches, linked with replay.cpp it runs over
 * its corpus as a plain test.
 */
#pragma once

#include "driver/base/types.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

namespace usdma::fuzz {

/* A condition whose failure is a finding. */
#define must_hold(what)                                                                                                \
	do {                                                                                                           \
		if (!(what)) {                                                                                         \
			fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #what);                      \
			abort();                                                                                       \
		}                                                                                                      \
	} while (0)

/* Consumes the input from its front; after its end all bytes are zero. */
class input {
public:
	input(const u8 *data, size_t size) : at_(data), left_(size) {}

	bool empty() const { return !left_; }
	size_t left() const { return left_; }
	const u8 *data() const { return at_; }

	void bytes(void *to, size_t n)
	{
		const size_t have = n < left_ ? n : left_;

		memset(to, 0, n);
		if (have)
			memcpy(to, at_, have);
		skip(have);
	}
	template <class T> T get()
	{
		T v;

		bytes(&v, sizeof(v));
		return v;
	}
	/* Up to n bytes; *len: how many there are. */
	const u8 *run(size_t n, size_t *len)
	{
		const u8 *p = at_;

		*len = n < left_ ? n : left_;
		skip(*len);
		return p;
	}

private:
	void skip(size_t n)
	{
		at_ += n;
		left_ -= n;
	}

	const u8 *at_;
	size_t left_;
};

/* The lowest free descriptor: it increases if one leaks. */
int next_descriptor();
/* Waits until the lowest free one is this one: threads of the library may still be closing some (close_foreign). */
bool descriptors_are_back_at(int lowest);

} // namespace usdma::fuzz
