/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The driver's part of a copy, whose instructions tests/bench/instructions counts: bench-engines ENGINE N makes N
 * copies on an idle channel within measured(), from the call to the store of the doorbell. A message replaces it
 * for dsa, as callgrind does not know MOVDIR64B; sdma's doorbell is memory anyway. The copied data is checked.
 *
 * bench-engines table: descriptors that the model runs for a copy, over lists of 1 to 60 copies of random lengths, and
 * writes to doorbells for a list of 1, 8 and 60. They do not depend on the machine.
 */
#include "tests/unit/dma/mapped_device.h"

#include "driver/base/clock.h"
#include "driver/base/error.h"
#include "driver/dma/registry.h"
#include "driver/hw/hisi_regs.h"
#include "driver/hw/ioat_regs.h"

#include <cstdio>
#include <cstdlib>
#include <sched.h>
#include <string_view>

using namespace usdma;

static constexpr u64 host = 0x40000000000, host_bytes = MiB, size = 64, patience_ms = 60000;

static constexpr test::doorbell_register ioat_doorbells[] = {
	{vfio::region_bar0, ioat::chan_base(0) + ioat::chan_dmacount, 2}};
static constexpr test::doorbell_register hisi_doorbells[] = {
	{vfio::region_bar2, hisi::hip09.queue_base + hisi::q_cq_head, 4},
	{vfio::region_bar2, hisi::hip09.queue_base + hisi::q_sq_tail, 4}};

static constexpr struct kind {
	std::string_view name;
	const char *spec;
	std::span<const test::doorbell_register> doorbells;
} kinds[] = {
	{"sdma", "sim:mem=16M:engines=1:channels=1:spin=10000000", {}},
	{"ioat", "sim:model=ioat", ioat_doorbells},
	{"dsa", "sim:model=dsa", {}},
	{"hisi", "sim:model=hisi-hip09", hisi_doorbells},
};

static void need(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "%s: %s\n", what, error_text());
	exit(1);
}

struct rig {
	explicit rig(const kind &k)
	{
		std::unique_ptr<vfio::device> dev;

		need(!dma::open_device(k.spec, &dev), k.spec);
		if (k.name != "sdma") {
			auto made = std::make_unique<test::mapped_device>(std::move(dev), k.doorbells);

			mapped = made.get();
			dev = std::move(made);
		}
		open(std::move(dev), k.spec);
	}
	rig(std::unique_ptr<vfio::device> dev, const char *what) { open(std::move(dev), what); }
	void open(std::unique_ptr<vfio::device> dev, const char *what)
	{
		need(!dma::probe(std::move(dev), &eng), what);
		void *p = mmap(nullptr, host_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		need(p != MAP_FAILED, "mmap");
		memory = mapping(p, host_bytes);
		need(!eng->map({.iova = host, .size = host_bytes, .vaddr = p}), "map");
		need(!eng->channel_open(0, {.ring_size = 256}, &ch), "channel_open");
	}
	~rig() { ch->ops->close(ch); }
	void wait()
	{
		for (const deadline until = deadline::in_ms(patience_ms); dma::completed(ch) != ch->posted;
		     sched_yield()) {
			need(!until.passed() && !dma::halted(ch), "a copy");
			if (mapped)
				mapped->forward();
		}
	}

	test::mapped_device *mapped = nullptr;
	std::unique_ptr<dma::engine> eng;
	mapping memory;
	dma::channel *ch = nullptr;
};

/* Only what is to be measured may be in here. */
extern "C" __attribute__((noinline)) void measured(dma::channel *ch, u64 src, u64 dst)
{
	if (ch->ops->submit_copy) {
		ch->ops->submit_copy(ch, 0, src, dst, size, 0);
		return;
	}
	dma::request r;

	dma::set_copy(&r, 0, src, dst, size, 0);
	ch->ops->post(ch, &r, 1);
	ch->ops->doorbell(ch);
}

/* ---- the table --------------------------------------------------------------------------------------- */

/* Counts what the driver writes to doorbells, which are not mapped; dsa's are all of BAR2. */
class counting_device final : public test::forwarding_device {
public:
	counting_device(std::unique_ptr<vfio::device> below, std::span<const test::doorbell_register> doorbells)
		: forwarding_device(std::move(below)), doorbells_(doorbells)
	{
	}
	int region_write(unsigned i, u64 at, const void *buf, size_t len) override
	{
		bool rings = doorbells_.empty() && i == vfio::region_bar2;

		if (!doorbells_.empty())
			rings = i == doorbells_.back().region && at == doorbells_.back().at;
		rung += rings;
		return dev_->region_write(i, at, buf, len);
	}

