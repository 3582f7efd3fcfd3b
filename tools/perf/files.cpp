/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files: weights of a model into device memory, and blocks of a key/value cache to a file and back. Each beside what a
 * program does without <usdma/file.h>: pread or pwrite, and copies. Every row's bytes are compared once.
 */
#include "driver/base/unique_fd.h"
#include "driver/copy/copy.h"
#include "tools/perf/api.h"
#include "tools/perf/clock.h"
#include "tools/perf/cpu_use.h"
#include "tools/perf/kv_layout.h"
#include "tools/perf/options.h"
#include "tools/perf/report.h"
#include "usdma/file.h"

#include <nlohmann/json.hpp>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <fmt/core.h>
#include <functional>
#include <iterator>
#include <random>
#include <sys/mman.h>
#include <unistd.h>

namespace usdma::perf {

namespace {

void must_call(bool ok, const char *what, const std::string &name)
{
	if (!ok)
		throw std::runtime_error(fmt::format("{} {}: {}", what, name, strerror(errno)));
}

/* The file that is named, or one without a name, with random content. */
struct bench_file {
	bench_file(usdma_device *dev, const std::string &folder, size_t bytes, const std::string &path = "")
		: size(bytes)
	{
		if (path.empty()) {
			make(folder);
		} else {
			fd.reset(open(path.c_str(), O_RDONLY | O_CLOEXEC));
			must_call(fd.valid(), "opening", path);
		}
		must(usdma_file_import(dev, fd.get(), USDMA_FILE_AUTO, &file), "importing a file");
	}
	~bench_file() { usdma_file_close(file); }
	bench_file(const bench_file &) = delete;

	void make(const std::string &folder)
	{
		std::mt19937_64 gen(std::random_device{}());
		std::vector<u64> data(MiB / sizeof(u64));

		fd.reset(open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
		must_call(fd.valid(), "a file in", folder);
		for (size_t at = 0; at < size; at += MiB) {
			const size_t n = std::min(size - at, size_t(MiB));

			std::generate(data.begin(), data.end(), std::ref(gen));
			must_call(pwrite(fd.get(), data.data(), n, off_t(at)) == ssize_t(n), "writing a file in",
				  folder);
		}
		must_call(fsync(fd.get()) == 0, "writing a file in", folder);
	}
	void evict() const { posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED); }
	/* So that it is in the page cache, and the memory exists. */
	void read_all(u8 *to, size_t from = 0, size_t n = SIZE_MAX) const
	{
		for (size_t end = from + std::min(n, size - from); from < end;) {
			const ssize_t got = pread(fd.get(), to, end - from, off_t(from));

			must_call(got > 0, "reading", "the file");
			to += got;
			from += size_t(got);
		}
	}

	unique_fd fd;
	size_t size;
	usdma_file *file = nullptr;
};

struct device_memory {
	device_memory(usdma_device *dev, size_t bytes)
	{
		void *p;

		must(usdma_device_alloc(dev, bytes, &p), "device memory (reduce --file-size or --tokens)");
		at = static_cast<u8 *>(p);
	}
	~device_memory() { usdma_device_free(at); }
	device_memory(const device_memory &) = delete;

