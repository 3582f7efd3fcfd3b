/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/core/check/guarded_pages.h"

#include "driver/base/barrier.h"
#include "driver/base/no_destructor.h"
#include "driver/base/page.h"
#include "driver/base/page_guard.h"

#include <csignal>
#include <cstdio>
#include <cstring>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

namespace usdma::core {

namespace {

constexpr size_t max_pages = 1 << 20;
constexpr unsigned max_faults = 64, max_retries = 1000, max_forgotten = 16;
constexpr u64 default_mappings = 65530, least_stack = 32 << 10;
constexpr int all_access = PROT_READ | PROT_WRITE;

/* It remains when it is open again: a thread may be about to enter the handler. */
struct page {
	u64 key = 0;
	u32 readers = 0, writers = 0; /* operations */
	u32 reader = 0, writer = 0;   /* the last ones */
	int has = all_access;
	u32 retries = 0; /* since it was changed */

	int wanted() const { return writers ? PROT_NONE : readers ? PROT_READ : all_access; }
	u32 operation() const { return writers ? writer : reader; }
};
using page_map = std::map<u64, page>;

/* Threads may have faulted there before its pages were opened, and enter the handler later. */
struct forgotten {
	byte_range where = {0, 0};
	u32 retries = 0;
};

struct table {
	u32 locked = 0, started = 0;
	u64 forker = 0; /* the thread that has the lock during fork() */
	u64 size = os_page_size();
	page_map pages; /* by address */
	page_fault faults[max_faults];
	unsigned first = 0, n = 0; /* of faults */
	u64 unguarded = 0;
	u64 runs = 0, max_runs = 0; /* of pages that have the same access, and not all; each takes two mappings */
	forgotten last[max_forgotten];
	unsigned n_forgotten = 0;
};

table &pages()
{
	static no_destructor<table> t;

	return *t;
}

/*
 * No signal handler runs while a thread has the lock, and no one who has it accesses guarded memory: the handler can
 * wait for it.
 */
void lock_table(sigset_t *before)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, before);
	while (exchange_acquire(&pages().locked, 1u))
		sched_yield();
}

