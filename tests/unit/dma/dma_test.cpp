/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests' faults, device strings, and the driver of an id. */
#include "tests/support/test.h"

#include "driver/base/error.h"
#include "driver/dma/own_memory.h"
#include "driver/dma/registry.h"

#include <cerrno>
#include <cstring>
#include <set>
#include <tuple>

using namespace usdma;
using namespace usdma::dma;

static void fault_texts(void **)
{
	std::set<std::string> names;

	for (u32 r = 0; r < u32(fault_reason::count); r++)
		names.insert(fault_name(fault_reason(r)));
	assert_int_equal(names.size(), u32(fault_reason::count)); /* all differ */
	assert_string_equal(fault_name(fault_reason::count), "unknown fault");
	assert_string_equal(fault_name(fault_reason(~0u)), "unknown fault");
}

static void fault_errnos(void **)
{
	using enum fault_reason;
	static const struct {
		fault_reason reason;
		int err;
	} want[] = {
		{none, 0},
		{bad_op, EINVAL},
		{bad_length, EINVAL},
		{unaligned, EINVAL},
		{src_unmapped, EFAULT},
		{dst_unmapped, EFAULT},
		{src_denied, EFAULT},
		{dst_denied, EFAULT},
		{timeout, ETIME},
		{bad_tag, EIO},
		{transfer, EIO},
		{injected, EIO},
		{stopped, ECANCELED},
		{lost, ENODEV},
		{reset, EIO},
		{fault_reason::count, EIO},
	};

	for (const auto &w : want)
		assert_int_equal(fault_errno(w.reason), w.err);
	assert_int_equal(fault_errno(fault_reason(12345)), EIO);
}

static void reads_faults(void **)
{
	static constexpr channel_ops ops = {};
	completion_record rec = {};
	channel ch = {};
	fault f = {};

	ch.ops = &ops;
	ch.record = &rec;
	assert_false(read_fault(&ch, &f));
	rec.reason = u32(fault_reason::src_unmapped);
	rec.fault_seq = 77;
	rec.fault_address = 0x1000;
	rec.fault_cookie = 5;
	rec.state = state_halted;
	assert_true(read_fault(&ch, &f));
	assert_int_equal(f.seq, 77);
	assert_int_equal(f.reason, fault_reason::src_unmapped);
	assert_int_equal(f.address, 0x1000);
	assert_int_equal(f.cookie, 5);
	assert_true(halted(&ch));
}

static bool accesses(const request &r)
{
	return may_access(r, {0x10000, 0x1000});
}

/* Only the second row is in the range. */
static request rows(u32 height, u64 pitch)
{
	return {.op = opcode::copy_2d, .height = height, .src = 0x8000, .dst = 0x20000, .len = 8, .a = pitch};
}

/* Each operation with its operands in and beside the range; device addresses are no host memory. */
static void accesses_of_requests(void **)
{
	static constexpr u64 in = 0x10800, out = 0x20000;
	const u8 host = spaces(space::host, space::host);

	for (opcode op : {opcode::copy, opcode::reduce})
		for (u64 at : {in, u64(0xff81), u64(0x10fff), u64(0x11000), u64(0xff80)}) {
			const bool meets = at != 0x11000 && at != 0xff80;

			assert_int_equal(accesses({.op = op, .spaces = host, .src = at, .dst = out, .len = 0x80}),
					 meets);
			assert_int_equal(accesses({.op = op, .spaces = host, .src = out, .dst = at, .len = 0x80}),
					 meets);
			assert_false(accesses({.op = op, .spaces = 0x11, .src = at, .dst = at, .len = 0x80}));
		}
	assert_false(accesses({.op = opcode::nop, .spaces = host, .src = in, .dst = in, .len = 8}));
	assert_true(accesses({.op = opcode::fill, .spaces = host, .dst = in, .len = 8}));
	assert_false(accesses({.op = opcode::fill, .spaces = host, .src = in, .dst = out, .len = 8}));
	for (opcode op : {opcode::write, opcode::timestamp}) {
		assert_true(accesses({.op = op, .spaces = host, .dst = in}));
		assert_false(accesses({.op = op, .spaces = host, .src = in, .dst = out}));
	}
	assert_true(accesses({.op = opcode::wait, .spaces = host, .src = in}));
	assert_false(accesses({.op = opcode::wait, .spaces = host, .src = out, .dst = in}));
	assert_true(accesses(rows(2, 0x8000)));
	assert_false(accesses(rows(1, 0x8000)));
	assert_true(accesses(rows(9, ~u64(0))));
	/* What is read when it runs may be host memory, or not. */
	assert_true(accesses({.op = opcode::copy_indirect, .spaces = 0x11, .arg = indirect_host, .src = out}));
	assert_false(accesses({.op = opcode::copy_indirect, .spaces = host, .src = out, .dst = in}));
	assert_true(accesses({.op = opcode::copy_indirect, .spaces = host, .src = in}));
	assert_true(accesses(
		{.op = opcode::copy_indirect, .spaces = host, .arg = u8(indirect_mode::cells), .src = out, .dst = in}));
	assert_true(accesses({.op = opcode::op_count}));
}