	u8 *at;
};

struct row {
	std::string what, cache;
	double ms, gbps, ratio; /* to the first row of its kind */
	double cpu_ms;          /* of the process */
};

/* One method to move the bytes. */
struct variant {
	const char *what;
	std::function<void()> run;
	bool checked = true; /* it leaves them where they are compared */
};

class rounds {
public:
	rounds(const options &o, size_t bytes) : o_(o), bytes_(bytes) {}
	/* The variants take turns, so that a disturbed time is not one of them only. */
	void measure(const std::string &cache, const std::vector<variant> &variants,
		     const std::function<void()> &before, const std::function<void()> &check)
	{
		std::vector<std::vector<double>> ns(variants.size()), cpu(variants.size());

		for (unsigned r = 0; r <= o_.repeats && !stopped(); r++)
			for (size_t i = 0; i < variants.size() && !stopped(); i++) {
				progress(o_, fmt::format("{} {}", variants[i].what, r));
				before();
				const u64 cpu_start = process_cpu_ns(), start = now_ns();
				variants[i].run();
				if (r) { /* the first one warms up */
					ns[i].push_back(double(now_ns() - start));
					cpu[i].push_back(double(process_cpu_ns() - cpu_start));
				} else if (variants[i].checked) {
					check();
				}
			}
		for (size_t i = 0; i < variants.size() && !ns[i].empty() && !ns[0].empty(); i++)
			rows.push_back({variants[i].what, cache, median(ns[i]) / 1e6, double(bytes_) / median(ns[i]),
					median(ns[0]) / median(ns[i]), median(cpu[i]) / 1e6});
		progress(o_, "");
	}

	std::vector<row> rows;

private:
	const options &o_;
	size_t bytes_;
};

void print_rows(const std::vector<row> &all)
{
	say(fmt::format("{:36} {:9} {:>9} {:>7} {:>9} {:>9}\n", "", "", "ms", "GB/s", "to first", "CPU ms"));
	for (const row &r : all)
		say(fmt::format("{:36} {:9} {:9.2f} {:7.2f} {:9.2f} {:9.2f}\n", r.what, r.cache, r.ms, r.gbps, r.ratio,
				r.cpu_ms));
}

int leave(const options &o, const machine &m, const char *key, const std::vector<row> &all)
{
	nlohmann::json rows = nlohmann::json::array();

	for (const row &r : all)
		rows.push_back({{"method", r.what},
				{"state", r.cache},
				{"ms", r.ms},
				{"gbps", r.gbps},
				{"ratio_to_first", r.ratio},
				{"cpu_ms", r.cpu_ms}});
	if (o.json != "-")
		print_rows(all);
	write_json(o.json, {{"machine", to_json(m)}, {"interrupted", stopped()}, {key, rows}});
	return 0;
}

/* ---- weights ------------------------------------------------------------------------------------------- */

/* The shortest of three times: the first one meets new memory. */
double copy_ns(copy_fn copy, u8 *dst, const u8 *src, size_t n)
{
	double best = HUGE_VAL;

	for (unsigned i = 0; i < 3; i++) {
		const u64 start = now_ns();

		copy(dst, src, n);
		best = std::min(best, double(now_ns() - start));
	}
	return best;
}

void libc_memcpy(void *dst, const void *src, size_t n)
{
	memcpy(dst, src, n);
}

/* The best of memcpy and the library's routines, with this memory. */
copy_fn fastest_copy(u8 *dst, const u8 *src, size_t n)
{
	std::vector<copy_fn> all = {libc_memcpy, copy_for_cpu().medium};
	std::vector<double> ns;

	for (const auto &routines : {stream_routines(), fetch_routines()})
		std::ranges::transform(routines, std::back_inserter(all), &copy_routine::copy);
	std::ranges::transform(all, std::back_inserter(ns), [&](copy_fn copy) { return copy_ns(copy, dst, src, n); });
	return all[size_t(std::ranges::min_element(ns) - ns.begin())];
}

/* As in a model: most bytes in a few large tensors, most tensors small. In order, without gaps. */
std::vector<usdma_file_item> tensors(const bench_file &f, u8 *mem)
{
	static constexpr size_t sizes[] = {8 * KiB, 32 * MiB, 8 * KiB, 12 * MiB, 512, 12 * MiB, 512, 4 * MiB + 512};
	std::vector<usdma_file_item> items;

	for (size_t at = 0, i = 0; at < f.size; i++) {
		const size_t n = std::min(f.size - at, sizes[i % std::size(sizes)]);

		items.push_back({f.file, mem + at, at, n, nullptr, nullptr, USDMA_FILE_READ, 0});
		at += n;
	}
	return items;
}

struct weights {
	weights(usdma_device *d, const options &o)
		: dev(d), to(d, o.file_size), f(d, o.folder, o.file_size, o.file), items(tensors(f, to.at)),
		  plain(o.file_size), second(o.file_size), copy(fastest_copy(second.data(), plain.data(), plain.size()))
	{
		must(usdma_stream_create(dev, nullptr, &s), "stream");
		f.read_all(plain.data());
	}
	~weights() { usdma_stream_destroy(s); }
	weights(const weights &) = delete;

