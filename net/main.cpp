/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * usdma-net: the only program of usdma that loads UCX. Others start it: `usdmactl net` for a measurement. It ends when
 * the pipe at its standard input does. What it has to say is a line on standard output:
 *
 *   listening ADDRESS PORT FIRST LAST      the control connection's port; those of UCX
 *   peer ADDRESS HOST                      one is there; HOST: its 32 hexadecimal digits
 *   left ADDRESS REASON
 *   latency …, bandwidth …                 measure.h
 *   error KIND TEXT                        KIND: setting, address, firewall, key, version, busy, data, lost or other
 *
 * With --program standard input is the socket of a program whose memory it moves (program.h); of the lines above that
 * program reads the first.
 */
#include "net/measure.h"
#include "net/program.h"

#include "driver/base/error.h"
#include "driver/base/fd.h"
#include "driver/base/printable.h"
#include "driver/base/words.h"
#include "tools/sim_sandbox.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <getopt.h>
#include <sys/resource.h>
#include <sys/stat.h>

using namespace usdma;
using namespace usdma::net;

namespace {

constexpr const char *started = "USDMA_NET_STARTED";
constexpr u64 segment = part_most + 64 * KiB; /* of UCX; all of a release have the same */

struct options {
	std::string net, key_file, tls = "tcp", host, to;
	u64 lost_ms = 30000, port = 0;
	bool listen = false, once = false, program = false;
	measure_options measure;
};

/* Of a connection that was not made. */
const char *kind_of(int err)
{
	switch (-err) {
	case ECONNREFUSED:
	case ENETUNREACH:
	case EADDRNOTAVAIL:
	case ENOENT:
		return "address";
	case EHOSTUNREACH:
	case ETIMEDOUT:
		return "firewall";
	case EACCES:
		return "key";
	case EPROTO:
	case EPROTONOSUPPORT:
		return "version";
	case EBUSY:
		return "busy";
	default:
		return "other";
	}
}

int report(const char *kind, const char *text)
{
	printf("error %s %s\n", kind, std::string(printable(text)).c_str());
	return 1;
}

int usage()
{
	fprintf(stderr, "usdma-net is started by others: see usdmactl net --help\n"
			"usdma-net --net NET --key-file FILE [--tls LIST] [--lost-ms N] --host-id DIGITS\n"
			"          (--listen [--port N] [--once] | --to ADDRESS [--each-ms N] [--largest BYTES] |\n"
			"           --program)\n");
	return 2;
}

bool parse(int argc, char **argv, options *o)
{
	enum : int { net_, key, tls, lost, host, listen_, port, once, to, each, largest, program_ };
	static const option all[] = {
		{"net", 1, nullptr, net_},
		{"key-file", 1, nullptr, key},
		{"tls", 1, nullptr, tls},
		{"lost-ms", 1, nullptr, lost},
		{"host-id", 1, nullptr, host},
		{"listen", 0, nullptr, listen_},
		{"port", 1, nullptr, port},
		{"once", 0, nullptr, once},
		{"to", 1, nullptr, to},
		{"each-ms", 1, nullptr, each},
		{"largest", 1, nullptr, largest},
		{"program", 0, nullptr, program_},
		{},
	};
	bool good = true;

	for (int c; good && (c = getopt_long(argc, argv, "", all, nullptr)) >= 0;)
		switch (c) {
		case net_:
			o->net = optarg;
			break;
		case key:
			o->key_file = optarg;
			break;
		case tls:
			o->tls = optarg;
			break;
		case host:
			o->host = optarg;
			break;
		case to:
			o->to = optarg;
			break;
		case listen_:
			o->listen = true;
			break;
		case program_:
			o->program = true;
			break;
		case once:
			o->once = true;
			break;
		case lost:
			good = number_parse(optarg, &o->lost_ms, 1, ~u32(0));
			break;
		case port:
			good = number_parse(optarg, &o->port, 1, 0xffff);
			break;
		case each:
			good = number_parse(optarg, &o->measure.each_ms, 1, 3600000);
			break;
		case largest:
			good = number_parse(optarg, &o->measure.largest, 1, sink_most);
			break;
		default:
			good = false;
		}
	return good && optind == argc && o->listen + o->program == o->to.empty() && !o->net.empty();
}

/* UCX reads its environment when it is loaded, and once more when it is opened: nothing of the caller's remains. */
void restart(char **argv, const options &o, const local_net &local)
{
	const std::string words[] = {
		std::string(started) + "=1",
		"UCX_MEM_EVENTS=n",
		"UCX_HANDLE_ERRORS=none",
		"UCX_WARN_UNUSED_ENV_VARS=n",
		"UCX_LOG_LEVEL=fatal",
		"UCX_TLS=" + o.tls,
		"UCX_NET_DEVICES=" + local.interface,
		/*
		 * A piece and its header are one message. UCX could put a longer one in place, but not with errors
		 * handled (openucx/ucx#11929): it comes through this buffer in any case, so without a rendezvous.
		 */
		"UCX_TCP_TX_SEG_SIZE=" + std::to_string(segment),
		"UCX_TCP_RX_SEG_SIZE=" + std::to_string(segment),
		"UCX_RNDV_THRESH=" + std::to_string(segment),
		"UCX_ZCOPY_THRESH=16K",
		/* Else progress waits for a connection to a peer whose ports are closed, for minutes. */
		"UCX_TCP_CONN_NB=y",
		std::string("UCX_TCP_AF_PRIO=") + (local.family() == AF_INET6 ? "inet6" : "inet"),
		"UCX_TCP_PORT_RANGE=" + std::to_string(local.data_first()) + "-" + std::to_string(local.last),
	};
	const char *env[std::size(words) + 1] = {};

	for (size_t i = 0; i < std::size(words); i++)
		env[i] = words[i].c_str();
	execve("/proc/self/exe", argv, const_cast<char **>(env));
}

/* UCX looks for a free port without an end. */
void on_alarm(int)
{
	static constexpr char text[] =
		"error setting none of the ports for data is free, or UCX hangs: the setting net "
		"has other ports behind a colon\n";

	if (write(STDOUT_FILENO, text, sizeof(text) - 1) < 0)
		_exit(2);
	_exit(1);
}

void more_descriptors()
{
	rlimit most;

	if (!getrlimit(RLIMIT_NOFILE, &most)) {
		most.rlim_cur = most.rlim_max;
		setrlimit(RLIMIT_NOFILE, &most);
	}
}

int end_of_caller()
{
	struct stat st;

	return !fstat(STDIN_FILENO, &st) && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)) ? STDIN_FILENO : -1;
}