void unlock_table(const sigset_t &before)
{
	store_release(&pages().locked, 0u);
	pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

/* The forking thread has it while the program's own handlers of pthread_atfork() run. */
class table_lock {
public:
	table_lock() : takes_(load_relaxed(&pages().forker) != u64(pthread_self()))
	{
		if (takes_)
			lock_table(&before_);
	}
	~table_lock()
	{
		if (takes_)
			unlock_table(before_);
	}
	table_lock(const table_lock &) = delete;
	table_lock &operator=(const table_lock &) = delete;

private:
	bool takes_;
	sigset_t before_;
};

/* ---- protection ------------------------------------------------------------------------------------- */

page_map::iterator from(u64 address)
{
	return pages().pages.lower_bound(address);
}

/* How many runs begin in [begin, end]: one may at the page behind, too. */
u64 runs_in(u64 begin, u64 end)
{
	const table &t = pages();
	auto it = from(begin - t.size);
	u64 n = 0, behind = 0;
	int before = all_access;

	for (; it != t.pages.end() && it->first <= end; ++it) {
		const int has = it->second.has;

		if (it->first != behind)
			before = all_access;
		n += it->first >= begin && has != all_access && has != before;
		before = has;
		behind = it->first + t.size;
	}
	return n;
}

/* Pages that are all in the table. False: they have what they had, or some of it. */
bool set_run(u64 begin, u64 end, int has)
{
	table &t = pages();
	const u64 runs = runs_in(begin, end);

	if (mprotect(reinterpret_cast<void *>(begin), end - begin, has))
		return false;
	for (auto it = from(begin); it != t.pages.end() && it->first < end; ++it) {
		it->second.has = has;
		it->second.retries = 0;
	}
	t.runs += runs_in(begin, end) - runs;
	return true;
}

/* A part may be unmapped, or of a huge page, or there are too many mappings: then each page that can be. */
bool set_pages(u64 begin, u64 end, int has)
{
	if (set_run(begin, end, has))
		return true;
	for (u64 at = begin; at < end; at += pages().size)
		set_run(at, at + pages().size, has);
	return false;
}

/* Pages of [begin, end) get access f(page): neighbours with the same in one call. False: one did not. */
template <class F> bool change(u64 begin, u64 end, const F &f)
{
	const table &t = pages();
	bool good = true;

	for (auto it = from(begin); it != t.pages.end() && it->first < end;) {
		const u64 first = it->first;
		const int has = f(it->second);
		u64 last = first;
		bool changes = false;

		for (; it != t.pages.end() && it->first == last && last < end && f(it->second) == has; ++it) {
			changes = changes || it->second.has != has;
			last += t.size;
		}
		if (changes && !set_pages(first, last, has))
			good = false;
	}
	return good;
}

bool protect(u64 begin, u64 end)
{
	return change(begin, end, [](const page &p) { return p.wanted(); });
}

bool open_pages(u64 begin, u64 end)
{
	return change(begin, end, [](const page &) { return all_access; });
}

/* ---- the handler ------------------------------------------------------------------------------------ */

#ifdef __x86_64__
const void *instruction_of(const ucontext_t *c)
{
	return reinterpret_cast<const void *>(c->uc_mcontext.gregs[REG_RIP]);
}
bool is_store(const ucontext_t *c, const page &)
{
	return c->uc_mcontext.gregs[REG_ERR] & 2;
}
#else
const void *instruction_of(const ucontext_t *c)
{
	return reinterpret_cast<const void *>(c->uc_mcontext.pc);
}
/* Bit 6 of the syndrome, if the kernel has given it; else a load is assumed of a page that cannot be read. */
bool is_store(const ucontext_t *c, const page &p)
{
	struct {
		u32 magic, size;
		u64 esr;
	} r;

	for (size_t at = 0; at + sizeof(r) <= sizeof(c->uc_mcontext.__reserved); at += r.size) {
		memcpy(&r, c->uc_mcontext.__reserved + at, sizeof(r));
		if (r.magic == 0x45535201)
			return r.esr & 64;
		if (!r.magic || !r.size)
			break;
	}
	return p.has == PROT_READ;
}
#endif

struct fault_stack {
	const void *instruction;
	call_stacks::frames ip = {};
	unsigned n = 0;
};

/* From the instruction on; the frames before it are the handler's. Reports take addresses as behind a call. */
_Unwind_Reason_Code add_fault_frame(_Unwind_Context *c, void *arg)
{
	auto *const s = static_cast<fault_stack *>(arg);
	const u64 ip = _Unwind_GetIP(c);

	if (s->n == call_stacks::depth)
		return _URC_END_OF_STACK;
	if (!s->n && reinterpret_cast<const void *>(ip) != s->instruction)
		return _URC_NO_REASON;
	if (ip)
		s->ip[s->n] = reinterpret_cast<void *>(ip + !s->n);
	s->n += ip != 0;
	return _URC_NO_REASON;
}

page *page_at(u64 address)
{
	const auto it = pages().pages.find(address & ~(pages().size - 1));

	return it == pages().pages.end() ? nullptr : &it->second;
}

/* The rest of what the same operation uses, too: a device goes on there, and it takes no further mappings. */
bool open_rest(u64 begin, u32 operation)
{
	u64 end = begin;

	for (auto it = from(begin);
	     it != pages().pages.end() && it->first == end && it->second.operation() == operation; ++it)
		end += pages().size;
	return open_pages(begin, end);
}

/* With all its neighbours that are protected: that takes no further mapping. */
bool open_around(u64 at)
{
	const u64 size = pages().size;
	const auto is_protected = [](u64 address) {
		const page *const p = page_at(address);
		return p && p->has != all_access;
	};
	u64 begin = at, end = at + size;

	while (is_protected(begin - size))
		begin -= size;
	while (is_protected(end))
		end += size;
	return set_run(begin, end, all_access);
}

void note(const page &p, u64 address, bool writes, const fault_stack &s)
{
	table &t = pages();

	if (t.n == max_faults) {
		t.unguarded++;
		return;
	}
	t.faults[(t.first + t.n) % max_faults] = {
		p.key + address % t.size, address, writes, p.writers != 0, p.operation(), int(gettid()), s.ip};
	store_release(&t.n, t.n + 1);
}

/* True: the access is to be tried again. */
bool was_forgotten(u64 address)
{
	for (forgotten &f : pages().last)
		if (f.where.begin <= address && address < f.where.end)
			return f.retries++ < max_retries;
	return false;
}

/* Another thread has opened it meanwhile; or it is not guarded here, but protected by the program. */
bool is_open(const page &p, bool writes)
{
	return p.has == all_access || (p.has == PROT_READ && !writes);
}

/* The page may still be protected as it could not be opened at the end of the copy. */
bool is_race(const page &p, bool writes)
{
	return writes ? p.wanted() != all_access : p.wanted() == PROT_NONE;
}

bool is_noted(u64 address, const ucontext_t *c)
{
	const table_lock lock;
	const page *const p = page_at(address);
	const bool writes = p && is_store(c, *p);

	return p && !is_open(*p, writes) && is_race(*p, writes);
}

/* The unwinder takes time, and more stack than a small alternate one has. A process without one has size 0. */
void unwind(const ucontext_t *c, fault_stack *s)
{
	s->instruction = instruction_of(c);
	if (c->uc_stack.ss_flags & SS_DISABLE || !c->uc_stack.ss_size || c->uc_stack.ss_size >= least_stack)
		_Unwind_Backtrace(add_fault_frame, s);
	if (!s->n)
		s->ip[0] = reinterpret_cast<void *>(reinterpret_cast<u64>(s->instruction) + 1);
}

bool on_protected(void *at, const void *context, bool within)
{
	const auto *const c = static_cast<const ucontext_t *>(context);
	const u64 address = reinterpret_cast<u64>(at), begin = address & ~(pages().size - 1);
	const bool notes = !within && is_noted(address, c);
	fault_stack s = {};

	/* Without the lock: the unwinder takes locks of its own. */
	if (notes)
		unwind(c, &s);
	const table_lock lock;
	page *const p = page_at(address);
	if (!p)
		return was_forgotten(address);
	const bool writes = is_store(c, *p);
	if (is_open(*p, writes))
		return p->retries++ < max_retries;
	const bool opened = within ? open_rest(begin, p->operation()) : open_pages(begin, begin + pages().size);
	if (!opened && p->has != all_access && !open_around(begin))
		return p->retries++ < max_retries;
	if (notes && is_race(*p, writes))
		note(*p, address, writes, s);
	return true;
}

/* ---- fork ------------------------------------------------------------------------------------------- */

/* Signals are not blocked meanwhile: the program's own handlers may access guarded pages. */
void lock_for_fork()
{
	sigset_t before;

	lock_table(&before);
	store_relaxed(&pages().forker, u64(pthread_self()));
	pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void unlock_after_fork()
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	store_relaxed(&pages().forker, u64(0));
	unlock_table(before);
}

void open_in_child()
{
	open_pages(0, ~u64(0));
	unlock_after_fork();
}

/* A quarter of the process's mappings, so that half of them remain the program's. */
u64 most_runs()
{
	const std::unique_ptr<FILE, int (*)(FILE *)> file(fopen("/proc/sys/vm/max_map_count", "re"), fclose);
	unsigned long n = 0;

	return (file && fscanf(file.get(), "%lu", &n) == 1 ? u64(n) : default_mappings) / 4;
}

void start()
{
	if (pages().started)
		return;
	pages().started = 1;
	pages().max_runs = most_runs();
	page_guard_on_protected(on_protected);
	pthread_atfork(lock_for_fork, unlock_after_fork, open_in_child);
}

/* The program may have replaced the handler. Its error text is that of its own call. */
bool has_handler()
{
	const saved_error before;
	const bool has = !page_guard_install() && page_guard_is_installed();

	before.again(0);
	return has;
}

/*
 * Those that the table lacks. Made, and destroyed, without the lock: a thread within malloc() may fault, and would
 * wait for it for ever. Only callers with the check's lock change which pages there are.
 */
bool make_missing(byte_range in, page_map *fresh)
{
	const table &t = pages();
	const auto make = [&] {
		for (u64 at = in.begin; at < in.end; at += t.size)
			if (!t.pages.count(at))
				fresh->try_emplace(fresh->end(), at);
	};

	return (in.end - in.begin) / t.size <= max_pages && fits(make) && t.pages.size() + fresh->size() <= max_pages;
}

void release(byte_range in, bool writes)
{
	for (auto it = from(in.begin); it != pages().pages.end() && it->first < in.end; ++it)
		if (u32 &n = writes ? it->second.writers : it->second.readers; n)
			n--;
	protect(in.begin, in.end);
}

bool try_guard(const guarded_range &r, byte_range in, bool writes, u32 operation)
{
	page_map fresh;

	if (!has_handler() || !make_missing(in, &fresh))
		return false;
	start();
	const table_lock lock;
	table &t = pages();
	if (t.runs >= t.max_runs)
		return false;
	t.pages.merge(fresh);
	for (auto it = from(in.begin); it != t.pages.end() && it->first < in.end; ++it) {
		page &p = it->second;

		p.key = r.key + (it->first - r.address);
		(writes ? p.writers : p.readers)++;
		(writes ? p.writer : p.reader) = operation;
	}
	if (protect(in.begin, in.end))
		return true;
	release(in, writes);
	return false;
}

} // namespace

