/* SPDX-License-Identifier: BSD-3-Clause */
/* Physical memory and device memory shared with other processes. */
#include "driver/base/cancel.h"
#include "driver/base/grow.h"
#include "lib/core/base/slab.h"
#include "lib/core/memory/exports.h"
#include "lib/core/memory/memory.h"
#include "lib/core/stream/guard.h"
#include "lib/share/helper.h"
#include "lib/share/remote.h"
#include "lib/share/vmm_internal.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <string>
#include <unistd.h>

namespace usdma::core {

/* ---- files ------------------------------------------------------------------------------------------ */

/* The file behind device memory at a DMA address. */
static int file_of(device *dev, u64 dma, int *fd, u64 *offset)
{
	*fd = device_memory_fd(dev, offset);
	if (*fd < 0)
		return fail(EOPNOTSUPP, "the memory of device %u (%s) has no file that another process could map",
			    dev->slot, dev->spec.c_str());
	*offset += dma - device_memory(dev).dma;
	return 0;
}

/* ---- physical memory -------------------------------------------------------------------------------- */

static std::mutex export_lock; /* protects physical::shared and the exports below */

struct number_table {
	std::map<u64, share *> of; /* exports of this process; each holds a reference */
};
static number_table &exported()
{
	static no_destructor<number_table> numbers;

	return *numbers;
}

/* Under the lock. */
static int export_as(physical *p, share_kind kind, bool open)
{
	share_spec spec{kind, open, p->fd.get(), 0, p->size, p->host};
	int err = 0;

	if (p->remote.by)
		return fail(EOPNOTSUPP, "this memory belongs to another machine: only the program there can export it");
	if (p->shared)
		return p->shared->mine ?
			       fail(EEXIST, "this memory is exported already") :
			       fail(EOPNOTSUPP, "this memory belongs to another process: only that one can export it");
	if (p->carved)
		err = file_of(p->dev, device_memory(p->dev).dma + p->offset, &spec.data_fd, &spec.offset);
	if (!err && p->carved)
		err = device_export(p->dev, p->offset, nullptr);
	if (!err)
		err = share_export(spec, false, &p->shared);
	if (err)
		return err;
	if (!try_emplace(exported().of, share_number(p->shared), p->shared)) {
		share_unref(p->shared);
		p->shared = nullptr;
		return no_memory("the list of exported memory");
	}
	share_ref(p->shared);
	return 0;
}

int physical_export(physical *p, bool open, u64 *number)
{
	const no_cancel scope;

	if (is_other_process())
		return fail_forked();
	std::lock_guard guard(export_lock);
	const int err = export_as(p, share_kind::physical, open);

	if (!err)
		*number = share_number(p->shared);
	return err;
}

/* Once; to other machines anew if usdma-net has ended since: h, or null. *here: with this call. */
static int export_here(physical *p, const helper *h, bool open, bool *here)
{
	const u64 by = h ? helper_number(h) : 0;
	std::lock_guard guard(export_lock);
	const bool again = p->shared && p->shared->mine && p->offered_by && by && p->offered_by != by &&
			   p->shared->page->kind == u32(share_kind::fabric) &&
			   load_relaxed(&p->shared->page->open) >= u32(open);

	*here = !again;
	return again ? 0 : export_as(p, share_kind::fabric, open);
}

static int offer(const share *s, helper *h)
{
	return helper_offer(h, s->key, s->data.get(), s->offset, s->size, load_acquire(&s->page->open));
}

/* To other machines, too: without the lock, as that may take a while. */
static int export_there(physical *p, helper *h, bool here)
{
	const int err = offer(p->shared, h);

	if (const saved_error why; err) {
		if (here)
			physical_unshare(p);
		return why.again(err);
	}
	std::lock_guard guard(export_lock);
	p->offered_by = helper_number(h);
	return 0;
}

int physical_export_fabric(physical *p, bool open, fabric_handle *out)
{
	const no_cancel scope;
	helper *h = nullptr;
	bool here = false;

	if (is_other_process())
		return fail_forked();
	int err = net_is_on() ? helper_get(&h) : 0;
	if (!err)
		err = export_here(p, h, open, &here);
	if (!err && h)
		err = export_there(p, h, here);
	if (!err)
		fabric_make(p->shared, h ? &helper_address(h) : nullptr, out);
	helper_put(h);
	return err;
}

void physical_unshare(physical *p)
{
	char key[share_key_len + 1] = "";
	{
		std::lock_guard guard(export_lock);

		if (!p->shared)
			return;
		if (p->shared->mine) {
			share_close(p->shared);
			if (p->shared->page->kind == u32(share_kind::fabric))
				memcpy(key, p->shared->key, sizeof(key));
			exported().of.erase(share_number(p->shared));
			share_unref(p->shared);
		}
		share_unref(p->shared);
		p->shared = nullptr;
	}
	/* It may wait: without the lock. */
	if (*key)
		helper_withdraw(key);
}

/* Runs f with the share that this process exports under the number. */
template <class F> static int with_exported(u64 number, F &&f)
{
	const no_cancel scope;

	if (is_other_process())
		return fail_forked();
	std::lock_guard guard(export_lock);
	const auto it = exported().of.find(number);

	if (it == exported().of.end())
		return fail(ENOENT, "this process exports nothing under %#llx",
			    static_cast<unsigned long long>(number));
	return f(it->second);
}

int physical_allow(u64 number, const s32 *pids, size_t n)
{
	return with_exported(number, [=](auto &s) { return share_allow(s, pids, n); });
}

/* Of a share that was opened to all; with a reference, which it drops. */
static int offer_anew(u64 number, share *s)
{
	helper *h;
	int err = helper_get(&h);

	if (!err) {
		err = offer(s, h);
		helper_put(h);
	}
	const saved_error why;
	/* It may have been freed meanwhile. */
	if (with_exported(number, [](auto &) { return 0; }))
		helper_withdraw(s->key);
	share_unref(s);
	return why.again(err);
}

int physical_allow_all(u64 number)
{
	share *offered = nullptr;
	const int err = with_exported(number, [&](auto &s) {
		const int failed = share_allow_all(s);

		if (!failed && net_is_on() && s->page->kind == u32(share_kind::fabric)) {
			share_ref(s);
			offered = s;
		}
		return failed;
	});

	return offered ? offer_anew(number, offered) : err;
}

static int find_export(const char *key, share **out)
{
	const u64 number = share_number_of(key);
	const auto it = exported().of.find(number);

	if (number && number >> 32 != u64(getpid()))
		return fail(EACCES, "the memory was exported by process %u: only that one can allow others",
			    unsigned(number >> 32));
	if (it == exported().of.end() || strcmp(it->second->key, key) != 0)
		return fail(ENOENT, "this process does not export the memory of this FABRIC handle (any more)");
	*out = it->second;
	return 0;
}

int physical_allow_fabric(const fabric_handle *h, const s32 *pids, size_t n)
{
	const no_cancel scope;
	char key[share_key_len + 1];
	share *s = nullptr;

	if (is_other_process())
		return fail_forked();
	int err = fabric_key(h, key);
	if (!err && !fabric_is_here(h))
		err = fail(EOPNOTSUPP,
			   "the memory was exported on another machine: only the exporter can allow others");
	if (err)
		return err;
	std::lock_guard guard(export_lock);
	err = find_export(key, &s);
	if (err)
		return err;
	if (load_relaxed(&s->page->open))
		return fail(EPERM, "the memory was exported for any process: there is no list");
	if (std::all_of(pids, pids + n, [](s32 pid) { return !pid; }))
		return fail(EINVAL, "all %zu process ids are 0", n);
	return share_allow(s, pids, n);
}

static int fill_import(physical *p, share *s)
{
	p->shared = s;
	p->host = s->flags != 0;
	if (p->host) {
		p->fd.reset(fcntl(s->data.get(), F_DUPFD_CLOEXEC, 3));
		if (!p->fd.valid())
			return fail_errno("file of shared memory");
	}
	return foreign_map(p->dev, s->data.get(), s->offset, p->size, &p->mem);
}

/* Consumes the share. */
static int import_share(share *s, device *dev, physical **out)
{
	physical *p;
	int err;

	const u64 grain = s->flags ? os_page_size() : device_page; /* host memory is mapped for the CPU, too */
	err = s->data.valid() && s->offset % grain == 0 && s->size % grain == 0 ?
		      physical_new(dev, s->size, &p) :
		      fail(EINVAL, "the exporter's memory is not whole pages");
	if (err) {
		share_unref(s);
		return err;
	}
	err = fill_import(p, s);
	if (err) {
		physical_leave(p);
		return err;
	}
	physical_ready(p);
	*out = p;
	return 0;
}

int physical_import(u64 number, device *dev, physical **out)
{
	const no_cancel scope;
	share *s;

	if (is_other_process())
		return fail_forked();
	const int err = share_import_number(number, share_kind::physical, &s);
	return err ? err : import_share(s, dev, out);
}

int physical_import_fabric(const fabric_handle *h, device *dev, physical **out)
{
	const no_cancel scope;
	char key[share_key_len + 1];
	share *s;

	if (is_other_process())
		return fail_forked();
	int err = fabric_key(h, key);
	if (err)
		return err;
	if (!fabric_is_here(h))
		return remote_import(h, key, dev, out);
	err = share_import(key, share_kind::fabric, false, &s);
	if (!err)
		return import_share(s, dev, out);
	/* The key, or what it refers to by now, is invalid. */
	return err == -EINVAL ? -ENOENT : err;
}

/* ---- keys ------------------------------------------------------------------------------------------- */

struct export_entry {
	share *what = nullptr;
	const device *dev = nullptr; /* compared only: it may be closed */
	u64 block = 0;
};

/* Another process's memory, mapped at device addresses for one device. */
struct import {
	share *from = nullptr;
	foreign_memory mem;
	device *dev = nullptr;
	region *reg = nullptr;
	u64 addresses = 0; /* start of the reserved addresses */
	u64 uses = 1;
};

/* A key and the slot of the device that imports it. */
struct import_name {
	char text[share_key_len + 16];