void on_come(void *, u32, const std::string &address, const u8 host[id_len])
{
	printf("peer %s ", address.c_str());
	for (size_t i = 0; i < id_len; i++)
		printf("%02x", host[i]);
	printf("\n");
	fflush(stdout);
}

void on_gone(void *arg, u32, const std::string &address, int)
{
	printf("left %s %s\n", address.c_str(), std::string(printable(error_text())).c_str());
	fflush(stdout);
	*static_cast<bool *>(arg) = true;
}

void say_listening(const local_net &local, u32 port)
{
	printf("listening %s %u %u %u\n", address_text(local.address).c_str(), port, local.data_first(), local.last);
	fflush(stdout);
}

int serve(node &n, const options &o, const local_net &local, u32 port, const bool &gone)
{
	say_listening(local, port);
	while (!(o.once && gone))
		if (n.turn(deadline::in_ms(1000)))
			return 0;
	return 0;
}

int ask(node &n, const options &o, const sockaddr_storage &to)
{
	bool answered = false;
	u32 slot;
	int err = n.connect(to, &slot);

	if (err)
		return report(kind_of(err), error_text());
	err = measure(n, slot, o.measure, &answered);
	return err ? report(answered ? "lost" : "data", error_text()) : 0;
}

/* Not a child of the program, which may wait for any child, nor in its group, to which a terminal sends signals. */
int leave_parent()
{
	const pid_t pid = fork();

	if (pid > 0)
		_exit(0);
	/* Nor in its directory, which somebody may want to unmount. */
	return pid < 0 || setsid() < 0 || chdir("/") ? fail_errno("a process of its own") : 0;
}

