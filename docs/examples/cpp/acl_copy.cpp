/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The Ascend ACL calls: a program for CANN, without a change.
 *
 *	c++ -std=c++17 acl_copy.cpp $(pkg-config --cflags --libs usdma-acl)
 */
#include <acl/acl.h>

#include <cstdio>
#include <cstring>
#include <vector>

namespace {

constexpr size_t block = 64 << 10, blocks = 32;
constexpr int32_t patience_ms = 30000;

bool failed(const char *call, aclError code)
{
	const char *text = code == ACL_SUCCESS ? nullptr : aclGetRecentErrMsg();

	if (code != ACL_SUCCESS)
		std::fprintf(stderr, "%s: %d %s\n", call, code, text ? text : "");
	return code != ACL_SUCCESS;
}

#define TRY(call)                                                                                                      \
	do {                                                                                                           \
		if (failed(#call, call))                                                                               \
			return false;                                                                                  \
	} while (0)

/* Many blocks by one call, like the transfer of a key-value cache. */
bool offload(char *host, char *device, aclrtStream stream)
{
	std::vector<void *> to(blocks), from(blocks);
	std::vector<size_t> sizes(blocks, block);
	aclrtMemcpyBatchAttr attr = {};
	size_t first = 0, bad = 0;

	for (size_t i = 0; i < blocks; i++) {
		to[i] = device + (blocks - 1 - i) * block; /* in reverse order */
		from[i] = host + i * block;
	}
	attr.dstLoc = {0, ACL_MEM_LOCATION_TYPE_DEVICE};
	attr.srcLoc = {0, ACL_MEM_LOCATION_TYPE_HOST};
	TRY(aclrtMemcpyBatchAsync(to.data(), sizes.data(), from.data(), sizes.data(), blocks, &attr, &first, 1, &bad,
				  stream));
	return true;
}

bool copy(char *host, char *back, char *device, aclrtStream stream)
{
	for (size_t i = 0; i < blocks * block; i++)
		host[i] = char(i / block * 3 + i);
	if (!offload(host, device, stream))
		return false;
	TRY(aclrtMemcpyAsync(back, blocks * block, device, blocks * block, ACL_MEMCPY_DEVICE_TO_HOST, stream));
	TRY(aclrtSynchronizeStreamWithTimeout(stream, patience_ms));
	for (size_t i = 0; i < blocks; i++) {
		if (std::memcmp(back + (blocks - 1 - i) * block, host + i * block, block)) {
			std::fprintf(stderr, "block %zu came back wrong\n", i);
			return false;
		}
	}
	std::printf("%zu blocks of %zu KiB to %s and back\n", blocks, block >> 10, aclrtGetSocName());
	return true;
}

bool run()
{
	void *host, *back, *device;
	aclrtStream stream;

	TRY(aclInit(nullptr));
	TRY(aclrtSetDevice(0));
	TRY(aclrtCreateStream(&stream));
	TRY(aclrtMallocHost(&host, blocks * block));
	TRY(aclrtMallocHost(&back, blocks * block));
	TRY(aclrtMalloc(&device, blocks * block, ACL_MEM_MALLOC_HUGE_FIRST));
	bool good = copy(static_cast<char *>(host), static_cast<char *>(back), static_cast<char *>(device), stream);
	TRY(aclrtFree(device));
	TRY(aclrtFreeHost(back));
	TRY(aclrtFreeHost(host));
	TRY(aclrtDestroyStream(stream));
	TRY(aclrtResetDevice(0));
	TRY(aclFinalize());
	return good;
}

} // namespace

int main()
{
	return run() ? 0 : 1;
}
