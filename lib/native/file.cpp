/* SPDX-License-Identifier: BSD-3-Clause */
/* The C API: files. */
#include "usdma/file.h"

#include "lib/core/file/file.h"
#include "lib/native/handles.h"

#include <memory>

using namespace usdma;

static_assert(USDMA_FILE_BUFFERED == int(core::file_access::buffered));
static_assert(USDMA_FILE_READ == 0 && USDMA_FILE_WRITE == 1);
static_assert(USDMA_FILE_DIRECT == int(core::file_access::direct));

namespace {

struct file_release {
	void operator()(core::file *f) const { core::file_leave(f); }
};
using file_ref = std::unique_ptr<core::file, file_release>;

} // namespace

#define guard_file(name, handle)                                                                                       \
	const no_cancel no_exit;                                                                                       \
	if (unlikely(core::forked()))                                                                                  \
		return core::fail_forked();                                                                            \
	const file_ref name(core::file_enter(handle));                                                                 \
	if (unlikely(!(name)))                                                                                         \
	return native::fail_guard(__func__, "file", -EBADF)

int usdma_file_import(usdma_device *dev, int fd, unsigned flags, usdma_file **out)
{
	void *handle;

	need_pointer(out);
	*out = nullptr;
	guard_device(d, dev);
	if (flags > USDMA_FILE_DIRECT)
		return fail(EINVAL, "%s: unknown flags 0x%x", __func__, flags);
	if (const int err = core::file_import(d, fd, core::file_access(flags), &handle))
		return fail_in(err, "%s", __func__);
	*out = static_cast<usdma_file *>(handle);
	return 0;
}

int usdma_file_close(usdma_file *file)
{
	return core::file_close(file);
}

static int queue_it(const char *call, core::stream *s, const core::file_request &r)
{
	if (r.moved)
		*r.moved = 0;
	if (!r.len && r.op != core::file_op::sync)
		return 0;
	if (!r.mem && r.op != core::file_op::sync)
		return native::null_argument(call, r.op == core::file_op::read ? "dst" : "src");
	const int err = core::file_submit(s, r);
	return err ? fail_in(err, "%s", call) : 0;
}

static int run_it(const char *call, const core::file_request &r, int timeout_ms)
{
	if (r.moved)
		*r.moved = 0;
	if (!r.len)
		return 0;
	if (!r.mem)
		return native::null_argument(call, r.op == core::file_op::read ? "dst" : "src");
	const int err = core::file_run(r, native::until_ms(timeout_ms));
	return err ? fail_in(err, "%s", call) : 0;
}

int usdma_file_read(usdma_stream *stream, void *dst, usdma_file *file, uint64_t offset, size_t len, size_t *moved)
{
	guard_stream(s, stream);
	guard_file(f, file);
	return queue_it(__func__, s, {core::file_op::read, f.get(), dst, offset, len, moved});
}

int usdma_file_write(usdma_stream *stream, usdma_file *file, uint64_t offset, const void *src, size_t len,
		     size_t *moved)
{
	guard_stream(s, stream);
	guard_file(f, file);
	return queue_it(__func__, s, {core::file_op::write, f.get(), const_cast<void *>(src), offset, len, moved});
}

int usdma_file_sync(usdma_stream *stream, usdma_file *file)
{
	guard_stream(s, stream);
	guard_file(f, file);
	return queue_it(__func__, s, {core::file_op::sync, f.get(), nullptr, 0, 0, nullptr});
}

static int check_item(const usdma_file_item &item)
{
	if (item.kind > USDMA_FILE_WRITE || item.reserved)
		return fail(EINVAL, "its kind is %u, reserved is %u", item.kind, item.reserved);
	return item.mem || !item.len ? 0 : fail(EINVAL, "mem is NULL");
}

static int item_request(const void *arg, size_t i, core::file_request *out)
{
	const usdma_file_item &item = static_cast<const usdma_file_item *>(arg)[i];
	const core::file_op op = item.kind == USDMA_FILE_READ ? core::file_op::read : core::file_op::write;

	if (const int err = check_item(item))
		return err;
	core::file *f = core::file_enter(item.file);
	if (!f)
		return fail(EBADF, "the file is NULL, unknown, or closed already");
	*out = {op, f, item.mem, item.offset, item.len, item.moved, item.error};
	return 0;
}

int usdma_file_batch(usdma_stream *stream, const struct usdma_file_item *items, size_t n, size_t *done)
{
	if (done)
		*done = 0;
	guard_stream(s, stream);
	if (!n)
		return 0;
	need_pointer(items);
	const int err = core::file_submit_all(s, n, item_request, items, done);
	return err ? fail_in(err, "%s", __func__) : 0;
}

int usdma_file_read_sync(void *dst, usdma_file *file, uint64_t offset, size_t len, size_t *moved, int timeout_ms)
{
	guard_file(f, file);
	return run_it(__func__, {core::file_op::read, f.get(), dst, offset, len, moved}, timeout_ms);
}

int usdma_file_write_sync(usdma_file *file, uint64_t offset, const void *src, size_t len, size_t *moved, int timeout_ms)
{
	guard_file(f, file);
	return run_it(__func__, {core::file_op::write, f.get(), const_cast<void *>(src), offset, len, moved},
		      timeout_ms);
}