	void wait() const { must(usdma_stream_sync(s, -1), "reading a file"); }
	/* What one thread can reach. */
	std::vector<variant> from_cache()
	{
		std::vector<variant> all = variants();

		all.push_back({"a copy in memory, by one thread", [this] { copy(second.data(), plain.data(), f.size); },
			       false});
		return all;
	}
	std::vector<variant> variants()
	{
		return {{"pread into pageable memory", [this] { f.read_all(plain.data()); }, false},
			{"pread, and a copy to the device",
			 [this] {
				 f.read_all(plain.data());
				 must(usdma_copy_sync(dev, to.at, plain.data(), f.size, -1), "copy");
			 }},
			{"mmap, and a copy to the device", [this] { copy_mapped(); }},
			{"usdma_file_read_sync",
			 [this] { must(usdma_file_read_sync(to.at, f.file, 0, f.size, nullptr, -1), "reading"); }},
			{"usdma_file_read",
			 [this] {
				 must(usdma_file_read(s, to.at, f.file, 0, f.size, nullptr), "reading");
				 wait();
			 }},
			{"usdma_file_batch of tensors", [this] {
				 must(usdma_file_batch(s, items.data(), items.size(), nullptr), "reading");
				 wait();
			 }}};
	}
	void copy_mapped() const
	{
		void *const p = mmap(nullptr, f.size, PROT_READ, MAP_PRIVATE, f.fd.get(), 0);

		must_call(p != MAP_FAILED, "mapping", "the file");
		must(usdma_copy_sync(dev, to.at, p, f.size, -1), "copy");
		munmap(p, f.size);
	}
	void check() const
	{
		std::vector<u8> back(f.size), want(f.size);

		must(usdma_copy_sync(dev, back.data(), to.at, f.size, -1), "reading back");
		f.read_all(want.data());
		if (back != want)
			throw std::runtime_error("the device's memory differs from the file");
		must(usdma_fill_sync(dev, to.at, 0, 8, f.size & ~size_t(7), -1), "fill");
	}

	usdma_device *dev;
	device_memory to;
	bench_file f;
	std::vector<usdma_file_item> items;
	std::vector<u8> plain, second;
	copy_fn copy;
	usdma_stream *s = nullptr;
};

/* ---- blocks of a key/value cache --------------------------------------------------------------------------- */

struct kv_file {
	kv_file(usdma_device *d, const options &o)
		: dev(d), l(layout_of(o.kv)), f(d, o.folder, l.request_bytes()), pool(d, l.total())
	{
		std::mt19937_64 gen(std::random_device{}());
		const std::vector<unsigned> table = random_table(l, gen);
		void *p;

		must(usdma_stream_create(dev, nullptr, &s), "stream");
		must(usdma_host_alloc(dev, l.request_bytes(), &p), "host memory (reduce --tokens)");
		host = static_cast<u8 *>(p);
		for (unsigned layer = 0; layer < l.layers; layer++)
			for (unsigned part = 0; part < 2; part++)
				for (unsigned b : table)
					add(pool.at + l.at(layer, part, b), gen());
	}
	~kv_file()
	{
		usdma_stream_destroy(s);
		usdma_host_free(host);
	}
	kv_file(const kv_file &) = delete;

