/* SPDX-License-Identifier: BSD-3-Clause */
/* Adds numbers by a function in a stream, between two copies. */
#include <acl/acl.h>

#include <cstdio>

void add_do(uint32_t blocks, void *stream, int32_t *x, int32_t *y, int32_t *z, uint32_t n);

int main()
{
	constexpr uint32_t n = 1000;
	constexpr size_t size = n * sizeof(int32_t);
	int32_t *host[4];
	aclrtStream stream;
	void *mem;

	if (aclInit(nullptr) || aclrtSetDevice(0) || aclrtCreateStream(&stream) ||
	    aclrtMalloc(&mem, size, ACL_MEM_MALLOC_HUGE_FIRST))
		return 1;
	for (auto &h : host)
		if (aclrtMallocHost(reinterpret_cast<void **>(&h), size))
			return 1;
	for (uint32_t i = 0; i < n; i++)
		host[0][i] = int32_t(i), host[1][i] = int32_t(3 * i), host[3][i] = -1;
	add_do(8, stream, host[0], host[1], host[2], n);
	if (aclrtMemcpyAsync(mem, size, host[2], size, ACL_MEMCPY_HOST_TO_DEVICE, stream) ||
	    aclrtMemcpyAsync(host[3], size, mem, size, ACL_MEMCPY_DEVICE_TO_HOST, stream) ||
	    aclrtSynchronizeStream(stream))
		return 1;
	for (uint32_t i = 0; i < n; i++)
		if (host[3][i] != int32_t(4 * i))
			return printf("z[%u] is %d\n", i, host[3][i]), 1;
	return puts("sums are right") < 0;
}
