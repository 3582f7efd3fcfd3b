/* SPDX-License-Identifier: BSD-3-Clause */
/* Address checks of copies. */
#include "lib/core/copy/internal.h"

namespace usdma::core {

[[gnu::cold]] int fail_range(const translation &p, u64 addr, u64 len, const char *which)
{
	if (!p.size)
		return fail(EFAULT, "%s 0x%" PRIx64 " is a device address that is not allocated", which, addr);
	return fail(EFAULT, "%s 0x%" PRIx64 " + %" PRIu64 " bytes exceeds its block 0x%" PRIx64 " of %" PRIu64 " bytes",
		    which, addr, len, p.base, p.size);
}

int check_range(const translation &p, u64 addr, u64 len, const char *which)
{
	translation at = p;

	while (!holds(at, addr, len)) {
		if (!at.size || !(at.flags & region_chains))
			return fail_range(at, addr, len, which);
		const u64 left = left_in(at, addr);
		const bool remote = is_remote(at);

		len -= left;
		addr += left;
		at = translate(addr);
		if (at.size && is_remote(at) != remote)
			return fail(EXDEV,
				    "%s continues at 0x%" PRIx64 " in memory of %s machine: it takes a copy for each",
				    which, addr, remote ? "this" : "another");
	}
	return 0;
}

[[gnu::cold]] static int fail_ordinary(const void *p, const char *which)
{
	return fail(EFAULT, "%s %p is ordinary memory: it must be device memory or pinned", which, p);
}

int check_access(const void *p, u64 len, const char *which)
{
	const translation at = translate(p);

	return at.cls == mem_class::unregistered ? fail_ordinary(p, which) :
						   check_range(at, reinterpret_cast<u64>(p), len, which);
}

int check_memory(const void *p, u64 len, bool writes)
{
	const translation at = translate(p);

	if (at.cls == mem_class::unregistered)
		return 0;
	if (writes && at.flags & region_readonly)
		return fail(EFAULT, "destination %p is registered as read-only", p);
	/* A link that is down would stop the thread of all files. */
	if (is_remote(at))
		return fail(EXDEV, "%p is memory of another machine: copy it to or from memory of this one", p);
	return check_range(at, reinterpret_cast<u64>(p), len, writes ? "destination" : "source");
}

[[gnu::cold]] static int fail_apart(const device *dev)
{
	return dev->isolated() ?
		       fail(EXDEV,
			    "device %u (%s) is isolated and can access only host memory that is allocated for it: "
			    "usdma_host_alloc with this device, aclrtMallocHost while it is the current one",
			    dev->slot, dev->spec.c_str()) :
		       fail(EXDEV, "device %u cannot access host memory that was allocated for an isolated device",
			    dev->slot);
}

int reach_peer(device *dev, translation *p)
{
	if (reaches(dev, *p))
		return 0;
	if (is_remote(*p))
		return fail(EXDEV, "it is memory of another machine, which only copies can reach");
	return p->cls == mem_class::device ? peer_translate(dev, p) : fail_apart(dev);
}

/* -EFAULT, or stale. */
[[gnu::cold]] static int check_freed(const lookups &found)
{
	for (size_t i = 0; i < found.n; i++) {
		const translation &p = found.all[i];

		if (p.reg && p.kind != region_kind::registered && !is_current(p))
			return fail(EFAULT, "the memory at 0x%" PRIx64 " was freed or unmapped while the call used it",
				    p.base);
	}
	return stale;
}

int check_freed(const endpoints &e)
{
	const translation both[] = {e.dst, e.src};

	return check_freed({0, both, 2});
}

int submit_found(stream *s, dma::request *r, size_t n, const lookups &found, op_numbers *numbers, size_t *posted)
{
	const int err = stream_submit(s, r, n, &found, numbers, posted);

	return likely(err != stale) ? err : check_freed(found);
}

static int reach_region(stream *s, const void *p, const char *which, translation *out)
{
	*out = translate(p);
	if (out->cls == mem_class::unregistered)
		return fail_ordinary(p, which);
	if (const int err = reach_peer(s->dev, out))
		return out->cls == mem_class::host || is_remote(*out) ?
			       fail_in(err, "%s %p", which, p) :
			       fail_in(err, "%s %p lies on device %u, the stream runs on device %u", which, p,
				       out->slot, s->dev->slot);
	return 0;
}

int reachable(stream *s, const void *p, u64 len, const char *which, translation *out)
{
	const int err = reach_region(s, p, which, out);

	return err || holds(*out, reinterpret_cast<u64>(p), len) ?
		       err :
		       fail_range(*out, reinterpret_cast<u64>(p), len, which);
}

int reachable_part(stream *s, const void *p, u64 len, const char *which, translation *out, u64 *n)
{
	const u64 at = reinterpret_cast<u64>(p);
	int err = reach_region(s, p, which, out);

	if (!err)
		err = check_range(*out, at, len, which);
	if (!err)
		*n = std::min(*n, left_in(*out, at));
	return err;
}

} // namespace usdma::core
