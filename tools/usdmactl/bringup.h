/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * usdmactl bringup: what its steps share. They use the engine's driver directly, without the library above it.
 *
 *   bringup.cpp        the command: the steps in order, the report
 *   bringup_bench.cpp  a device, its memory, requests and waits
 *   bringup_steps.cpp  the steps
 *   bringup_soak.cpp   the last of them: all at once, many times
 */
#pragma once

#include "driver/base/mapping.h"
#include "driver/base/unique_fd.h"
#include "driver/dma/engine.h"
#include "tools/usdmactl/ctl.h"
#include "tools/usdmactl/trace.h"

#include <nlohmann/json.hpp>
#include <random>

namespace usdma::ctl::trial {

/* What is not as expected; "": all is. */
using surprise = std::string;

/* A device and memory that it may access; `want` has what this is to contain. */
class bench {
public:
	bench(const bringup_options &opt, trace *t) : options(opt), gen(opt.seed), trace_(t) {}
	~bench();
	bench(const bench &) = delete;
	bench &operator=(const bench &) = delete;

	/* Opens the device, and finds its driver. */
	surprise open();
	/* A read that begins a step: of eight bytes at 0 of configuration space, which no driver reads so. */
	surprise mark();
	/* The driver takes the device over. */
	surprise start();
	/* Closes everything; the memory stays, and can be verified. */
	void close();

	surprise open_channel(u32 index);
	void close_channel();
	/* That the device has raised since it was opened. */
	u64 interrupts() const { return trace_->interrupts.count(); }
	/* The device itself, until start(). */
	vfio::device &device() { return eng ? eng->transport() : *dev_; }

	/* Into the ring, when there is space; the caller announces it. */
	surprise post(const dma::request &r);
	void announce();
	/* Posts, announces and expects a copy. */
	surprise copy(u64 to, u64 from, u64 len, u64 cookie = 0);
	surprise await(u64 seq);
	surprise await_all() { return await(ch->posted); }
	/* As await(), by the interrupt. *ms: how long it slept; -1: all was complete before. */
	surprise sleep_until(u64 seq, double *ms);
	/* Until it has halted, whatever the reason. */
	surprise await_halt();
	/* The channel has halted at seq as it should, and goes on. at: some address of `len` bytes. */
	surprise take_fault(u64 seq, dma::fault_reason why, u64 at, u64 len);
	/* After engine::reset(). */
	surprise reopen();
	surprise verify();
	/* What is there now is what is wanted. */
	void accept(u64 at, u64 len);
	void randomize();

	dma::request request(u64 to, u64 from, u64 len, u64 cookie = 0) const;
	u64 random(u64 below) { return gen() % below; }
	/* Host memory that the device may not access. */
	u64 hole() const { return iova + size; }
	/* Of one copy. */
	u64 most_len() const;

	const bringup_options &options;
	/* By which texts of errors may name the device, each before its parts. */
	std::vector<std::string> names;
	json notes; /* of the current step */
	const dma::driver *driver = nullptr;
	std::unique_ptr<dma::engine> eng;
	dma::channel *ch = nullptr;
	u8 *bytes = nullptr;
	std::vector<u8> want;
	u64 iova = 0, size = 0, half = 0;
	bool is_slow = false; /* the first copy took long: few of them are made */
	std::mt19937_64 gen;

private:
	surprise map_memory();
	surprise halted_at(u64 seq);
	surprise hangs(u64 seq);

	trace *const trace_;
	std::unique_ptr<vfio::device> dev_;
	unique_fd file_;
	mapping memory_;
	bool is_mapped_ = false;
};

struct bringup_step {
	const char *name, *title;
	const char *check; /* what to check first if it fails */
	bool in_flight;    /* many copies: what is written to a register depends on the moment */
	surprise (*run)(bench &b);
	bool is_needed = false; /* by those after it: the engine and the channel that they use */
};
std::span<const bringup_step> bringup_steps();
surprise bringup_soak(bench &b);
/* The library's text for err, a negative errno. */
surprise failed(const char *what, int err);

} // namespace usdma::ctl::trial