static void schemes(void **)
{
	static const struct {
		const char *spec, *scheme;
	} good[] = {
		{"sim", "sim"},
		{"sim:mem=1G:engines=2", "sim"},
		{"vfio-user:/run/x:y.sock", "vfio-user"},
		{"vfio-user:rel", "vfio-user"},
		{"vfio-user:/run/x:y.sock:trust=no", "vfio-user"},
		{"vfio-user:rel:trust=yes", "vfio-user"},
		{"vfio-user:rel:trust=checked", "vfio-user"},
		{"vfio-user:rel:isolated=yes", "vfio-user"},
		{"vfio-user:rel:isolated=no:trust=no", "vfio-user"},
		{"vfio-user:rel:trust=no:isolated=yes", "vfio-user"},
		{"sim:isolated=yes", "sim"},
		{"sim:mem=1G:isolated=yes", "sim"},
		{"0000:00:04.0:isolated=yes", "pci"},
		{"0000:00:04.0", "pci"},
		{"FfFf:aB:1f.7", "pci"},
	};
	static const char *const bad[] = {
		"",
		"si",
		"simx",
		"Sim",
		"vfio-user",
		"vfio-user:",
		"0000:00:04",
		"00:04.0",
		"0000:00:04.8",
		"0000:00:0g.0",
		"0000.00:04.0",
		"0000:00:04.0 ",
		"0000:00:04.00",
		"/dev/vfio/1",
		"sim:trust=no",
		"0000:00:04.0:trust=no",
		"vfio-user:rel:trust=maybe",
		"vfio-user:trust=no",
		"0000:00:04.0:alone",
		"sim:isolated=maybe",
		"sim:isolated=",
		"isolated=yes",
		"sim:isolated=yes:isolated=yes",
		"vfio-user:isolated=yes",
		"vfio-user:rel:trust=no:trust=no",
		"sim:trust=no:isolated=yes",
	};
	std::string scheme;

	for (const auto &g : good) {
		assert_int_equal(parse_scheme(g.spec, &scheme), 0);
		assert_string_equal(scheme.c_str(), g.scheme);
	}
	for (const char *b : bad) {
		error_clear();
		assert_int_equal(parse_scheme(b, &scheme), -EINVAL);
		assert_non_null(strstr(error_text(), b));
	}
}

static void options(void **)
{
	std::string_view bare;
	device_options said;

	assert_int_equal(parse_options("vfio-user:/a:b:trust=no:isolated=yes", &bare, &said), 0);
	assert_string_equal(std::string(bare).c_str(), "vfio-user:/a:b");
	assert_true(said.isolated && *said.isolated && said.trust == vfio::server_trust::no);
	assert_int_equal(parse_options("0000:00:04.0:isolated=no", &bare, &said), 0);
	assert_string_equal(std::string(bare).c_str(), "0000:00:04.0");
	assert_true(said.isolated && !*said.isolated && !said.trust);
	assert_int_equal(parse_options("sim:mem=1G", &bare, &said), 0);
	assert_true(!said.isolated && !said.trust);
}

static void lists(void **)
{
	std::vector<std::string> out;

	assert_int_equal(parse_list("sim", &out), 0);
	assert_int_equal(out.size(), 1);
	assert_int_equal(parse_list(" sim:mem=2M , vfio-user:/a b,0000:01:00.0", &out), 0);
	assert_int_equal(out.size(), 3);
	assert_string_equal(out[0].c_str(), "sim:mem=2M");
	assert_string_equal(out[1].c_str(), "vfio-user:/a b");
	assert_string_equal(out[2].c_str(), "0000:01:00.0");
	for (const char *bad : {"", " ", ",", "sim,", ",sim", "sim,,sim", "sim,nonsense"}) {
		assert_int_equal(parse_list(bad, &out), -EINVAL);
		assert_int_equal(out.size(), 3); /* unchanged */
	}
	assert_int_equal(parse_list("sim,,sim", &out), -EINVAL);
	assert_non_null(strstr(error_text(), "entry 2"));
}

