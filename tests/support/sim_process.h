/* SPDX-License-Identifier: BSD-3-Clause */
/* A device as a separate process: usdma-sim, started, controlled and ended by a test. */
#pragma once

#include <csignal>
#include <string>
#include <sys/types.h>
#include <vector>

namespace usdma::test {

/*
 * Starts a program with "--socket PATH" and the arguments; returns when it serves; -1: not within 20 s.
 * USDMA_TEST_BEHIND=DEVICE: it shares this device (usdma-sim --backend).
 */
pid_t start_sim(const char *program, const std::string &path, const std::vector<const char *> &args);
/* Sends the signal and waits; the status of waitpid(2).  pid becomes -1; a pid below 1 is ignored. */
int end_sim(pid_t &pid, int sig = SIGKILL);

/* The program that USDMA_SIM names, at "dev" in a new folder; the destructor kills it and removes the folder. */
struct served_sim {
	char dir[32] = "/tmp/usdma-served-XXXXXX";
	std::string path;
	pid_t pid;

	explicit served_sim(const std::vector<const char *> &args);
	~served_sim();
	served_sim(const served_sim &) = delete;
	served_sim &operator=(const served_sim &) = delete;
};

/* The child processes of usdma-sim at this moment. */
std::vector<pid_t> children_of(pid_t sim);
/* The child that serves the current client; waits for it; -1: not within 20 s. */
pid_t client_process_of(pid_t sim);

/* Stops all threads of usdma-sim and its children, and waits until they are stopped; continues them. */
void stop_sim(pid_t sim);
void continue_sim(pid_t sim);

/* The control socket ("--control PATH"): connects; reads a line ("": end of file); sends a line, returns the answer. */
int connect_unix(const std::string &path);
std::string read_line(int fd);
std::string send_control_line(const std::string &path, const std::string &line);

} // namespace usdma::test
