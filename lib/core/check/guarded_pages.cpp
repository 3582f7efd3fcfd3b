/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/core/check/guarded_pages.h"

#include "driver/base/barrier.h"
#include "driver/base/no_destructor.h"
#include "driver/base/page_guard.h"

#include <csignal>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

namespace usdma::core {

namespace {

constexpr size_t max_pages = 1 << 20;
constexpr unsigned max_faults = 64, max_retries = 1000;
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

struct table {
	u32 locked = 0, started = 0;
	sigset_t before_fork;
	u64 size = u64(sysconf(_SC_PAGESIZE));
	page_map pages; /* by address */
	page_fault faults[max_faults];
	unsigned first = 0, n = 0; /* of faults */
	u64 unguarded = 0;
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

class table_lock {
public:
	table_lock() { lock_table(&before_); }
	~table_lock() { unlock_table(before_); }
	table_lock(const table_lock &) = delete;
	table_lock &operator=(const table_lock &) = delete;

private:
	sigset_t before_;
};

/* ---- protection ------------------------------------------------------------------------------------- */

page_map::iterator from(u64 address)
{
	return pages().pages.lower_bound(address);
}

/* Pages of [begin, end) get access f(page): neighbours with the same in one call. False: one did not. */
template <class F> bool change(u64 begin, u64 end, const F &f)
{
	table &t = pages();
	bool good = true;

	for (auto it = from(begin); it != t.pages.end() && it->first < end;) {
		const u64 first = it->first;
		const int has = f(it->second);
		u64 last = first;
		bool changes = false;

		for (; it != t.pages.end() && it->first == last && last < end && f(it->second) == has; ++it) {
			changes = changes || it->second.has != has;
			it->second.has = has;
			it->second.retries = 0;
			last += t.size;
		}
		/* It may be unmapped, or a part of a huge page, or there are too many mappings. */
		if (!changes || !mprotect(reinterpret_cast<void *>(first), last - first, has))
			continue;
		good = false;
		t.unguarded += has == all_access ? 0 : (last - first) / t.size;
	}
	return good;
}

void protect(u64 begin, u64 end)
{
	change(begin, end, [](const page &p) { return p.wanted(); });
}

bool open_pages(u64 begin, u64 end)
{
	return change(begin, end, [](const page &) { return all_access; });
}

/* The pages that lie within. */
byte_range pages_in(const guarded_range &r)
{
	const u64 mask = pages().size - 1;

	return {(r.address + mask) & ~mask, (r.address + r.size) & ~mask};
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
/* Of a page that cannot be read: a load is assumed. */
bool is_store(const ucontext_t *, const page &p)
{
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
void open_rest(u64 begin, u32 operation)
{
	u64 end = begin;

	for (auto it = from(begin);
	     it != pages().pages.end() && it->first == end && it->second.operation() == operation; ++it)
		end += pages().size;
	open_pages(begin, end);
}

void note(const page &p, u64 address, bool writes, const fault_stack &s)
{
	table &t = pages();

	if (t.n == max_faults) {
		t.unguarded++;
		return;
	}
	t.faults[(t.first + t.n) % max_faults] = {
		p.key + address % t.size, writes, p.writers != 0, p.operation(), int(gettid()), s.ip};
	store_release(&t.n, t.n + 1);
}

bool on_protected(void *at, const void *context, bool within)
{
	const auto *const c = static_cast<const ucontext_t *>(context);
	const u64 address = reinterpret_cast<u64>(at);
	fault_stack s = {instruction_of(c)};

	/* The unwinder takes time, and is not for a device's thread. */
	if (!within)
		_Unwind_Backtrace(add_fault_frame, &s);
	const table_lock lock;
	page *const p = page_at(address);
	if (!p)
		return false;
	const u64 begin = address & ~(pages().size - 1);
	const bool writes = is_store(c, *p);
	/* Another thread has opened it meanwhile; or it is not guarded here, but protected by the program. */
	if (p->has == all_access || (p->has == PROT_READ && !writes))
		return p->retries++ < max_retries;
	if (!within)
		note(*p, address, writes, s);
	if (within || !open_pages(begin, begin + pages().size))
		open_rest(begin, p->operation());
	return true;
}

/* ---- fork ------------------------------------------------------------------------------------------- */

void lock_for_fork()
{
	lock_table(&pages().before_fork);
}

void unlock_after_fork()
{
	unlock_table(pages().before_fork);
}

void open_in_child()
{
	open_pages(0, ~u64(0));
	unlock_after_fork();
}

void start()
{
	if (pages().started)
		return;
	pages().started = 1;
	page_guard_on_protected(on_protected);
	pthread_atfork(lock_for_fork, unlock_after_fork, open_in_child);
}

} // namespace

/* ---- ranges ----------------------------------------------------------------------------------------- */

void pages_guard(const guarded_range &r, bool writes, u32 operation)
{
	const byte_range in = pages_in(r);
	table &t = pages();

	/* The program may have replaced the handler. */
	if (in.begin >= in.end || page_guard_install())
		return;
	start();
	const table_lock lock;
	for (u64 at = in.begin; at < in.end; at += t.size) {
		page *p = page_at(at);

		if (!p && (t.pages.size() >= max_pages || !(p = try_emplace(t.pages, at)))) {
			t.unguarded++;
			continue;
		}
		p->key = r.key + (at - r.address);
		(writes ? p->writers : p->readers)++;
		(writes ? p->writer : p->reader) = operation;
	}
	protect(in.begin, in.end);
}

void pages_release(const guarded_range &r, bool writes)
{
	const byte_range in = pages_in(r);
	const table_lock lock;

	for (auto it = from(in.begin); it != pages().pages.end() && it->first < in.end; ++it)
		if (u32 &n = writes ? it->second.writers : it->second.readers; n)
			n--;
	protect(in.begin, in.end);
}

void pages_forget(const guarded_range &r)
{
	const byte_range in = pages_in(r);
	const table_lock lock;

	open_pages(in.begin, in.end);
	pages().pages.erase(from(in.begin), from(in.end));
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
	pending_[by].push_back({time, r, writes});
	pages_guard(r, writes, operation);
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
