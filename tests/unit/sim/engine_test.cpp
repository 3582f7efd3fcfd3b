/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/support/test.h"

#include "driver/base/clock.h"
#include "driver/base/error.h"
#include "driver/dma/registry.h"
#include "driver/sim/embedded.h"

using namespace usdma;

static void test_copy(void **)
{
	std::unique_ptr<dma::engine> eng;
	dma::channel *ch;
	std::vector<u8> back(1 << 20);
	auto gen = test::rng();

	int err = dma::open("sim:mem=16M", &eng);
	if (err)
		print_error("%s\n", error_text());
	assert_int_equal(err, 0);
	assert_int_equal(eng->set_memory_base(0x100000000000), 0);
	assert_int_equal(eng->channel_open(0, {}, &ch), 0);
	const size_t size = 1 << 20;
	void *p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	test::fill_random(p, size, gen);
	vfio::dma_area area;
	area.iova = reinterpret_cast<u64>(p);
	area.size = size;
	area.vaddr = p;
	assert_int_equal(eng->map(area), 0);
	dma::request r;
	r.op = dma::opcode::copy;
	r.spaces = dma::spaces(dma::space::host, dma::space::device);
	r.src = area.iova;
	r.dst = 0x100000000000 + 4096;
	r.len = size;
	assert_int_equal(ch->ops->post(ch, &r, 1), 1);
	ch->ops->doorbell(ch);
	const deadline until = deadline::in_ms(5000);
	while (dma::completed(ch) < ch->posted && !until.passed())
		if (load_acquire(ch->asleep))
			ch->ops->wake(ch);
	assert_int_equal(dma::completed(ch), ch->posted);
	assert_memory_equal(eng->memory() + 4096, p, size);
	ch->ops->close(ch);
	eng.reset();
	munmap(p, size);
}

int main()
{
	const CMUnitTest tests[] = {cmocka_unit_test(test_copy)};

	return cmocka_run_group_tests_name("sim_engine", tests, nullptr, nullptr);
}
