/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/base/error.h"
#include "driver/pci/sysfs.h"
#include "tests/support/test.h"
#include "tests/unit/pci/fake_sysfs.h"

#include <cstring>
#include <filesystem>

using namespace usdma;
using namespace usdma::pci;
using usdma::test::fake_sysfs;

static void test_addresses(void **)
{
	const char *const bad[] = {"",
				   "00:04.0",
				   "0000:00:04",
				   "0000:00:04.8",
				   "0000:00:20.0",
				   "0000:0:04.0",
				   "000:00:04.0",
				   "0000:00:04.0 ",
				   "0000:00:04.00",
				   "g000:00:04.0",
				   "0000.00.04.0",
				   "123456789:00:04.0",
				   "0000:00:04."};
	address a;

	assert_int_equal(address_parse("0000:3b:1f.7", &a), 0);
	assert_true(a == (address{0, 0x3b, 0x1f, 7}));
	assert_string_equal(address_format(a).c_str(), "0000:3b:1f.7");
	assert_int_equal(address_parse("10000:AB:00.0", &a), 0);
	assert_string_equal(address_format(a).c_str(), "10000:ab:00.0");
	for (const char *text : bad) {
		assert_int_equal(address_parse(text, &a), -EINVAL);
		assert_non_null(strstr(error_text(), "PCI address"));
	}
}

static void test_functions(void **)
{
	fake_sysfs s;
	std::vector<function> all;
	std::vector<address> members;
	function f;

	s.add("0000:00:05.0", -1, "");
	s.add("0000:00:04.0", 7, "vfio-pci");
	s.add("0000:00:04.1", 7, "e1000e");
	s.file(s.device("0000:00:04.1") + "/net/eth7/address", "");
	s.file(s.device("0000:00:04.0") + "/vfio-dev/vfio3/dev", "");
	assert_int_equal(list(s.sys(), &all), 0);
	assert_int_equal(all.size(), 3);
	f = all[0];
	assert_true(f.addr == (address{0, 0, 4, 0}));
	assert_int_equal(f.vendor, 0x1234);
	assert_int_equal(f.device, 0x11e8);
	assert_int_equal(f.class_code, 0xff00);
	assert_int_equal(f.revision, 0x10);
	assert_int_equal(f.numa_node, 1);
	assert_int_equal(f.iommu_group, 7);
	assert_string_equal(f.driver.c_str(), "vfio-pci");
	assert_string_equal(f.driver_override.c_str(), "");
	assert_string_equal(f.power_state.c_str(), "D0");
	assert_int_equal(f.bars[0].start, 0xfea00000);
	assert_int_equal(f.bars[0].size, 0x100000);
	assert_int_equal(f.bars[1].size, 0);
	assert_int_equal(f.bars[2].size, 0x100000000);
	assert_int_equal(all[2].iommu_group, -1);
	assert_string_equal(all[2].driver.c_str(), "");
	assert_int_equal(group_members(s.sys(), 7, &members), 0);
	assert_int_equal(members.size(), 2);
	assert_int_equal(group_members(s.sys(), 8, &members), -ENOENT);
	assert_int_equal(users(s.sys(), all[0].addr).size(), 0);
	assert_string_equal(users(s.sys(), all[1].addr).at(0).c_str(), "net eth7");
	assert_string_equal(vfio_cdev(s.sys(), all[0].addr).c_str(), "vfio3");
	assert_string_equal(vfio_cdev(s.sys(), all[1].addr).c_str(), "");
	assert_true(iommu_present(s.sys()));
	assert_int_equal(read_function(s.sys(), {0, 9, 9, 0}, &f), -ENXIO);
	assert_int_equal(list(s.sys() + "/nothing", &all), -ENOENT);
}

/* A group that VFIO creates for a device without an IOMMU does not translate. */
static void test_groups_that_translate(void **)
{
	fake_sysfs s;
	function f;

	s.add("0000:00:04.0", 7, "vfio-pci");
	s.add("0000:00:05.0", 12, "");
	s.add("0000:00:06.0", -1, "");
	s.add("0000:00:07.0", -1, "edu_pci");
	s.file(s.sys() + "/kernel/iommu_groups/7/name", "vfio-noiommu\n");
	s.file(s.sys() + "/kernel/iommu_groups/12/type", "DMA\n");
	assert_int_equal(read_function(s.sys(), {0, 0, 4, 0}, &f), 0);
	assert_int_equal(f.iommu_group, -1);
	assert_true(f.noiommu);
	assert_int_equal(read_function(s.sys(), {0, 0, 5, 0}, &f), 0);
	assert_int_equal(f.iommu_group, 12);
	assert_false(f.noiommu);
	assert_false(iommu_group_pending(s.sys(), f));
	assert_int_equal(read_function(s.sys(), {0, 0, 7, 0}, &f), 0);
	assert_false(iommu_group_pending(s.sys(), f));
	assert_int_equal(read_function(s.sys(), {0, 0, 6, 0}, &f), 0);
	assert_true(iommu_group_pending(s.sys(), f));
	assert_int_equal(iommu_groups(s.sys()).size(), 1);
	assert_int_equal(iommu_groups(s.sys())[0], 12);
	s.file(s.sys() + "/kernel/iommu_groups/12/name", "vfio-noiommu\n");
	assert_false(iommu_present(s.sys()));
	assert_false(iommu_group_pending(s.sys(), f));
}

