/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Once a client sees the end of its connection, for any reason, the server does
 * not write to its memory any more and has unmapped it.  On the model in this
 * process, and on usdma-sim.
 * Run as: end_test (USDMA_SIM names the device program).
 */
#include "tests/support/raw_client.h"
#include "tests/support/raw_model.h"
#include "tests/support/sim_process.h"
#include "tests/support/test.h"

#include "driver/sim/fault_plan.h"

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sys/wait.h>
#include <unistd.h>

using namespace usdma;
using namespace usdma::test;
using namespace usdma::sdma;
using dma::space;

static constexpr u64 mem_base = u64(1) << 44, device_bytes = 32 * MiB;
static constexpr u64 iova = 0x40000000, control = MiB, size = control + 32 * MiB;
static constexpr u64 remote = u64(1) << 40, remote_size = 64 * MiB; /* accessed by messages only */
static const char *const name = "end-of-connection";

/* A device with fault injection, in this process or in another. */
class device {
public:
	virtual ~device() = default;
	virtual unique_fd connect() = 0;
	/* Makes it end, like a signal. */
	virtual void stop() = 0;
	/* Waits until it has ended. */
	virtual void wait_ended() = 0;
	/* The number of its mappings of the client's file. */
	virtual unsigned mappings() const = 0;
};

static unsigned mappings_of(const std::string &pid)
{
	std::ifstream in("/proc/" + pid + "/maps");
	unsigned n = 0;

	for (std::string line; std::getline(in, line);)
		n += line.find(name) != line.npos;
	return n;
}

class embedded_device final : public device {
public:
	explicit embedded_device(const char *rules) : plan_(false), model_(settings(), &plan_)
	{
		assert_int_equal(plan_.set(rules), 0);
	}
	unique_fd connect() override { return model_.connect(); }
	void stop() override { model_.stop(); }
	void wait_ended() override { model_.wait_over(); }
	unsigned mappings() const override { return mappings_of("self") - 1; }

private:
	static sim::config settings()
	{
		sim::config c;

		c.mem = device_bytes;
		c.channels = 8;
		c.engines = 2;
		return c;
	}

	sim::fault_plan plan_;
	raw_model model_;
};

class sim_device final : public device {
public:
	explicit sim_device(const char *rules)
		: sim_({"--mem", "32M", "--channels", "8", "--engines", "2", "--once", "--faults", rules})
	{
	}
	unique_fd connect() override { return unique_fd(connect_unix(sim_.path)); }
	void stop() override { kill(sim_.pid, SIGTERM); }
	void wait_ended() override
	{
		int status = -1;

		if (sim_.pid > 0) {
			assert_int_equal(waitpid(sim_.pid, &status, 0), sim_.pid);
			assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
			sim_.pid = -1;
		}
	}
	unsigned mappings() const override
	{
		unsigned n = mappings_of(std::to_string(sim_.pid));

		for (pid_t child : children_of(sim_.pid))
			n += mappings_of(std::to_string(child));
		return n;
	}

private:
	served_sim sim_;
};

/* ---- what the engines execute when the connection ends -------------------------------------------------- */

struct rig {
	rig(device &d) : client(d.connect()), memory(name, size)
	{
		assert_int_equal(client.begin(mem_base), 0);
		assert_int_equal(client.map(iova, size, memory.fd.get()), 0);
		assert_int_equal(client.map(remote, remote_size), 0);
		for (u32 i = 0; i < 4; i++) {
			channels.push_back(std::make_unique<raw_channel>(client, i, memory, iova, i * 64 * KiB));
			assert_int_equal(channels[i]->enable(), chan_state_running);
		}
	}
	raw_channel &operator[](unsigned i) { return *channels[i]; }
	/* Starts copies to the client's memory that take seconds. */
	void start_copies(unsigned ch)
	{
		for (unsigned i = 0; i < 60; i++)
			(*this)[ch].put(raw_copy(space::device, mem_base, space::host, iova + control, size - control));
		(*this)[ch].ring_doorbell();
		assert_true((*this)[ch].begun(1));
	}

	raw_client client;
	raw_memory memory;
	std::vector<std::unique_ptr<raw_channel>> channels;
};

static void in_copies(rig &r)
{
	r.start_copies(0);
	r.start_copies(1);
}

