/* SPDX-License-Identifier: BSD-3-Clause */
/* The sdma driver when descriptors fail, channels are stopped, and the device is lost. */
#include "tests/unit/dma/sdma_rig.h"

using namespace usdma;
using namespace usdma::dma;
using usdma::test::fake_sdma;
using usdma::test::numbered;
using usdma::test::open_channel;
using usdma::test::open_engine;
using usdma::test::starts;

static void fault_and_resume(void **)
{
	for (u64 first : starts) {
		fake_sdma f;
		auto eng = open_engine(f);
		channel *ch = open_channel(*eng, 8, first);
		request r[5];
		fault flt;

		for (u64 i = 0; i < 5; i++)
			r[i] = numbered(50 + i);
		assert_int_equal(ch->ops->post(ch, r, 5), 5);
		assert_int_equal(ch->ops->resume(ch), -EINVAL); /* it is running */
		assert_int_equal(ch->ops->cancel(ch, 50), 0);
		assert_int_equal(f.run(2), 2);
		f.halt(fault_reason::dst_unmapped, 0xabc);
		assert_true(halted(ch));
		assert_true(read_fault(ch, &flt));
		assert_int_equal(flt.seq, first + 3);
		assert_int_equal(flt.reason, fault_reason::dst_unmapped);
		assert_int_equal(flt.address, 0xabc);
		assert_int_equal(flt.cookie, 52);
		assert_int_equal(ch->ops->stop(ch), 0); /* halted already */
		assert_int_equal(ch->ops->resume(ch), 0);
		assert_false(halted(ch));
		assert_int_equal(completed(ch), first + 3);
		assert_int_equal(f.run(10), 2);
		assert_int_equal(f.ran.back().cookie, 54);
		ch->ops->close(ch);
	}
}

static void post_mixed(channel *ch, u64 *left)
{
	for (u64 i = 0; i < 16; i++) {
		const request r = numbered(i % 3, flag_interrupt);

		assert_int_equal(ch->ops->post(ch, &r, 1), 1);
		left[i % 3]++;
	}
}

/* The failed descriptor is not canceled; later ones with the cookie become no-ops, the others are unchanged. */
static void cancel_after_fault(void **)
{
	for (u64 first : starts) {
		fake_sdma f;
		auto eng = open_engine(f);
		channel *ch = open_channel(*eng, 16, first);
		u64 posted[3] = {};
		unsigned copies = 0, nops = 0;

		post_mixed(ch, posted);
		assert_int_equal(f.run(4), 4);
		f.halt(fault_reason::transfer, 0); /* number 5, cookie 1 */
		assert_int_equal(f.slot(f.next)->cookie, 1);
		assert_int_equal(ch->ops->cancel(ch, 77), 0);
		assert_int_equal(ch->ops->cancel(ch, 1), posted[1] - 2); /* one ran, one failed */
		assert_int_equal(f.slot(f.next)->op, opcode::copy);
		assert_int_equal(ch->ops->resume(ch), 0);
		assert_int_equal(f.run(100), 11);
		for (size_t i = 4; i < f.ran.size(); i++) {
			const sdma::descriptor &d = f.ran[i];

			if (d.cookie != 1) {
				assert_int_equal(d.op, opcode::copy);
				assert_int_equal(d.len, 64);
				copies++;
				continue;
			}
			assert_int_equal(d.op, opcode::nop);
			assert_int_equal(d.flags, flag_interrupt);
			assert_int_equal(d.src | d.dst | d.len | d.a | d.b | d.height | d.spaces | d.arg, 0);
			nops++;
		}
		assert_int_equal(copies, 8);
		assert_int_equal(nops, 3);
		assert_int_equal(completed(ch), ch->posted);
		ch->ops->close(ch);
	}
}

/* A channel that hangs is aborted: a request that was begun fails; one that was not begun is not lost. */
static void abort_channel(void **)
{
	for (u64 first : starts)
		for (bool begun : {false, true}) {
			fake_sdma f;
			auto eng = open_engine(f);
			channel *ch = open_channel(*eng, 8, first);
			const request r[3] = {numbered(50), numbered(51), numbered(52)};
			char text[256] = "";
			fault flt;

			assert_int_equal(ch->ops->abort(ch), -EAGAIN); /* it has nothing to do */
			assert_int_equal(ch->ops->post(ch, r, 3), 3);
			ch->ops->doorbell(ch);
			assert_int_equal(f.run(1), 1);
			f.put(f.page() + sdma::chan_head, first + 1 + begun);
			ch->ops->describe(ch, text, sizeof(text));
			assert_non_null(strstr(text, ("posted " + std::to_string(first + 3) + ", doorbell " +
						      std::to_string(first + 3) + ", begun " +
						      std::to_string(first + 1 + begun))
							     .c_str()));
			assert_int_equal(ch->ops->abort(ch), 0);
			assert_true(read_fault(ch, &flt));
			assert_int_equal(flt.seq, first + 2);
			assert_int_equal(flt.reason, begun ? fault_reason::reset : fault_reason::stopped);
			assert_int_equal(flt.cookie, begun ? 51 : 0);
			assert_int_equal(ch->ops->resume(ch), 0);
			assert_int_equal(f.run(10), begun ? 1 : 2);
			assert_int_equal(f.ran.back().cookie, 52);
			ch->ops->close(ch);
		}
}