static void test_odd_files(void **)
{
	fake_sysfs s;
	function f;

	s.file(s.device("0000:00:04.0") + "/vendor", "rubbish\n");
	s.file(s.device("0000:00:04.0") + "/resource", "no numbers");
	s.link(s.device("0000:00:04.0") + "/iommu_group", "../x7");
	assert_int_equal(read_function(s.sys(), {0, 0, 4, 0}, &f), 0);
	assert_int_equal(f.vendor, 0xffff);
	assert_int_equal(f.iommu_group, -1);
	assert_int_equal(f.numa_node, -1);
	assert_int_equal(f.bars[0].size, 0);
	assert_false(iommu_present(s.sys()));
}

static std::vector<u8> config_with_caps(size_t size)
{
	std::vector<u8> c(size);

	c[6] = 0x10;
	c[0x34] = 0x40;
	c[0x40] = cap_power, c[0x41] = 0x52; /* low bits are reserved */
	c[0x50] = cap_msix, c[0x51] = 0xfc;
	if (size > 0xfd)
		c[0xfc] = cap_express;
	if (size > 0x203) {
		c[0x100] = 1, c[0x102] = 2, c[0x103] = 0x20; /* id 1, version 2, next 0x200 */
		c[0x200] = 3, c[0x202] = 1;
	}
	return c;
}

static void test_capabilities(void **)
{
	std::vector<capability> caps;

	assert_int_equal(capabilities(config_with_caps(4096), &caps), 0);
	assert_int_equal(caps.size(), 5);
	assert_int_equal(caps[0].id, cap_power);
	assert_int_equal(caps[1].offset, 0x50);
	assert_int_equal(caps[2].id, cap_express);
	assert_true(caps[3].extended);
	assert_int_equal(caps[3].version, 2);
	assert_int_equal(caps[4].offset, 0x200);
	assert_int_equal(capabilities(config_with_caps(256), &caps), 0);
	assert_int_equal(caps.size(), 3);
	/* An unprivileged user can read only 64 bytes, before the first capability. */
	std::vector<u8> head = config_with_caps(256);

	head.resize(64);
	assert_int_equal(capabilities(head, &caps), 0);
	assert_int_equal(caps.size(), 0);
	head.resize(63);
	assert_int_equal(capabilities(head, &caps), -EINVAL);
}

static void test_hostile_capabilities(void **)
{
	std::vector<capability> caps;
	auto c = config_with_caps(4096);

	c[0x51] = 0x40;
	assert_int_equal(capabilities(c, &caps), -EPROTO);
	c = config_with_caps(4096);
	c[0x51] = 0x50;
	assert_int_equal(capabilities(c, &caps), -EPROTO);
	c = config_with_caps(4096);
	c[0x51] = 0x10;
	assert_int_equal(capabilities(c, &caps), -EPROTO);
	c = config_with_caps(4096);
	c[0x202] = 0x01, c[0x203] = 0x10; /* back to 0x100 */
	assert_int_equal(capabilities(c, &caps), -EPROTO);
	c[0x202] = 0x01, c[0x203] = 0x04; /* into the standard capabilities */
	assert_int_equal(capabilities(c, &caps), -EPROTO);
	std::fill(c.begin() + 0x100, c.end(), u8(0xff));
	assert_int_equal(capabilities(c, &caps), 0);
}

/* With random contents the walk terminates and stays in bounds. */
static void test_random_capabilities(void **)
{
	auto gen = test::rng(1);
	std::vector<capability> caps;

	for (unsigned i = 0; i < 2000 * test::scale(); i++) {
		std::vector<u8> c(64 + gen() % 4200);

		test::fill_random(c.data(), c.size(), gen);
		c[6] |= 0x10;
		const int err = capabilities(c, &caps);

		assert_true(err == 0 || err == -EPROTO);
		for (const capability &cap : caps)
			assert_true(cap.offset < c.size() && cap.offset < 4096);
	}
}

static void test_bind(void **)
{
	const address a = {0, 0, 4, 0};
	fake_sysfs s;
	function f;

	s.add("0000:00:04.0", 7, "e1000e");
	assert_int_equal(bind(s.sys(), a, "vfio-pci"), -ENOENT);
	assert_non_null(strstr(error_text(), "modprobe vfio-pci"));
	s.add_driver("vfio-pci");
	s.run_kernel();
	assert_int_equal(bind(s.sys(), {0, 0, 5, 0}, "vfio-pci"), -ENXIO);
	assert_int_equal(bind(s.sys(), a, ""), -EINVAL);
	assert_int_equal(bind(s.sys(), a, "../../x"), -EINVAL);
	assert_int_equal(bind(s.sys(), a, "vfio-pci"), 0);
	assert_int_equal(read_function(s.sys(), a, &f), 0);
	assert_string_equal(f.driver.c_str(), "vfio-pci");
	assert_string_equal(f.driver_override.c_str(), "vfio-pci");
	/* A second bind has no effect. */
	assert_int_equal(bind(s.sys(), a, "vfio-pci"), 0);
	assert_int_equal(unbind(s.sys(), a, "e1000e"), 0);
	assert_int_equal(read_function(s.sys(), a, &f), 0);
	assert_string_equal(f.driver.c_str(), "e1000e");
	assert_string_equal(f.driver_override.c_str(), "");
	assert_int_equal(unbind(s.sys(), a), 0);
	assert_int_equal(read_function(s.sys(), a, &f), 0);
	assert_string_equal(f.driver.c_str(), "");
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(test_addresses),
		cmocka_unit_test(test_functions),
		cmocka_unit_test(test_groups_that_translate),
		cmocka_unit_test(test_odd_files),
		cmocka_unit_test(test_capabilities),
		cmocka_unit_test(test_hostile_capabilities),
		cmocka_unit_test(test_random_capabilities),
		cmocka_unit_test(test_bind),
	};

	return cmocka_run_group_tests(tests, nullptr, nullptr);
}
