/* SPDX-License-Identifier: BSD-3-Clause */
/* The data of the demonstration: the file's bytes in both kinds of host memory, and device buffers. */
#pragma once

#include <acl/acl.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace usdma::demo {

/* Throws std::runtime_error with the failed call and the reason. */
void must(aclError ret, const char *call);
#define MUST(call) ::usdma::demo::must((call), #call)

inline constexpr size_t pieces = 4096, small = 4096, chunk = 1 << 20, hw_queues = 4, small_items = 64;

struct job {
	job(const std::string &path);
	~job();
	job(const job &) = delete;
	job &operator=(const job &) = delete;

	/* Overwrites the device and result buffers. */
	void wipe();
	void sync();

	size_t len = 0;
	char *pinned_in = nullptr, *pinned_out = nullptr;
	std::vector<char> plain_in, plain_out;
	char *dev_a = nullptr, *dev_b = nullptr; /* device 0 */
	char *peer = nullptr;                    /* device 1; nullptr: there is none that device 0 reaches */
	char *descs = nullptr;                   /* device memory for descriptors */
	size_t desc_stride = 64;
	aclrtStream streams[hw_queues] = {};
	aclrtStream peer_stream = nullptr;
	std::string sha; /* of the file, by sha256sum(1) */

private:
	void read_file(const std::string &path);
	void open_peer();
};

/* One path for the file host → device → device → host; and one small copy of the same kind, with its wait. */
struct path {
	const char *name;
	void (*in)(job &j);
	void (*across)(job &j);
	void (*out)(job &j);
	void (*one)(job &j);
	bool pageable; /* the result is in plain_out */
	bool needs_peer;
};
extern const std::vector<path> paths;

/* sha256sum(1) of a file, or of memory. */
std::string sha256_of_file(const std::string &path);
std::string sha256_of(const char *data, size_t len);

} // namespace usdma::demo