int run_program(node &n, program &p, const local_net &local)
{
	u16 port = 0; /* any of those for control connections */
	int err = n.listen(&port);

	if (!err)
		err = p.attach();
	if (!err)
		err = tool::sandbox_enter_net();
	if (err)
		return report("setting", error_text());
	say_listening(local, port);
	while (!p.tick() && !n.turn(deadline::in_ms(1000))) {
	}
	/* Requests of UCX are left as they are. */
	_exit(0);
}

/* For a program. */
int run_for(const node_options &at, const job_key &key)
{
	program *of = nullptr;
	const node::watcher to = {&of,
				  [](void *arg, u32 slot, const std::string &, const u8 host[id_len]) {
					  (*static_cast<program **>(arg))->peer_came(slot, host);
				  },
				  [](void *arg, u32 slot, const std::string &, int err) {
					  (*static_cast<program **>(arg))->peer_gone(slot, err);
				  },
				  [](void *arg, bytes name) { return (*static_cast<program **>(arg))->listens(name); },
				  [](void *arg, u32 slot, side me, bytes name, unique_fd fd) {
					  (*static_cast<program **>(arg))->stream_came(slot, me, name, std::move(fd));
				  }};

	if (leave_parent())
		return report("other", error_text());
	node n(at, key, to);
	program p(n, STDIN_FILENO);

	of = &p;
	if (const int err = p.begin())
		return report(err == -EPROTONOSUPPORT ? "version" : "other", error_text());
	alarm(10);
	int err = tool::sandbox_leave_privileges();
	if (!err)
		err = n.open(-1);
	alarm(0);
	return err ? report("setting", error_text()) : run_program(n, p, at.local);
}

int run(const options &o, const node_options &at, const job_key &key)
{
	sockaddr_storage to;
	bool gone = false;
	u16 port = u16(o.port ? o.port : at.local.first);
	node n(at, key, {&gone, on_come, o.listen ? on_gone : nullptr});

	if (!o.to.empty() && peer_find(o.to, at.local.family(), port, &to))
		return report("address", error_text());
	alarm(10);
	int err = tool::sandbox_leave_privileges();
	if (!err)
		err = n.open(end_of_caller());
	alarm(0);
	if (!err && o.listen)
		err = n.listen(&port);
	if (!err)
		err = tool::sandbox_enter_net();
	if (err)
		return report("setting", error_text());
	return o.listen ? serve(n, o, at.local, port, gone) : ask(n, o, to);
}

} // namespace

int main(int argc, char **argv)
{
	options o;
	node_options at = {};
	job_key key;

	open_closed_streams();
	if (!parse(argc, argv, &o))
		return usage();
	if (!host_id_parse(o.host, at.host))
		return report("setting", "host_id: it takes 32 hexadecimal digits");
	if (net_find(o.net, &at.local))
		return report("setting", error_text());
	if (!getenv(started))
		restart(argv, o, at.local);
	if (!getenv(started))
		return report("other", "/proc is not mounted, and the program cannot start itself anew");
	signal(SIGPIPE, SIG_IGN);
	signal(SIGALRM, on_alarm);
	more_descriptors();
	if (key.read(o.key_file.c_str()))
		return report("setting", error_text());
	at.lost_ms = u32(o.lost_ms);
	return o.program ? run_for(at, key) : run(o, at, key);
}
