/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/base/memfd.h"

#include "driver/base/error.h"
#include "driver/base/fd.h"
#include "driver/base/memory_limit.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace usdma {

int memfd_make(const char *name, u64 size, unsigned flags, unique_fd *out)
{
	unique_fd fd(fd_above_stdio(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | flags)));

	if (!fd.valid())
		return fail_errno("memfd %s", name);
	if (const int err = file_size_check(size))
		return err;
	if (ftruncate(fd.get(), off_t(size)) || fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return fail_errno("memfd %s of %llu bytes", name, static_cast<unsigned long long>(size));
	*out = std::move(fd);
	return 0;
}

} // namespace usdma
