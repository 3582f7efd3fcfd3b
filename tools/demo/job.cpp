/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/demo/job.h"
#include "driver/base/unique_fd.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <stdexcept>
#include <sys/stat.h>
#include <unistd.h>

namespace usdma::demo {

void must(aclError ret, const char *call)
{
	const char *why;

	if (ret == ACL_SUCCESS)
		return;
	why = aclGetRecentErrMsg();
	throw std::runtime_error(std::string(call) + " returned " + std::to_string(ret) + (why ? ": " : "") +
				 (why ? why : ""));
}

static char *host_block(size_t len)
{
	void *p;

	must(aclrtMallocHost(&p, len), "aclrtMallocHost");
	return static_cast<char *>(p);
}

static char *device_block(size_t len)
{
	void *p;

	must(aclrtMalloc(&p, len, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc");
	return static_cast<char *>(p);
}

void job::read_file(const std::string &path)
{
	const usdma::unique_fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
	const int fd = file.get();
	struct stat st = {};
	size_t have = 0;

	if (fd < 0 || fstat(fd, &st))
		throw std::runtime_error(path + ": " + strerror(errno));
	if (!S_ISREG(st.st_mode) || st.st_size <= 0)
		throw std::runtime_error(path + ": not a regular file with something in it");
	len = size_t(st.st_size);
	pinned_in = host_block(len);
	for (ssize_t n; have < len && (n = read(fd, pinned_in + have, len - have)) > 0;)
		have += size_t(n);
	if (have != len)
		throw std::runtime_error(path + ": could be read in part only");
}

/* Opens device 1 if device 0 can copy to it. */
void job::open_peer()
{
	uint32_t devices = 0;
	int32_t reaches = 0;

	MUST(aclrtGetDeviceCount(&devices));
	if (devices < 2 || aclrtDeviceCanAccessPeer(&reaches, 0, 1) != ACL_SUCCESS || !reaches)
		return;
	MUST(aclrtDeviceEnablePeerAccess(1, 0));
	MUST(aclrtSetDevice(1));
	MUST(aclrtDeviceEnablePeerAccess(0, 0));
	peer = device_block(len);
	MUST(aclrtCreateStream(&peer_stream));
	MUST(aclrtSetDevice(0));
}

job::job(const std::string &path)
{
	MUST(aclInit(nullptr));
	MUST(aclrtSetDevice(0));
	sha = sha256_of_file(path);
	read_file(path);
	pinned_out = host_block(len);
	plain_in.assign(pinned_in, pinned_in + len);
	plain_out.resize(len);
	dev_a = device_block(len);
	dev_b = device_block(len);
	descs = device_block((pieces + 1) * desc_stride); /* the last one is for a small copy */
	for (aclrtStream &s : streams)
		MUST(aclrtCreateStream(&s));
	open_peer();
}

/* The process exits afterwards; aclFinalize releases what is left. */
job::~job()
{
	aclrtSynchronizeDevice();
	for (aclrtStream s : streams)
		if (s)
			aclrtDestroyStream(s);
	for (char *p : {pinned_in, pinned_out})
		if (p)
			aclrtFreeHost(p);
	for (char *p : {dev_a, dev_b, descs})
		if (p)
			aclrtFree(p);
	if (peer && aclrtSetDevice(1) == ACL_SUCCESS) {
		aclrtDestroyStream(peer_stream);
		aclrtFree(peer);
		aclrtResetDevice(1);
	}
	aclrtResetDevice(0);
	aclFinalize();
}

void job::wipe()
{
	memset(pinned_out, 0, len);
	memset(plain_out.data(), 0, len);
	MUST(aclrtMemset(dev_a, len, 0xa5, len));
	MUST(aclrtMemset(dev_b, len, 0x5a, len));
	if (!peer)
		return;
	MUST(aclrtSetDevice(1));
	MUST(aclrtMemset(peer, len, 0x3c, len));
	MUST(aclrtSetDevice(0));
}

void job::sync()
{
	for (aclrtStream s : streams)
		MUST(aclrtSynchronizeStream(s));
}

} // namespace usdma::demo
