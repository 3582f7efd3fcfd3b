/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/sim/rig.h"

#include "driver/base/error.h"
#include "driver/sim/backend.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

namespace usdma::test {

using namespace sdma;

static void must(int err, const char *what)
{
	if (err)
		print_error("%s: %d: %s\n", what, err, error_text());
	assert_int_equal(err, 0);
}

sim::config rig::small()
{
	sim::config c;

	c.mem = 8 * MiB;
	c.channels = 8;
	c.spin_us = 20;
	return c;
}

static bool all_by_messages()
{
	const char *value = getenv("USDMA_TEST_REACH");

	return value && !strcmp(value, "far");
}

/* One for all models of the test, as in usdma-sim; not for one with a speed or faults of its own. */
static sim::backend_client *device_behind(const sim::config &cfg, const sim::faults *injected)
{
	static std::unique_ptr<sim::backend> device;
	static std::unique_ptr<sim::backend_client> client;
	const char *const name = getenv("USDMA_TEST_BEHIND");

	if (injected || cfg.rate || cfg.latency_us || cfg.timing != timing_kind::plain)
		return nullptr;
	if (name && !device) {
		must(sim::backend::open(name, 10000, &device), "a device behind the model");
		client = std::make_unique<sim::backend_client>(*device);
		must(client->enter(geteuid(), 1), "its client");
	}
	return client.get();
}

static reach reach_of(reach given, bool files)
{
	if (given != reach::shared)
		return given;
	return all_by_messages() ? reach::messages : files ? reach::file : given;
}

rig::rig(const sim::config &settings, reach h, sim::faults *injected)
	: remote_rings(all_by_messages()), how(reach_of(h, device_behind(settings, injected)))
{
	sim::config cfg = settings;
	vfio::user_options opt;
	int pair[2];

	cfg.device = device_behind(settings, injected);
	behind = cfg.device;
	model = std::make_unique<sim::sdma_model>(cfg, injected);
	must(model->start(), "start");
	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), "socketpair");
	link = std::make_unique<sim::server>(unique_fd(pair[0]), *model);
	thread = std::thread([this] {
		link->serve(-1);
		model.reset();
	});
	if (how == reach::shared) {
		opt.share_local = [](void *arg, u64 iova, void *vaddr, u64 size) {
			static_cast<sim::sdma_model *>(arg)->share(iova, vaddr, size);
			return 0;
		};
		opt.share_arg = model.get();
	}
	must(vfio::user_attach(unique_fd(pair[1]), opt, &dev), "attach");
	must(vfio::config_bus_master(*dev, true), "bus master");
	write32(reg_ctrl, ctrl_enable);
	write64(reg_mem_base, mem_base);
	mem_size = read64(reg_mem_size);
	if (mem_size)
		must(dev->region_map(vfio::region_bar2, 0, mem_size, &memory_), "BAR2");
}

rig::~rig()
{
	dev.reset();
	thread.join();
	link.reset();
}

static host_area make_area(rig &r, u64 iova, u64 size, u32 prot, bool file)
{
	host_area a;
	vfio::dma_area d;

	a.iova = iova;
	a.size = size;
	if (file) {
		a.fd.reset(memfd_create("host", MFD_CLOEXEC));
		must(ftruncate(a.fd.get(), off_t(size)), "ftruncate");
	}
	void *p = mmap(nullptr, size, PROT_READ | PROT_WRITE, file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS,
		       a.fd.get(), 0);
	assert_true(p != MAP_FAILED);
	a.map = mapping(p, size);
	a.data = a.map.data();
	d.iova = iova;
	d.size = size;
	d.vaddr = p;
	d.prot = prot;
	d.fd = a.fd.get();
	must(r.dev->dma_map(d), "dma_map");
	return a;
}

host_area rig::make(u64 iova, u64 size, u32 prot)
{
	return make_area(*this, iova, size, prot, how == reach::file);
}

host_area rig::make_ring_area(u64 iova, u64 size)
{
	return make_area(*this, iova, size, vfio::dma_read | vfio::dma_write, how != reach::shared && !remote_rings);
}

void rig::drop(host_area &a)
{
	must(dev->dma_unmap(a.iova, a.size), "dma_unmap");
	a.map = mapping();
}

u32 rig::read32(u64 offset)
{
	u32 v = 0;

	must(dev->region_read(vfio::region_bar0, offset, &v, sizeof(v)), "read32");
	return v;
}

u64 rig::read64(u64 offset)
{
	u64 v = 0;

	must(dev->region_read(vfio::region_bar0, offset, &v, sizeof(v)), "read64");
	return v;
}

void rig::write32(u64 offset, u32 v)
{
	must(dev->region_write(vfio::region_bar0, offset, &v, sizeof(v)), "write32");
}

void rig::write64(u64 offset, u64 v)
{
	must(dev->region_write(vfio::region_bar0, offset, &v, sizeof(v)), "write64");
}

