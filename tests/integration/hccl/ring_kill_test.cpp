/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device process is killed while a ring of devices works: every rank returns an
 * error before the deadline.  ring_kill_test USDMA-SIM
 */
#include "docs/examples/hccl/ring.h"
#include "tests/support/sim_process.h"
#include "tests/support/test.h"

#include <csignal>
#include <cstdlib>
#include <poll.h>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace {

constexpr unsigned devices = 2 + 4; /* a ring of two and a ring of four, each lost once */
constexpr u64 count = 64 << 10;
const char *sim_program;
char folder[] = "/tmp/usdma-ring-XXXXXX";

struct sim {
	std::string path;
	pid_t pid = -1;
} sims[devices];

void stop(sim &s)
{
	usdma::test::end_sim(s.pid);
	unlink(s.path.c_str());
}

int setup(void **)
{
	std::string list;

	if (!mkdtemp(folder))
		return -1;
	for (unsigned n = 0; n < devices; n++) {
		sims[n].path = std::string(folder) + "/" + std::to_string(n);
		sims[n].pid = usdma::test::start_sim(sim_program, sims[n].path, {"--mem", "64M"});
		if (sims[n].pid < 0)
			return -1;
		list += (n ? ",vfio-user:" : "vfio-user:") + sims[n].path;
	}
	setenv("USDMA_DEVICES", list.c_str(), 1);
	return aclInit(nullptr);
}

int teardown(void **)
{
	int ret = aclFinalize();

	for (sim &s : sims)
		stop(s);
	rmdir(folder);
	return ret;
}

void kill_one_device(unsigned base, unsigned n)
{
	const unsigned victim = unsigned(usdma::test::rng(base)() % n);
	std::atomic<u64> done{0};
	std::atomic<bool> killed{false};
	std::vector<HcclResult> results(n, HCCL_SUCCESS);
	std::vector<std::thread> threads;
	ring all(n);

	for (unsigned i = 0; i < n; i++) {
		threads.emplace_back([&, i] {
			rank r(all, i);
			HcclResult ret = r.open(s32(base + i), count * 4);

			for (u64 k = 0; ret == HCCL_SUCCESS && k < 100000000; k++) {
				ret = r.all_reduce(count, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM);
				if (ret == HCCL_SUCCESS)
					ret = r.wait();
				done++;
			}
			results[i] = ret;
			if (!killed) {
				const char *text = aclGetRecentErrMsg();

				print_error("rank %u: result %d after %llu rounds: %s\n", i, ret, done.load() / n,
					    text ? text : "");
			}
			all.meet.arrive_and_wait();
		});
	}
	while (done < 20 * n && !all.failed) /* the ring runs */
		std::this_thread::yield();
	killed = true;
	assert_false(all.failed);
	stop(sims[base + victim]);
	for (std::thread &t : threads) /* if a rank hangs, the test's deadline kills the test */
		t.join();
	for (unsigned i = 0; i < n; i++)
		assert_int_not_equal(results[i], HCCL_SUCCESS);
}

void test_two(void **)
{
	kill_one_device(0, 2);
}

void test_four(void **)
{
	kill_one_device(2, 4);
}

} // namespace

int main(int argc, char **argv)
{
	const CMUnitTest tests[] = {cmocka_unit_test(test_two), cmocka_unit_test(test_four)};

	if (argc != 2)
		return 2;
	sim_program = argv[1];
	alarm(100); /* the deadline */
	return cmocka_run_group_tests(tests, setup, teardown);
}
