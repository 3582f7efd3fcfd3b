/* SPDX-License-Identifier: BSD-3-Clause */
/* A device as a process of its own: usdma-sim, started, told and ended by a test. */
#pragma once

#include <csignal>
#include <string>
#include <sys/types.h>
#include <vector>

namespace usdma::test {

/* Starts a program with "--socket PATH" and the arguments; returns when it serves, -1: it did not within 20 s. */
pid_t start_sim(const char *program, const std::string &path, const std::vector<const char *> &args);
/* Sends the signal, waits; the status of waitpid(2).  pid becomes -1; nothing for a pid below 1. */
int end_sim(pid_t &pid, int sig = SIGKILL);

/* The program that USDMA_SIM names, at "dev" in a folder of its own; killed, and the folder gone, at the end. */
struct served_sim {
	char dir[32] = "/tmp/usdma-served-XXXXXX";
	std::string path;
	pid_t pid;

	explicit served_sim(const std::vector<const char *> &args);
	~served_sim();
	served_sim(const served_sim &) = delete;
	served_sim &operator=(const served_sim &) = delete;
};

/* Its own processes, just now. */
std::vector<pid_t> children_of(pid_t sim);
/* The process of its that serves the client which is there; waits for it, -1: it did not come within 20 s. */
pid_t client_process_of(pid_t sim);

/* It and its processes hang, each thread of them, when this returns; and go on. */
void stop_sim(pid_t sim);
void continue_sim(pid_t sim);

/* Its control socket ("--control PATH"): a connection; one line of it, "": it ended; the answer to one line. */
int dial(const std::string &path);
std::string read_line(int fd);
std::string tell_sim(const std::string &path, const std::string &line);

} // namespace usdma::test