chan::chan(rig &rg, u32 i, u32 order, u64 first_seq, u32 coalesce)
	: r(rg), index(i), size(u64(1) << order), posted(first_seq)
{
	const u64 page = chan_ctrl(i), bytes = align_up(4096 + size * sizeof(descriptor), u64(4096));
	int fds[2];

	area = r.make_ring_area(0x70000000 + i * 0x1000000, bytes);
	status = reinterpret_cast<status_block *>(area.data);
	ring = reinterpret_cast<descriptor *>(area.data + 4096);
	for (u64 k = 0; k < size; k++)
		ring[k].tag = u32(k ^ 1);
	for (unsigned s = 0; s < 2; s++) {
		irq[s].reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
		fds[s] = irq[s].get();
	}
	must(r.dev->irq_set(vfio::irq_msix, 2 * i, fds), "irq_set");
	r.write64(page + chan_ring_base, area.iova + 4096);
	r.write32(page + chan_ring_order, order);
	r.write32(page + chan_vectors, 2 * i | (2 * i + 1) << 16);
	r.write64(page + chan_record, area.iova);
	r.write64(page + chan_first_seq, first_seq);
	r.write32(page + chan_coalesce, coalesce);
	must(r.dev->region_map(vfio::region_bar0, chan_doorbell(i), chan_stride, &doorbell), "doorbell");
	command(chan_cmd_enable);
	assert_int_equal(state(), chan_state_running);
}

chan::~chan()
{
	command(chan_cmd_disable);
	r.drop(area);
}

u64 chan::put(descriptor d)
{
	descriptor *slot = &ring[++posted & (size - 1)];

	memcpy(reinterpret_cast<u8 *>(slot) + 4, reinterpret_cast<u8 *>(&d) + 4, sizeof(d) - 4);
	store_release(&slot->tag, u32(posted));
	return posted;
}

void chan::wake()
{
	if (load_acquire(&status->asleep))
		eventfd_write(r.dev->region_doorbell_fd(vfio::region_bar0, chan_ctrl(index) + chan_wake), 1);
}

void chan::ring_doorbell()
{
	store_fence(reinterpret_cast<u64 *>(doorbell.data() + doorbell_tail), posted);
	wake();
}

void chan::wait_command(u32 cmd)
{
	const deadline until = deadline::in_ms(wait_ms);

	if (cmd == chan_cmd_disable)
		while (state() == chan_state_stopping)
			assert_false(until.passed());
	while (cmd == chan_cmd_stop && state() == chan_state_running)
		assert_false(until.passed());
	while ((cmd == chan_cmd_stop || cmd == chan_cmd_resume) &&
	       (state() == chan_state_running || state() == chan_state_halted) &&
	       (state() == chan_state_halted) != (load_acquire(&status->record.state) == dma::state_halted))
		assert_false(until.passed());
}

void chan::arm(unsigned slot, u64 seq)
{
	store_fence(reinterpret_cast<u64 *>(doorbell.data() + doorbell_arm + slot * 64), seq);
}

bool chan::done(u64 seq)
{
	const deadline until = deadline::in_ms(wait_ms);

	for (unsigned step = 0; completed() < seq; step++) {
		if (until.passed() || load_acquire(&status->record.state) == dma::state_halted)
			return false;
		poll_pause(step);
	}
	return true;
}

bool chan::halted()
{
	const deadline until = deadline::in_ms(wait_ms);

	for (unsigned step = 0; load_acquire(&status->record.state) != dma::state_halted; step++) {
		if (until.passed())
			return false;
		poll_pause(step);
	}
	return true;
}

fault_reason chan::run(descriptor d)
{
	d.cookie = posted * 77;
	const u64 seq = put_ready(d);

	if (done(seq))
		return fault_reason::none;
	assert_true(halted());
	assert_int_equal(status->record.fault_seq, seq);
	assert_int_equal(completed(), seq - 1);
	const auto reason = fault_reason(status->record.reason);
	if (reason != fault_reason::bad_tag && reason != fault_reason::stopped)
		assert_int_equal(status->record.fault_cookie, d.cookie);
	command(chan_cmd_resume);
	assert_int_equal(load_acquire(&status->record.state), dma::state_running);
	return reason;
}

descriptor make_copy(space from, u64 src, space to, u64 dst, u64 len)
{
	descriptor d = {};

	d.op = u8(opcode::copy);
	d.spaces = dma::spaces(from, to);
	d.src = src;
	d.dst = dst;
	d.len = len;
	return d;
}

u64 take_irq(int fd, int ms)
{
	pollfd p = {fd, POLLIN, 0};
	u64 n = 0;

	if (poll(&p, 1, ms) == 1 && read(fd, &n, sizeof(n)) != sizeof(n))
		return 0;
	return n;
}

} // namespace usdma::test