/* A WAIT for a value that the client writes only after the end; then a copy. */
static void in_wait(rig &r)
{
	descriptor d = {};

	d.op = u8(dma::opcode::wait);
	d.arg = u8(dma::compare::eq);
	d.src = iova + control;
	d.a = 0x5a5a5a5a5a5a5a5a;
	for (unsigned ch = 0; ch < 2; ch++) {
		r[ch].put(d);
		r.start_copies(ch);
	}
}

/* Messages that the client never reads; another engine copies. */
static void in_messages(rig &r)
{
	for (unsigned ch : {0, 2})
		for (unsigned i = 0; i < 8; i++)
			r[ch].put(raw_copy(space::device, mem_base, space::host, remote + ch * MiB, 8 * MiB));
	r[0].ring_doorbell();
	r[2].ring_doorbell();
	r.start_copies(1);
}

/* Requests that the client never answers; then copies. */
static void in_requests(rig &r)
{
	for (unsigned ch : {0, 1}) {
		r[ch].put(raw_copy(space::host, remote, space::device, mem_base, 8 * MiB));
		r.start_copies(ch);
	}
}

struct situation {
	const char *name, *rules;
	void (*load)(rig &r);
};

static constexpr situation situations[] = {
	{"in long copies", "", in_copies},
	{"in a WAIT", "", in_wait},
	{"in slow descriptors", "slow%1/1000000", in_copies},
	{"in a hang", "hang@2/for-good", in_copies},
	{"while the client reads nothing", "", in_messages},
	{"while the client does not reply", "", in_requests},
};

/* ---- how the connection ends --------------------------------------------------------------------------- */

struct close_cause {
	const char *name, *rules;
	void (*trigger)(rig &r, device &d);
};

static const close_cause close_causes[] = {
	{"half-close", "", [](rig &r, device &) { r.client.half_close(); }},
	{"stop", "", [](rig &, device &d) { d.stop(); }},
	{"a broken frame", "",
	 [](rig &r, device &) {
		 const proto::header bad = {1, 1, 8, 0, 0};

		 assert_int_equal(send(r.client.fd(), &bad, sizeof(bad), MSG_NOSIGNAL), sizeof(bad));
	 }},
	{"the device closes after a reply", "reply@80/close",
	 [](rig &r, device &) {
		 while (r.client.say(proto::command::device_get_info, nullptr, 0)) {
			 char c;

			 if (recv(r.client.fd(), &c, 1, MSG_DONTWAIT | MSG_PEEK) == 0 ||
			     r.client.get<u32>(reg_id) != id_value)
				 break;
		 }
	 }},
	{"a device that vanishes", "vanish@3", [](rig &, device &) {}},
};

/* After the end of file nothing writes to the memory, and it is not mapped. */
static void check_memory_untouched(rig &r, device &d)
{
	assert_true(r.client.wait_closed());
	const unsigned mapped = d.mappings();
	memset(r.memory.data, 0x5a, size);
	d.wait_ended();
	u64 same = 0;
	while (same < size && r.memory.data[same] == 0x5a)
		same++;
	assert_int_equal(same, size);
	assert_int_equal(mapped, 0);
}

static std::string join_rules(const char *a, const char *b)
{
	return std::string(a) + (*a && *b ? "+" : "") + b;
}

template <class device_type> static void run(const situation &s, const close_cause &e)
{
	device_type d(join_rules(s.rules, e.rules).c_str());
	rig r(d);

	s.load(r);
	e.trigger(r, d);
	check_memory_untouched(r, d);
}

template <class device_type> static void half_close_in_each_situation(void **)
{
	for (const situation &s : situations) {
		fprintf(stderr, "# half-close %s\n", s.name);
		run<device_type>(s, close_causes[0]);
	}
}

template <class device_type> static void each_close_cause(void **)
{
	for (const close_cause &e : close_causes) {
		fprintf(stderr, "# %s\n", e.name);
		run<device_type>(situations[0], e);
	}
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(half_close_in_each_situation<embedded_device>),
		cmocka_unit_test(each_close_cause<embedded_device>),
		cmocka_unit_test(half_close_in_each_situation<sim_device>),
		cmocka_unit_test(each_close_cause<sim_device>),
	};

	alarm(150);
	return cmocka_run_group_tests_name("end of connection", tests, nullptr, nullptr);
}
