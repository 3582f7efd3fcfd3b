/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies on a device through the library, as a program does, and compares the data. */
#include "driver/base/clock.h"
#include "driver/base/error.h"
#include "lib/core/copy/copy.h"
#include "lib/core/device/device.h"
#include "lib/core/info.h"
#include "lib/core/memory/memory.h"
#include "lib/core/stream/stream.h"
#include "tools/usdmactl/ctl.h"

#include <nlohmann/json.hpp>
#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <random>

namespace usdma::ctl {

static constexpr u64 timeout_ms = 120000;

namespace {

/* Owns an open device, a stream on it, a block of its memory and two pinned blocks. */
class bench {
public:
	~bench()
	{
		if (stream_)
			core::stream_destroy(stream_);
		for (void *p : {a, b})
			if (p)
				core::host_free(p);
		if (block)
			core::device_free(block);
		if (dev_)
			core::device_put(dev_);
	}
	int open(u64 want)
	{
		if (int err = core::device_count(); err < 0)
			return err;
		if (int err = core::device_get(0, &dev_); err < 0)
			return err;
		const u64 total = core::device_heap_info(dev_).total;
		size = want ? want : std::min<u64>(4 * MiB, align_down<u64>(total / 2, 512));
		/* Two halves, for the copy within the device. */
		half = align_up<u64>(size, 64);
		if (2 * half > total)
			return fail(ENOMEM,
				    "%llu bytes do not fit into the device's memory of %llu: choose a smaller --size",
				    static_cast<unsigned long long>(2 * half), static_cast<unsigned long long>(total));
		/* The first use of the device, which clears the memory: its errors are reported here. */
		if (int err = core::device_alloc(dev_, 2 * half, core::page_policy::normal_only, &block); err < 0)
			return err;
		if (int err = core::host_alloc(size, -1, &a); err < 0)
			return err;
		if (int err = core::host_alloc(size, -1, &b); err < 0)
			return err;
		return core::stream_create(dev_, {}, &stream_);
	}
	int copy(void *dst, const void *src, u64 len) { return core::copy_async(stream_, dst, src, len); }
	int sync() { return core::stream_sync(stream_, deadline::in_ms(timeout_ms)); }
	void *device(u64 offset) const { return reinterpret_cast<void *>(block + offset); }
	core::device *dev() const { return dev_; }