	/* Of a key that is too long one character more: it names nothing. */
	import_name(const char *key, int slot)
	{
		snprintf(text, sizeof(text), "%.*s %d", int(share_key_len) + 1, key, slot);
	}
};

using import_table = std::map<std::string, std::unique_ptr<import>, std::less<>>;

struct ipc_state {
	std::mutex lock;
	std::map<std::string, export_entry, std::less<>> exports;
	/* Keys whose memory was freed before they were closed, the latest ones: to close them is no error. */
	char ended[256][share_key_len + 1] = {};
	size_t n_ended = 0;
	import_table imports; /* by import_name */
};

static ipc_state &ipc()
{
	static no_destructor<ipc_state> made;

	return *made;
}

static int no_key()
{
	return fail(ENOENT, "no such key is exported or imported by this process");
}

static void export_end(const export_entry &e)
{
	device_unexport(e.dev, e.block, &e.what->page->closed);
	share_close(e.what);
	share_unref(e.what);
}

/* Closes the exports whose memory was freed, and gives back what they hold. */
static void exports_end()
{
	ipc_state &st = ipc();
	std::lock_guard guard(st.lock);

	std::erase_if(st.exports, [&st](const auto &named) {
		const share *s = named.second.what;

		if (!load_acquire(&s->page->closed))
			return false;
		memcpy(st.ended[st.n_ended++ % std::size(st.ended)], s->key, sizeof(s->key));
		export_end(named.second);
		return true;
	});
}

/* Forgets the key. */
static bool was_ended(ipc_state &st, const char *key)
{
	for (char(&ended)[share_key_len + 1] : st.ended)
		if (*key && !strcmp(ended, key)) {
			*ended = 0;
			return true;
		}
	return false;
}

/* The file, and the block of p's memory that is allocated as one. */
static int find_file(device *dev, const void *ptr, const translation &p, share_spec *spec, u64 *block)
{
	const memory_view m = device_memory(dev);

	if (p.space != m.space || !range_within(p.dma - m.dma, spec->size, m.size))
		return fail(EOPNOTSUPP, "%p is memory that has no file of this process", ptr);
	*block = p.dma - m.dma - (reinterpret_cast<u64>(ptr) - p.base);
	return file_of(dev, p.dma, &spec->data_fd, &spec->offset);
}

static int list_export(const export_entry &e)
{
	ipc_state &st = ipc();
	std::lock_guard guard(st.lock);

	return try_emplace(st.exports, e.what->key, e) ? 0 : no_memory("the list of exported memory");
}

int ipc_memory_export(const void *ptr, u64 size, bool open, char *key)
{
	const no_cancel scope;
	const translation p = translate(ptr);
	const slot_guard dev(p.slot);
	share_spec spec{share_kind::memory, open, -1, 0, size, 0};
	export_entry e;
	int err;

	if (is_other_process())
		return fail_forked();
	if (p.cls != mem_class::device || !p.size || !dev ||
	    !range_within(reinterpret_cast<u64>(ptr) - p.base, size, p.size))
		return fail(EFAULT, "%p and %llu bytes from there are not one block of device memory", ptr,
			    static_cast<unsigned long long>(size));
	e.dev = dev.get();
	err = find_file(dev.get(), ptr, p, &spec, &e.block);
	if (!err)
		err = share_export(spec, false, &e.what);
	if (err)
		return err;
	exports_set_ended(exports_end);
	err = device_export(dev.get(), e.block, &e.what->page->closed);
	if (!err)
		err = list_export(e);
	if (err) {
		export_end(e);
		return err;
	}
	memcpy(key, e.what->key, share_key_len + 1);
	return 0;
}

int ipc_memory_allow(const char *key, const s32 *pids, size_t n)
{
	const no_cancel scope;
	ipc_state &st = ipc();

	if (is_other_process())
		return fail_forked();
	std::lock_guard guard(st.lock);
	const auto it = st.exports.find(key);
	return it == st.exports.end() ? no_key() : share_allow(it->second.what, pids, n);
}

static void import_end(import *i)
{
	if (i->reg)
		region_remove(i->reg);
	if (i->addresses)
		window_give(i->addresses);
	i->mem = foreign_memory();
	share_unref(i->from);
	if (i->dev)
		device_put(i->dev);
}

/* Drops a use, and with the last one the mapping. */
static void import_drop(std::unique_lock<std::mutex> &held, import_table::iterator it)
{
	if (--it->second->uses)
		return;
	const std::unique_ptr<import> last = std::move(it->second);
	ipc().imports.erase(it);
	/* It may be the last user of its device, whose close calls exports_end(). */
	held.unlock();
	import_end(last.get());
}

/* That of any device. */
static import_table::iterator find_import(ipc_state &st, const char *key)
{
	const auto it = st.imports.lower_bound(key);

	return it != st.imports.end() && !strcmp(it->second->from->key, key) ? it : st.imports.end();
}

static int import_map(import *i)
{
	const share *from = i->from;
	region r;
	int err = from->data.valid() ? foreign_map(i->dev, from->data.get(), from->offset, from->size, &i->mem) :
				       fail(EINVAL, "the key has no memory");

	if (!err)
		err = vmm_take_addresses(align_up(i->mem.pages.size(), vmm_grain), 0, 0, &i->addresses);
	if (err)
		return err;
	r.base = i->addresses + i->mem.inside;
	r.size = from->size;
	r.cls = mem_class::device;
	r.kind = region_kind::imported;
	r.space = dma::space::host;
	r.slot = u8(i->dev->slot);
	r.reach = i->dev->host_reach;
	r.flags = region_shared;
	r.delta = i->mem.iova - r.base;
	return region_add(r, &i->reg);
}

int ipc_memory_import(device *dev, const char *key, void **out)
{
	const no_cancel scope;
	const import_name name(key, int(dev->slot));
	ipc_state &st = ipc();
	int err;

	if (is_other_process())
		return fail_forked();
	std::lock_guard guard(st.lock);
	const auto it = st.imports.find(name.text);
	if (it != st.imports.end()) {
		it->second->uses++;
		*out = reinterpret_cast<void *>(it->second->reg->base);
		return 0;
	}
	std::unique_ptr<import> made(new (std::nothrow) import);
	std::unique_ptr<import> *listed = made ? try_emplace(st.imports, name.text) : nullptr;
	if (!listed)
		return no_memory("the list of imported memory");
	import *const i = made.get();
	err = share_import(key, share_kind::memory, false, &i->from);
	if (!err)
		err = device_ref(dev);
	if (!err)
		i->dev = dev;
	if (!err)
		err = import_map(i);
	if (err) {
		import_end(i);
		st.imports.erase(st.imports.find(name.text));
		return err;
	}
	*out = reinterpret_cast<void *>(i->reg->base);
	*listed = std::move(made);
	return 0;
}

int ipc_memory_close(const char *key, unsigned slot)
{
	const no_cancel scope;
	ipc_state &st = ipc();

	if (is_other_process())
		return fail_forked();
	std::unique_lock guard(st.lock);
	const auto out = st.exports.find(key);
	auto in = st.imports.find(import_name(key, int(slot)).text);
	/* A device that has not imported the key is that of the export. */
	if (in == st.imports.end() && out == st.exports.end())
		in = find_import(st, key);
	if (in != st.imports.end()) {
		import_drop(guard, in);
		return 0;
	}
	if (out == st.exports.end())
		return was_ended(st, key) ? 0 : no_key();
	export_end(out->second);
	st.exports.erase(out);
	return 0;
}

int ipc_memory_close_at(const void *ptr)
{
	const no_cancel scope;
	ipc_state &st = ipc();

	if (is_other_process())
		return fail_forked();
	std::unique_lock guard(st.lock);
	const auto it = std::find_if(st.imports.begin(), st.imports.end(),
				     [=](const auto &i) { return i.second->reg->base == reinterpret_cast<u64>(ptr); });
	if (it == st.imports.end())
		return fail(ENOENT, "%p is not the start of imported memory", ptr);
	import_drop(guard, it);
	return 0;
}

bool ipc_memory_known(const char *key)
{
	ipc_state &st = ipc();

	if (forked())
		return false;
	std::lock_guard guard(st.lock);
	return st.exports.contains(key) || find_import(st, key) != st.imports.end();
}

} // namespace usdma::core
