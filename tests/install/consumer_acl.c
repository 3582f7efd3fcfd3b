/* SPDX-License-Identifier: BSD-3-Clause */
/* A program for the ACL runtime, unchanged from what it is on an NPU host. */
#include <stdio.h>
#include <string.h>

#include "acl/acl.h"

#define CHECK(call)                                                                                                    \
	do {                                                                                                           \
		aclError ret = (call);                                                                                 \
		if (ret != ACL_SUCCESS) {                                                                              \
			fprintf(stderr, "%s: %d: %s\n", #call, (int)ret, aclGetRecentErrMsg());                        \
			return 1;                                                                                      \
		}                                                                                                      \
	} while (0)

enum { size = 1 << 20 };

int main(void)
{
	aclrtStream stream;
	void *host, *back, *dev;

	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	CHECK(aclrtCreateStream(&stream));
	CHECK(aclrtMallocHost(&host, size));
	CHECK(aclrtMallocHost(&back, size));
	CHECK(aclrtMalloc(&dev, size, ACL_MEM_MALLOC_HUGE_FIRST));
	memset(host, 0x5a, size);
	memset(back, 0, size);
	CHECK(aclrtMemcpyAsync(dev, size, host, size, ACL_MEMCPY_HOST_TO_DEVICE, stream));
	CHECK(aclrtMemcpyAsync(back, size, dev, size, ACL_MEMCPY_DEVICE_TO_HOST, stream));
	CHECK(aclrtSynchronizeStream(stream));
	if (memcmp(host, back, size)) {
		fprintf(stderr, "the data came back different\n");
		return 1;
	}
	CHECK(aclrtFree(dev));
	CHECK(aclrtFreeHost(host));
	CHECK(aclrtFreeHost(back));
	CHECK(aclrtDestroyStream(stream));
	CHECK(aclrtResetDevice(0));
	CHECK(aclFinalize());
	return 0;
}