	u64 size = 0, half = 0, block = 0;
	void *a = nullptr, *b = nullptr;

private:
	core::device *dev_ = nullptr;
	core::stream *stream_ = nullptr;
};

struct step {
	const char *name;
	int (*run)(bench &t, std::vector<u8> &data, std::vector<u8> *got);
};

} // namespace

static int pinned(bench &t, std::vector<u8> &data, std::vector<u8> *got)
{
	memcpy(t.a, data.data(), t.size);
	memset(t.b, 0, t.size);
	int err = t.copy(t.device(0), t.a, t.size);
	if (!err)
		err = t.copy(t.b, t.device(0), t.size);
	if (!err)
		err = t.sync();
	got->assign(static_cast<u8 *>(t.b), static_cast<u8 *>(t.b) + t.size);
	return err;
}

static int pageable(bench &t, std::vector<u8> &data, std::vector<u8> *got)
{
	got->assign(t.size, 0);
	int err = t.copy(t.device(0), data.data(), t.size);
	if (!err)
		err = t.copy(got->data(), t.device(0), t.size);
	return err ? err : t.sync();
}

static int within(bench &t, std::vector<u8> &data, std::vector<u8> *got)
{
	memcpy(t.a, data.data(), t.size);
	memset(t.b, 0, t.size);
	int err = t.copy(t.device(0), t.a, t.size);
	if (!err)
		err = t.copy(t.device(t.half), t.device(0), t.size);
	if (!err)
		err = t.copy(t.b, t.device(t.half), t.size);
	if (!err)
		err = t.sync();
	got->assign(static_cast<u8 *>(t.b), static_cast<u8 *>(t.b) + t.size);
	return err;
}

/* Copies in pieces of odd length at odd addresses. */
static int odd_pieces(bench &t, std::vector<u8> &data, std::vector<u8> *got)
{
	const u64 piece = std::max<u64>(t.size / 5 | 1, 1);
	int err = 0;

	memcpy(t.a, data.data(), t.size);
	memset(t.b, 0, t.size);
	for (u64 at = 0; !err && at < t.size; at += piece)
		err = t.copy(t.device(at), static_cast<u8 *>(t.a) + at, std::min(piece, t.size - at));
	if (!err)
		err = t.copy(t.b, t.device(0), t.size);
	if (!err)
		err = t.sync();
	got->assign(static_cast<u8 *>(t.b), static_cast<u8 *>(t.b) + t.size);
	return err;
}

static constexpr step steps[] = {
	{"pinned", pinned},
	{"pageable", pageable},
	{"within the device", within},
	{"odd pieces", odd_pieces},
};

/* The first byte that differs; size: none. */
static u64 first_difference(const std::vector<u8> &a, const std::vector<u8> &b)
{
	return u64(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

static json run_step(bench &t, const step &s, std::mt19937_64 &gen)
{
	std::vector<u8> data(t.size), got;
	const u64 start = now_ns();
	int err;

	for (u8 &byte : data)
		byte = u8(gen());
	err = s.run(t, data, &got);
	json j = {{"name", s.name},
		  {"ok", !err && got == data},
		  {"bytes", t.size},
		  {"ms", double(now_ns() - start) / 1e6}};
	if (err)
		j["error"] = *error_text() ? error_text() : strerror(-err);
	else if (got != data)
		j["error"] = fmt::format("the data differ from byte {} on", first_difference(data, got));
	return j;
}

/* Copies a file into device memory and out again, one block at a time. */
static json run_file(bench &t, const selftest_options &opt)
{
	std::ifstream in(opt.file, std::ios::binary);
	std::ofstream out(opt.out, std::ios::binary | std::ios::trunc);
	json j = {{"name", "file"}, {"ok", false}, {"bytes", 0}};
	u64 total = 0;
	int err = 0;

	if (!in || !out) {
		j["error"] = "cannot open " + (in ? opt.out : opt.file);
		return j;
	}
	while (!err) {
		in.read(static_cast<char *>(t.a), std::streamsize(t.size));
		const u64 n = u64(in.gcount());

		if (!n)
			break;
		memset(t.b, 0, n);
		err = t.copy(t.device(0), t.a, n);
		if (!err)
			err = t.copy(t.b, t.device(0), n);
		if (!err)
			err = t.sync();
		if (!err && memcmp(t.a, t.b, n))
			err = fail(EIO, "the data differ within bytes %llu to %llu",
				   static_cast<unsigned long long>(total), static_cast<unsigned long long>(total + n));
		out.write(static_cast<char *>(t.b), std::streamsize(n));
		total += n;
	}
	out.close();
	j["bytes"] = total;
	j["ok"] = !err && out && in.eof();
	if (!j["ok"])
		j["error"] = err ? error_text() : "reading or writing a file failed";
	return j;
}

static void print_step(const json &j)
{
	print_line(fmt::format("  {:<18} {:>10} bytes  {}", j["name"].get<std::string>(), j["bytes"].get<u64>(),
			       j["ok"] ? "ok" : "FAILED: " + j.value("error", "")));
}

int run_selftest(const context &ctx, const selftest_options &opt)
{
	std::mt19937_64 gen(std::random_device{}());
	json list = json::array();
	bool ok = true;
	bench t;

	/* Overrides the settings: this process has one device. */
	if (setenv("USDMA_DEVICES", opt.device.c_str(), 1))
		return report_error(ctx, fail_errno("USDMA_DEVICES"));
	if (int err = t.open(opt.size); err < 0)
		return report_error(ctx, err);
	if (!ctx.json)
		print_line(fmt::format("{} ({} over {})", opt.device, t.dev()->eng->driver_name(),
				       t.dev()->eng->transport().backend()));
	for (const step &s : steps)
		list.push_back(run_step(t, s, gen));
	if (!opt.file.empty())
		list.push_back(run_file(t, opt));
	for (const json &j : list) {
		ok &= j["ok"].get<bool>();
		if (!ctx.json)
			print_step(j);
	}
	if (ctx.json)
		print_json({{"device", opt.device},
			    {"engine", t.dev()->eng->driver_name()},
			    {"transport", t.dev()->eng->transport().backend()},
			    {"ok", ok},
			    {"steps", list}});
	return ok ? exit_ok : exit_failed;
}

} // namespace usdma::ctl
