/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pairs: a call in progress, held at a defects point, and what disturbs it. docs/reliability.md has the results, which
 * pairs_results.cpp states. Each cell runs in a process of its own.
 */
#pragma once

#include "tests/integration/faults.h"
#include "tests/integration/files.h"
#include "usdma/uring.h"

#include <atomic>
#include <functional>
#include <liburing.h>
#include <pthread.h>
#include <vector>

namespace usdma::test::pairs {

/* Where the call is when it is disturbed. */
enum class point {
	gate,   /* the stream waits for a value before the call's work */
	engine, /* the engine is stopped in an earlier copy */
	full,   /* the same, and the ring is full: the call waits for a slot */
	page,   /* a page that the call, or what it submitted, accesses is late (userfaultfd) */
	none    /* nothing holds it: the disturbance lasts during the whole call */
};
inline constexpr const char *point_names[] = {"gate", "engine", "full ring", "late page", "-"};

/* What the results have in common. */
enum class sort {
	work,
	slots,
	batch,
	in,
	out,
	sync,
	file,
	file_sync,
	wait,
	wait_device,
	wait_event,
	host_func,
	signal,
	completion,
	memory,
	unpin,
	destroy,
	close
};

/* Memory whose accesses block until they are released; the content stays. */
class late_memory {
public:
	static bool available();
	void hold(void *p, size_t len);
	bool touched(int ms) const;
	void release();

private:
	int fd_ = -1;
	unsigned char *p_ = nullptr;
	bytes content_;
};

/* A call in a thread of its own. */
class actor {
public:
	static constexpr int ended = 1000; /* the thread did not return from the call */

	void start(std::function<int()> call);
	bool over() const { return over_; }
	/* True: over; false: it sleeps, or is blocked by a page. */
	bool over_or_blocked() const;
	bool over_within(int ms) const;
	void show_stack() const;
	int result();
	pthread_t thread() const { return thread_; }

private:
	static void *main(void *arg);

	std::function<int()> call_;
	std::atomic<bool> over_{false};
	std::atomic<int> tid_{0};
	int result_ = ended;
	pthread_t thread_{};
};

/* Memory, or a file, of a call: what it holds before, and, in its items, after the call. */
struct area {
	kind what = kind::pageable;
	unsigned char *p = nullptr;
	size_t size = 0;
	int fd = -1; /* a file */
	bytes before, after;
	bytes frozen;         /* when it was unregistered: it does not change any more */
	bool removed = false; /* was freed or unregistered */

	explicit operator bool() const { return p || fd >= 0; }
};

struct item {
	size_t at, len;
};

inline constexpr size_t guard = 4096, len = 64 * KiB;

struct world {
	usdma_device *dev = nullptr, *peer = nullptr;
	usdma_stream *s = nullptr, *other = nullptr;
	uint64_t *word = nullptr; /* the gate: open when it is 1 */
	area src, dst, fresh, stays;
	std::vector<item> items; /* of dst */
	size_t done = 0;
	bool counts = false; /* the call reports *done */
	usdma_copy_item *list = nullptr;
	usdma_event *event = nullptr;
	usdma_completion *completion = nullptr;
	io_uring ring{};
	int fd = -1;
	usdma_file *file = nullptr;
	void *got = nullptr; /* by a call with a result */
	void **out = nullptr;
	late_memory late;
	void *late_at = nullptr;
	size_t late_len = guard;
	bool closed = false, stream_ended = false, lost = false, stopped = false;
	int silent = -1; /* a socket of a device that does not answer */
	actor a, b;
};

/* Memory of one kind, filled; device memory of dev. */
area make_area(usdma_device *dev, kind k, size_t size, const bytes &content);
void drop_area(area *a);
void fill_area(usdma_device *dev, const area &a, const bytes &content);
bytes content_of(usdma_device *dev, const area &a);

struct call {
	const char *name;
	sort is;
	std::vector<point> points;
	void (*prepare)(world &w);
	int (*run)(world &w);
	/* The result of the work, once call and disturbance are over; nullptr: that of the stream. */
	int (*later)(world &w) = nullptr;
	/* 'd' done, 'n' not, 'p' in part, '?' cannot be seen; nullptr: by the items of dst. */
	char (*state)(world &w) = nullptr;
};
extern const std::vector<call> calls;

enum : unsigned {
	before = 1,        /* begins before the call, and fds after it */
	alone = 2,         /* returns, whatever holds the call */
	keeps_gate = 4,    /* the call must end although the gate stays closed */
	drops = 8,         /* what was submitted may be dropped */
	takes_stream = 16, /* by its handle */
	destroys_stream = 32,
	closes_device = 64,
	ignores_page = 128 /* returns although a page is late */
};

struct disturbance {
	const char *name;
	unsigned flags;
	int (*run)(world &w);            /* 0, or for "destroy" the stream's error */
	void (*end)(world &w) = nullptr; /* of one that began before */

	bool is(unsigned flag) const { return flags & flag; }
};
extern const std::vector<disturbance> disturbances;

/*
 * The results that are right, separated by commas: "done"; a code of the call ("EBADF"); "later " and the code of the
 * next wait; "dropped": nothing was done, as documented. "- " and the reason: the cell cannot be made.
 */
struct expected {
	std::string results;
	const char *finding = nullptr; /* of a defect that is given: the cell may fail */
};
/* Its work is queued: it waits for nothing. */
bool returns_at_once(const call &c, point p);
expected expected_of(const call &c, point p, const disturbance &d);
/* The table of docs/reliability.md. */
std::string results_page();

std::string name_of_error(int err);
bool is_process();
bool has_faults();
int sim_pid(unsigned n);

} // namespace usdma::test::pairs
