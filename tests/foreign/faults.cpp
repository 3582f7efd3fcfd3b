/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * In a guest: the paths of tests/fault/paths.h on a device whose faults the host sets.
 * "struck": a path either returns an error or copies every byte; "clean": it
 * copies every byte.  Prints how many returned an error.
 * Run as: foreign-faults struck|clean (USDMA_DEVICES: the device, and a peer).
 */
#include "tests/fault/paths.h"
#include "tests/support/core.h"

#include <cstdlib>
#include <cstring>

using namespace usdma;
using namespace usdma::core;
using namespace usdma::test;

static bool may_fail;
static unsigned reported, carried;

static void one_path(void **state)
{
	const auto &p = *static_cast<const path *>(*state);

	for (const wait_mode mode : {wait_mode::poll, wait_mode::interrupt, wait_mode::hybrid}) {
		setting t;

		set_up(&t, 0, 1, mode);
		const int err = run_anew(&t, p);
		if (err && !may_fail)
			print_error("%s: %d (%s)\n", p.name, err, error_text());
		assert_true(err ? may_fail : is_whole(&t));
		reported += err != 0;
		carried += !err;
		tear_down(&t);
	}
}

int main(int argc, char **argv)
{
	CMUnitTest tests[path_count] = {};

	if (argc != 2)
		return 2;
	may_fail = !strcmp(argv[1], "struck");
	setenv("USDMA_TEST_HOST_ARENA", "1M", 1);
	setenv("USDMA_HANG_MS", "2000", 1);
	/* Faults shall strike the paths, not the fill that clears memory of a former user. */
	setenv("USDMA_CLEAR_MEMORY", "never", 1);
	for (unsigned i = 0; i < path_count; i++)
		tests[i] = {paths[i].name, one_path, nullptr, nullptr, const_cast<path *>(&paths[i])};
	const int failed = cmocka_run_group_tests_name("foreign-faults", tests, nullptr, nullptr);

	print_message("# reported %u, carried %u\n", reported, carried);
	return failed;
}