/* ---- ranges ----------------------------------------------------------------------------------------- */

byte_range pages_in(const guarded_range &r)
{
	const u64 mask = pages().size - 1;

	return {(r.address + mask) & ~mask, (r.address + r.size) & ~mask};
}

bool pages_guard(const guarded_range &r, bool writes, u32 operation)
{
	const byte_range in = pages_in(r);

	if (in.begin >= in.end)
		return false;
	if (try_guard(r, in, writes, operation))
		return true;
	const table_lock lock;
	pages().unguarded += (in.end - in.begin) / pages().size;
	return false;
}

void pages_release(const guarded_range &r, bool writes)
{
	const table_lock lock;

	release(pages_in(r), writes);
}

void pages_forget(const guarded_range &r)
{
	const byte_range in = pages_in(r);
	page_map erased; /* destroyed without the lock */
	const table_lock lock;
	table &t = pages();

	open_pages(in.begin, in.end);
	for (auto it = from(in.begin); it != t.pages.end() && it->first < in.end;)
		erased.insert(erased.end(), t.pages.extract(it++));
	if (!erased.empty())
		t.last[t.n_forgotten++ % max_forgotten] = {in};
}

bool page_fault_take(page_fault *out)
{
	table &t = pages();

	if (likely(!load_acquire(&t.n)))
		return false;
	const table_lock lock;
	*out = t.faults[t.first];
	t.first = (t.first + 1) % max_faults;
	store_release(&t.n, t.n - 1);
	return true;
}

