/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Importing a key: another process chose the descriptor number in it, the file of that number, and every word of the
 * page in it.  The input: the kind of the page's file, the kind of the data's file, flags (how), the requested kind of
 * share, then either the words of a page or, with bit 4 of how, a key.
 */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/kinds.h"

#include "driver/base/unique_fd.h"
#include "lib/share/share.h"

#include <cstdio>
#include <iterator>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

using namespace usdma;
using namespace usdma::core;
using namespace usdma::fuzz;

static constexpr size_t page_bytes = 4096;

enum how : u8 { right_magic = 1, right_secret = 2, is_open = 4, fits = 8, raw_key = 16, pinned = 32, right_kind = 64 };

/* A descriptor of any kind (kinds.h); -1: an invalid one.  Without bit 7 in the order of older inputs. */
static int file_of(u8 kind)
{
	static constexpr u8 old_order[] = {0, 1, 2, 3, 4, 5, 6, 7, 9, 12, 15, 17, 19, kinds - 1};

	return descriptor_of(kind & 0x80 ? kind & 0x7f : old_order[kind % std::size(old_order)]);
}

/* A request to it is never answered. */
static bool is_silent(u8 kind)
{
	return kind & 0x80 && (kind & 0x7f) % kinds == silent_kind;
}

static void fill(share_page *p, input *in, u8 how, const share_page &model, int data)
{
	in->bytes(p, sizeof(*p));
	if (how & right_magic)
		p->magic = model.magic;
	if (how & right_secret)
		p->secret = model.secret;
	if (how & right_kind)
		p->kind = model.kind;
	if (how & is_open)
		p->open = 1, p->closed = 0;
	if (how & fits)
		p->offset = 0, p->size = page_bytes;
	p->data_fd = data;
}

static std::string key_of(const share *s, u32 kind, int fd)
{
	char number[10];
	std::string key = s->key;

	snprintf(number, sizeof(number), "%u", kind % 10);
	key.replace(strlen("usdma-"), 1, number);
	snprintf(number, sizeof(number), "%08x", unsigned(fd));
	return key.replace(strlen("usdma-1-") + 9, 8, number);
}

static void import(const std::string &key, u32 kind, u8 how, size_t data_size)
{
	const int before = next_descriptor();
	share *got = nullptr;

	if (!share_import(key.c_str(), share_kind(kind), how & pinned, &got)) {
		must_hold(key == got->key && !got->mine && got->page);
		must_hold(got->data.valid() == (got->size != 0 && got->page->data_fd >= 0));
		/* The values that were checked are the ones that are used. */
		must_hold(!got->data.valid() || (got->offset <= data_size && got->size <= data_size - got->offset));
		share_report(got);
		share_unref(got);
	}
	must_hold(next_descriptor() == before);
}

extern "C" int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	static share *model;
	input in(data, size);
	const u8 page_kind = in.get<u8>(), data_kind = in.get<u8>();
	const unique_fd page_fd(file_of(page_kind)), data_fd(file_of(data_kind));
	const u8 how = in.get<u8>();
	const u32 kind = in.get<u8>() % 6;
	share_page page;
	struct stat st;
	size_t len;

	prepare_kinds();
	if (!model)
		must_hold(!share_export({share_kind::memory, true, -1, 0, 0, 0}, false, &model));
	if (how & raw_key) {
		const u8 *text = in.run(2 * share_key_len, &len);

		import(std::string(reinterpret_cast<const char *>(text), len).c_str(), kind, how, ~size_t(0));
		return 0;
	}
	fill(&page, &in, how, *model->page, data_fd.get());
	if (!is_silent(page_kind) && pwrite(page_fd.get(), &page, sizeof(page), 0) < 0)
		must_hold(errno != EIO);
	const bool has_size = data_fd.valid() && !is_silent(data_kind) && !fstat(data_fd.get(), &st);
	import(key_of(model, kind, page_fd.get()), kind, how, has_size ? size_t(st.st_size) : 0);
	return 0;
}
