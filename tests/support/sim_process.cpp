/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/support/sim_process.h"

#include "tests/support/test.h"

#include "driver/base/clock.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

namespace usdma::test {

[[noreturn]] static void exec_sim(const char *program, const std::string &path, int ready,
				  const std::vector<const char *> &args)
{
	const std::string ready_text = std::to_string(ready);
	std::vector<const char *> all = {"usdma-sim", "--socket", path.c_str(), "--ready-fd", ready_text.c_str()};

	all.insert(all.end(), args.begin(), args.end());
	if (const char *const behind = getenv("USDMA_TEST_BEHIND"))
		all.insert(all.end(), {"--backend", behind});
	all.push_back(nullptr);
	/* It must not outlive the thread that started it: the test runner waits until its output is closed. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(STDERR_FILENO, STDOUT_FILENO); /* standard output is the test's report */
	execv(program, const_cast<char **>(all.data()));
	_exit(127);
}

pid_t start_sim(const char *program, const std::string &path, const std::vector<const char *> &args)
{
	int ready[2];
	char c;

	if (!program)
		print_error("USDMA_SIM must name usdma-sim\n");
	if (!program || pipe(ready))
		return -1;
	pid_t pid = fork();
	if (pid == 0) {
		close(ready[0]);
		exec_sim(program, path, ready[1], args);
	}
	close(ready[1]);
	pollfd p = {ready[0], POLLIN, 0};
	const bool serves = pid > 0 && poll(&p, 1, 20000) == 1 && read(ready[0], &c, 1) == 1;
	close(ready[0]);
	if (!serves)
		end_sim(pid);
	return pid;
}

int end_sim(pid_t &pid, int sig)
{
	int status = 0;

	if (pid > 0) {
		kill(pid, sig);
		waitpid(pid, &status, 0);
	}
	pid = -1;
	return status;
}

served_sim::served_sim(const std::vector<const char *> &args)
{
	assert_non_null(mkdtemp(dir));
	path = std::string(dir) + "/dev";
	pid = start_sim(getenv("USDMA_SIM"), path, args);
	assert_true(pid > 0);
}

served_sim::~served_sim()
{
	end_sim(pid);
	unlink(path.c_str());
	rmdir(dir);
}

static bool has_engine_thread(pid_t pid)
{
	std::error_code err;

	for (const auto &task : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task", err)) {
		std::string name;

		if (std::getline(std::ifstream(task.path() / "comm"), name) && name == "sdma-engine0")
			return true;
	}
	return false;
}

std::vector<pid_t> children_of(pid_t sim)
{
	const std::string pid = std::to_string(sim);
	std::ifstream in("/proc/" + pid + "/task/" + pid + "/children");
	std::vector<pid_t> out;

	for (pid_t child; in >> child;)
		out.push_back(child);
	return out;
}

pid_t client_process_of(pid_t sim)
{
	const deadline until = deadline::in_ms(20000);

	for (; !until.passed(); sched_yield())
		for (pid_t child : children_of(sim))
			if (has_engine_thread(child))
				return child;
	return -1;
}

/* Whether all threads are stopped.  The state follows the name, which may have any characters. */
static bool is_stopped(pid_t pid)
{
	std::error_code err;

	for (const auto &task : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task", err)) {
		std::string line;

		std::getline(std::ifstream(task.path() / "stat"), line);
		const size_t name_end = line.rfind(')');
		if (name_end != line.npos && name_end + 2 < line.size() && !strchr("TZX", line[name_end + 2]))
			return false;
	}
	return true;
}

void stop_sim(pid_t sim)
{
	const deadline until = deadline::in_ms(20000);

	/* First the process that starts and monitors the others. */
	kill(sim, SIGSTOP);
	while (!is_stopped(sim) && !until.passed())
		sched_yield();
	for (pid_t child : children_of(sim)) {
		kill(child, SIGSTOP);
		while (!is_stopped(child) && !until.passed())
			sched_yield();
	}
}

void continue_sim(pid_t sim)
{
	for (pid_t child : children_of(sim))
		kill(child, SIGCONT);
	kill(sim, SIGCONT);
}

int connect_unix(const std::string &path)
{
	const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	sockaddr_un a = {};

	a.sun_family = AF_UNIX;
	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path.c_str());
	assert_int_equal(connect(fd, reinterpret_cast<sockaddr *>(&a), sizeof(a)), 0);
	return fd;
}

/* One line; "": the connection ended. */
std::string read_line(int fd)
{
	std::string out;
	char c;

	while (read(fd, &c, 1) == 1) {
		if (c == '\n')
			return out;
		out += c;
	}
	return "";
}

std::string send_control_line(const std::string &path, const std::string &line)
{
	const int fd = connect_unix(path);
	const std::string text = line + "\n";

	assert_int_equal(send(fd, text.data(), text.size(), MSG_NOSIGNAL), text.size());
	std::string answer = read_line(fd);

	close(fd);
	return answer;
}

} // namespace usdma::test