u64 pages_unguarded()
{
	const table_lock lock;

	return pages().unguarded;
}

/* ---- operations ------------------------------------------------------------------------------------- */

void race_guards::add(context_id by, u64 time, const guarded_range &r, bool writes, u32 operation)
{
	auto &all = pending_[by];

	all.push_back({time, r, writes, operation});
	if (!pages_guard(r, writes, operation))
		all.pop_back();
}

void race_guards::verify(const history &order, context_id thread)
{
	for (auto it = pending_.begin(); it != pending_.end();) {
		auto &[by, all] = *it;
		const u64 latest = order.latest(thread, by);

		for (; !all.empty() && all.front().time <= latest; all.pop_front())
			pages_release(all.front().where, all.front().writes);
		it = all.empty() ? pending_.erase(it) : std::next(it);
	}
}

void race_guards::forget(const guarded_range &r)
{
	for (auto &[by, all] : pending_)
		std::erase_if(all, [&](const guard &g) {
			return g.where.address < r.address + r.size && r.address < g.where.address + g.where.size;
		});
	pages_forget(r);
}

void race_guards::remove(context_id by)
{
	const auto it = pending_.find(by);

	if (it == pending_.end())
		return;
	for (const guard &g : it->second)
		pages_release(g.where, g.writes);
	pending_.erase(it);
}

} // namespace usdma::core
