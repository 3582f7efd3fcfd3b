/* SPDX-License-Identifier: BSD-3-Clause */
/* Checksums by sha256sum(1), which is independent of usdma. */
#include "tools/demo/job.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <spawn.h>
#include <stdexcept>
#include <sys/wait.h>
#include <unistd.h>

namespace usdma::demo {

static pid_t spawn(int in, int out)
{
	static char name[] = "sha256sum";
	char *argv[] = {name, nullptr};
	posix_spawn_file_actions_t actions;
	pid_t pid;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, in, 0);
	posix_spawn_file_actions_adddup2(&actions, out, 1);
	const int err = posix_spawnp(&pid, name, &actions, nullptr, argv, environ);

	posix_spawn_file_actions_destroy(&actions);
	if (err)
		throw std::runtime_error(std::string("cannot run sha256sum: ") + strerror(err));
	return pid;
}

static void write_all(int fd, const char *data, size_t len)
{
	while (len) {
		const ssize_t n = write(fd, data, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return; /* it exited early: answer() reports that */
		data += n;
		len -= size_t(n);
	}
}

static std::string answer(int fd, pid_t pid)
{
	char text[65] = {};
	size_t have = 0;
	int status;

	for (ssize_t n; have < 64 && (n = read(fd, text + have, 64 - have)) > 0;)
		have += size_t(n);
	close(fd);
	if (waitpid(pid, &status, 0) != pid || status || have != 64)
		throw std::runtime_error("sha256sum gave no checksum");
	return text;
}

static void make_pipe(int fd[2])
{
	if (pipe2(fd, O_CLOEXEC))
		throw std::runtime_error(std::string("pipe: ") + strerror(errno));
}

std::string sha256_of_file(const std::string &path)
{
	const int in = open(path.c_str(), O_RDONLY | O_CLOEXEC);
	int out[2];

	if (in < 0)
		throw std::runtime_error(path + ": " + strerror(errno));
	make_pipe(out);
	const pid_t pid = spawn(in, out[1]);
	close(in);
	close(out[1]);
	return answer(out[0], pid);
}

std::string sha256_of(const char *data, size_t len)
{
	int in[2], out[2];

	signal(SIGPIPE, SIG_IGN);
	make_pipe(in);
	make_pipe(out);
	const pid_t pid = spawn(in[0], out[1]);
	close(in[0]);
	close(out[1]);
	write_all(in[1], data, len);
	close(in[1]);
	return answer(out[0], pid);
}

} // namespace usdma::demo