/* No device string of a user crashes the parser or is misread. */
static void random_strings(void **)
{
	static const char set[] = "sim:vfo-uer0123456789abcdefF.,/= \t%n";
	auto gen = test::rng(1);
	std::vector<std::string> out;

	for (int i = 0; i < 20000; i++) {
		std::string s;

		for (size_t n = gen() % 30; n; n--)
			s += set[gen() % (sizeof(set) - 1)];
		const int rc = parse_list(s, &out);
		assert_true(rc == 0 || rc == -EINVAL);
	}
}

/* ---- a device with nothing but ids --------------------------------------------------------------------- */

class id_device : public vfio::device {
public:
	explicit id_device(u32 id, int rc = 0) : id_(id), rc_(rc) {}

	int region(unsigned, vfio::region_info *) override { return -EINVAL; }
	int region_map(unsigned, u64, u64, mapping *) override { return -EOPNOTSUPP; }
	int region_read(unsigned index, u64 offset, void *buf, size_t len) override
	{
		assert_int_equal(index, vfio::region_config);
		assert_true(range_within(offset, len, sizeof(id_)));
		memcpy(buf, reinterpret_cast<char *>(&id_) + offset, len);
		return rc_ ? fail(-rc_, "no config space") : 0;
	}
	int region_write(unsigned, u64, const void *, size_t) override { return -EINVAL; }
	int region_fd(unsigned, u64 *) override { return -1; }
	int region_doorbell_fd(unsigned, u64) override { return -1; }
	int irq(unsigned, vfio::irq_info *) override { return -EINVAL; }
	int irq_set(unsigned, unsigned, std::span<const int>) override { return -EINVAL; }
	int limits(vfio::address_limits *) override { return -EINVAL; }
	int dma_map(const vfio::dma_area &) override { return -EINVAL; }
	int dma_unmap(u64, u64) override { return -EINVAL; }
	int reset() override { return -EINVAL; }
	bool lost() const override { return false; }
	int lost_fd() const override { return -1; }
	const char *name() const override { return "dev-x"; }
	const char *backend() const override { return "test"; }

private:
	u32 id_;
	int rc_;
};

static void unknown_device(void **)
{
	std::unique_ptr<engine> eng;
	char id[16];

	assert_int_equal(probe(std::make_unique<id_device>(0x56781234), &eng), -ENODEV);
	assert_non_null(strstr(error_text(), "dev-x"));
	assert_non_null(strstr(error_text(), "1234:5678"));
	for (const driver *d : drivers) {
		snprintf(id, sizeof(id), "%04x:%04x", unsigned(d->ids[0].vendor), unsigned(d->ids[0].device));
		assert_non_null(strstr(error_text(), id));
		assert_non_null(strstr(error_text(), d->name));
		for (const pci_id &i : d->ids)
			assert_ptr_equal(find_driver(i.vendor, i.device), d);
	}
	assert_null(find_driver(0x1234, 0x5678));
}

static void silent_device(void **)
{
	std::unique_ptr<engine> eng;

	assert_int_equal(probe(std::make_unique<id_device>(0xffffffff), &eng), -ENODEV);
	assert_non_null(strstr(error_text(), "does not answer"));
	assert_int_equal(probe(std::make_unique<id_device>(0, -ENXIO), &eng), -ENXIO);
	assert_non_null(strstr(error_text(), "no config space"));
	assert_null(eng.get());
}

static void bad_device_string(void **)
{
	std::unique_ptr<engine> eng;

	assert_int_equal(dma::open("bogus", &eng), -EINVAL);
	assert_non_null(strstr(error_text(), "bogus"));
	assert_null(eng.get());
}

/* To the last address of a range, and one beyond. */
static void usable_addresses(void **)
{
	vfio::address_limits l;

	l.usable = {{0x1000, 0x2fff}, {0x8000, ~u64(0)}};
	for (const auto &[iova, size, want] : {std::tuple<u64, u64, bool>{0x1000, 0x2000, true},
					       {0x1000, 0x2001, false},
					       {0x2fff, 1, true},
					       {0x3000, 1, false},
					       {0xfff, 2, false},
					       {~u64(0), 1, true},
					       {~u64(0), 2, false},
					       {0x8000, ~u64(0) - 0x7fff, true}})
		assert_int_equal(is_usable(l, iova, size), want);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(usable_addresses),
		cmocka_unit_test(fault_texts),
		cmocka_unit_test(fault_errnos),
		cmocka_unit_test(reads_faults),
		cmocka_unit_test(accesses_of_requests),
		cmocka_unit_test(schemes),
		cmocka_unit_test(options),
		cmocka_unit_test(lists),
		cmocka_unit_test(random_strings),
		cmocka_unit_test(unknown_device),
		cmocka_unit_test(silent_device),
		cmocka_unit_test(bad_device_string),
	};

	return cmocka_run_group_tests_name("dma", tests, nullptr, nullptr);
}