	void add(u8 *block, u64 content)
	{
		const size_t at = items.size() * l.block;

		must(usdma_fill_sync(dev, block, u8(content), 1, l.block, -1), "fill");
		items.push_back({f.file, block, at, l.block, nullptr, nullptr, USDMA_FILE_READ, 0});
		in.push_back({block, host + at, l.block});
		out.push_back({host + at, block, l.block});
	}
	void wait() const { must(usdma_stream_sync(s, -1), "a file and copies"); }
	void batch(uint32_t kind)
	{
		for (usdma_file_item &i : items)
			i.kind = kind;
		must(usdma_file_batch(s, items.data(), items.size(), nullptr), "file");
		wait();
	}
	std::vector<variant> writes()
	{
		return {{"copies to pinned memory, and pwrite",
			 [this] {
				 must(usdma_copy_batch(s, out.data(), out.size(), nullptr), "copies");
				 wait();
				 for (size_t at = 0; at < f.size;) {
					 const ssize_t n = pwrite(f.fd.get(), host + at, f.size - at, off_t(at));

					 must_call(n > 0, "writing", "the file");
					 at += size_t(n);
				 }
			 }},
			{"usdma_file_batch of blocks", [this] { batch(USDMA_FILE_WRITE); }}};
	}
	std::vector<variant> reads()
	{
		return {{"pread, and copies from pinned memory",
			 [this] {
				 f.read_all(host);
				 must(usdma_copy_batch(s, in.data(), in.size(), nullptr), "copies");
				 wait();
			 }},
			{"usdma_file_batch of blocks", [this] { batch(USDMA_FILE_READ); }}};
	}
	/* The blocks are those of the file; other content from here on. */
	void check()
	{
		std::vector<u8> block(l.block), want(l.block);
		std::mt19937_64 gen(std::random_device{}());

		for (const usdma_file_item &i : items) {
			must(usdma_copy_sync(dev, block.data(), i.mem, l.block, -1), "reading back");
			f.read_all(want.data(), i.offset, l.block);
			if (block != want)
				throw std::runtime_error(
					fmt::format("block {} differs from the file", i.offset / l.block));
			if (gen() % 16 == 0)
				must(usdma_fill_sync(dev, i.mem, u8(gen()), 1, l.block, -1), "fill");
		}
	}

	usdma_device *dev;
	kv_layout l;
	bench_file f;
	device_memory pool;
	u8 *host = nullptr;
	std::vector<usdma_file_item> items;
	std::vector<usdma_copy_item> in, out;
	usdma_stream *s = nullptr;
};

} // namespace

int run_weights(const options &o, const machine &m)
{
	const bench_device dev(0, 4 * MiB);
	weights w(dev.dev, o);
	rounds all(o, w.f.size);

	if (o.json != "-")
		say(describe(m) + fmt::format("weights: a file of {}, {}, {} tensors\n\n", size_text(w.f.size),
					      o.file.empty() ? o.folder : o.file, w.items.size()));
	all.measure(
		"cached", w.from_cache(), [] {}, [&] { w.check(); });
	all.measure(
		"on disk", w.variants(), [&] { w.f.evict(); }, [&] { w.check(); });
	return leave(o, m, "weights", all.rows);
}

int run_kv_file(const options &o, const machine &m)
{
	const bench_device dev(0, 4 * MiB);
	kv_file k(dev.dev, o);
	rounds all(o, k.f.size);

	if (o.json != "-")
		say(describe(m) +
		    fmt::format("kv-file {}: a request of {} tokens is {} blocks of {} bytes, {} MiB, in {}\n\n",
				o.kv.model, o.kv.tokens, k.items.size(), k.l.block, k.f.size >> 20, o.folder));
	all.measure(
		"swap out", k.writes(), [] {}, [&] { k.check(); });
	all.measure(
		"swap in", k.reads(), [] {}, [&] { k.check(); });
	return leave(o, m, "kv_file", all.rows);
}

} // namespace usdma::perf