/* A stopped descriptor is not completed; it runs after resume unless canceled. */
static void stop_cancel_resume(void **)
{
	for (bool cancel : {false, true}) {
		fake_sdma f;
		auto eng = open_engine(f);
		channel *ch = open_channel(*eng, 16, 7);
		u64 posted[3] = {};
		fault flt;

		post_mixed(ch, posted);
		assert_int_equal(f.run(4), 4);
		assert_int_equal(ch->ops->stop(ch), 0);
		assert_true(read_fault(ch, &flt));
		assert_int_equal(flt.reason, fault_reason::stopped);
		if (cancel)
			assert_int_equal(ch->ops->cancel(ch, 1), posted[1] - 1);
		assert_int_equal(ch->ops->resume(ch), 0);
		assert_int_equal(completed(ch), 7 + 4);
		assert_int_equal(f.run(100), 12);
		assert_int_equal(f.ran[4].cookie, 1);
		assert_int_equal(f.ran[4].op, cancel ? opcode::nop : opcode::copy);
		ch->ops->close(ch);
	}
}

static void stop_when_idle(void **)
{
	fake_sdma f;
	auto eng = open_engine(f);
	channel *ch = open_channel(*eng, 4);
	const request r = numbered(0);

	assert_int_equal(ch->ops->stop(ch), 0);
	assert_int_equal(ch->ops->cancel(ch, 0), 0);
	assert_int_equal(ch->ops->post(ch, &r, 1), 1);
	assert_int_equal(ch->ops->resume(ch), 0);
	assert_int_equal(f.run(5), 1);
	ch->ops->close(ch);
}

/* A fault number outside of the ring is ignored. */
static void invalid_fault_number(void **)
{
	fake_sdma f;
	auto eng = open_engine(f);
	channel *ch = open_channel(*eng, 4, 100);
	const request r = numbered(3);

	assert_int_equal(ch->ops->post(ch, &r, 1), 1);
	f.halt(fault_reason::transfer, 0);
	for (u64 wrong : {u64(0), u64(50), u64(103), u64(1) << 40, ~u64(0)}) {
		f.record()->fault_seq = wrong;
		assert_int_equal(ch->ops->cancel(ch, 3), 0);
	}
	assert_int_equal(f.slot(101)->op, opcode::copy);
	ch->ops->close(ch);
}

static void lost_device(void **)
{
	fake_sdma f;

	{
		auto eng = open_engine(f);
		channel *ch = open_channel(*eng, 4), *other = nullptr;
		const request r = numbered(0);

		f.dead_commands = f.lose_on_command = true;
		assert_int_equal(ch->ops->stop(ch), -ENODEV); /* lost during the wait */
		assert_true(eng->lost());
		assert_int_equal(ch->ops->stop(ch), -ENODEV);
		assert_int_equal(ch->ops->post(ch, &r, 1), 1);
		ch->ops->doorbell(ch);
		ch->ops->wake(ch);
		assert_int_equal(eng->channel_open(1, channel_config(), &other), -ENODEV);
		assert_int_equal(eng->set_memory_base(0), -ENODEV);
		assert_int_equal(eng->reset(), -ENODEV);
		const size_t before = f.commands.size();
		ch->ops->close(ch);
		assert_int_equal(f.commands.size(), before);
	}
	assert_int_equal(f.freed_devices, 1);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(fault_and_resume), cmocka_unit_test(cancel_after_fault),
		cmocka_unit_test(abort_channel),    cmocka_unit_test(stop_cancel_resume),
		cmocka_unit_test(stop_when_idle),   cmocka_unit_test(invalid_fault_number),
		cmocka_unit_test(lost_device),
	};

	return cmocka_run_group_tests_name("sdma_fault", tests, nullptr, nullptr);
}