	u64 rung = 0;

private:
	std::span<const test::doorbell_register> doorbells_;
};

static void copy_list(dma::channel *ch, unsigned n, unsigned most)
{
	dma::request list[60];

	for (unsigned i = 0; i < n; i++)
		dma::set_copy(&list[i], 0, host, host + host_bytes / 2, 1 + unsigned(rand()) % most, 0);
	need(ch->ops->post(ch, list, n) == n, "post");
	ch->ops->doorbell(ch);
	for (const deadline until = deadline::in_ms(patience_ms); dma::completed(ch) != ch->posted; sched_yield())
		need(!until.passed() && !dma::halted(ch), "a list");
}

static void print_row(const kind &k)
{
	static constexpr unsigned rounds = 100, lengths[] = {1, 8, 60};
	std::unique_ptr<vfio::device> dev;
	std::string seen;
	u64 copies = 0;

	need(!dma::open_device(std::string(k.spec) + ":faults=", &dev), k.spec);
	auto made = std::make_unique<counting_device>(std::move(dev), k.doorbells);
	counting_device *const bus = made.get();
	rig r(std::move(made), k.spec);
	need(!bus->inject("fail@1000000000"), "inject");
	for (unsigned i = 0; i < rounds; i++) {
		const unsigned n = 1 + unsigned(rand()) % 60;

		copy_list(r.ch, n, 8000);
		copies += n;
	}
	need(!bus->injected(&seen), "injected");
	printf("%-6s %11.3f", k.name.data(),
	       double(strtoull(seen.c_str() + seen.find("seen ") + 5, nullptr, 10)) / double(copies));
	for (const unsigned n : lengths) {
		const u64 before = bus->rung;

		for (unsigned i = 0; i < rounds; i++)
			copy_list(r.ch, n, 8000);
		printf(" %8.2f", double(bus->rung - before) / rounds);
	}
	printf("\n");
}

static int print_table()
{
	printf("engine descriptors   doorbells of a list of\n          of a copy        1        8       60\n");
	for (const kind &k : kinds)
		if (k.name != "sdma")
			print_row(k);
	return 0;
}

int main(int argc, char **argv)
{
	const kind *found = nullptr;

	if (argc == 2 && !strcmp(argv[1], "table"))
		return print_table();

	for (const kind &k : kinds)
		if (argc == 3 && k.name == argv[1])
			found = &k;
	if (!found) {
		fprintf(stderr, "usage: bench-engines sdma|ioat|dsa|hisi COPIES, or bench-engines table\n");
		return 2;
	}
	rig r(*found);
	for (int n = atoi(argv[2]); n > 0; n--) {
		memset(r.memory.data(), n, size);
		if (r.ch->posted == r.ch->post_limit) {
			const dma::request nop = {};

			need(r.ch->ops->post(r.ch, &nop, 1) == 1, "post");
			r.ch->ops->doorbell(r.ch);
			r.wait();
		}
		measured(r.ch, host, host + host_bytes / 2);
		r.wait();
		need(!memcmp(r.memory.data(), r.memory.data() + host_bytes / 2, size), "what was copied");
	}
	return 0;
}
