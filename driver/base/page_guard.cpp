/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/base/page_guard.h"

#include "driver/base/barrier.h"
#include "driver/base/error.h"
#include "driver/base/no_destructor.h"
#include "driver/base/log.h"

#include <cerrno>
#include <mutex>
#include <pthread.h>
#include <ucontext.h>

namespace usdma {

using handler = void (*)(int sig, siginfo_t *info, void *context);

/*
 * One handler function for each installation, with the handler that it replaced.  A program's handler that was
 * installed later may call or restore the one that it replaced, which is one of ours from an earlier installation; that
 * one passes the signal to its own predecessor, so the chain never loops.
 */
static constexpr unsigned most_times = 8;

struct taken {
	int sig;
	unsigned times = 0;
	bool lost = false; /* replaced too often */
	struct sigaction before[most_times] = {};
};

struct guard_state {
	std::mutex lock;
	taken of[2] = {{SIGSEGV}, {SIGBUS}};
	pthread_key_t key = 0;
	u32 ready = 0; /* the key is made */
	protected_page on_protected = nullptr;
};
static constinit no_destructor<guard_state> state;

/* Outside of a guard: of a thread that did not block the signals at its last check. Never armed. */
static page_guard checked;

/* Async-signal-safe: pthread_getspecific() allocates nothing, even in a thread that has set no value. */
static page_guard *innermost()
{
	return load_acquire(&state->ready) ? static_cast<page_guard *>(pthread_getspecific(state->key)) : nullptr;
}

static constexpr int caught[] = {SIGSEGV, SIGBUS};

static sigset_t set_of(u32 signals)
{
	sigset_t set;

	sigemptyset(&set);
	for (unsigned i = 0; i < 2; i++)
		if (signals & u32(1) << i)
			sigaddset(&set, caught[i]);
	return set;
}

/* The thread's outermost guard, or all that it has: the others find them unblocked. */
[[gnu::cold, gnu::noinline]] static void unblock(page_guard *g)
{
	const sigset_t both = set_of(3);
	sigset_t before;

	pthread_sigmask(SIG_UNBLOCK, &both, &before);
	for (unsigned i = 0; i < 2; i++)
		g->was_blocked |= u32(sigismember(&before, caught[i]) == 1) << i;
	if (!g->was_blocked)
		g->outer = &checked;
}

[[gnu::cold, gnu::noinline]] static void block_again(page_guard *g)
{
	const sigset_t set = set_of(g->was_blocked);

	g->was_blocked = 0;
	pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

void page_guard_enter(page_guard *g)
{
	if (unlikely(!load_acquire(&state->ready)))
		return;
	g->outer = innermost();
	if (unlikely(!g->outer))
		unblock(g);
	pthread_setspecific(state->key, g);
}

void page_guard_leave(page_guard *g)
{
	if (unlikely(!load_acquire(&state->ready)))
		return;
	pthread_setspecific(state->key, g->outer);
	if (unlikely(g->was_blocked))
		block_again(g);
}

void page_guard_recheck()
{
	if (innermost() == &checked)
		pthread_setspecific(state->key, nullptr);
}

/* Default action: the faulting access is repeated when the handler returns; a signal that was sent is raised again. */
static void die(int sig, const siginfo_t *info)
{
	signal(sig, SIG_DFL);
	if (info->si_code <= 0)
		raise(sig);
}

static void call(const struct sigaction &to, int sig, siginfo_t *info, void *context)
{
	sigset_t mask = to.sa_mask, before;

	if (!(to.sa_flags & SA_NODEFER))
		sigaddset(&mask, sig);
	pthread_sigmask(SIG_BLOCK, &mask, &before);
	if (to.sa_flags & SA_SIGINFO)
		to.sa_sigaction(sig, info, context);
	else
		to.sa_handler(sig);
	pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

static void pass_on(struct sigaction &to, int sig, siginfo_t *info, void *context)
{
	const struct sigaction now = to;

	if (!(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_IGN && info->si_code <= 0)
		return;
	if (!(now.sa_flags & SA_SIGINFO) && (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN)) {
		die(sig, info);
		return;
	}
	if (now.sa_flags & SA_RESETHAND) {
		to.sa_flags = 0;
		to.sa_handler = SIG_DFL;
	}
	call(now, sig, info, context);
}

/* Addresses of programs have at most so many bits; a handler may see them without those above. */
static constexpr u64 address_mask = (u64(1) << 56) - 1;
/* From here on an access may raise a signal that does not say where (x86: not canonical). */
static constexpr u64 nowhere_from = u64(1) << 47;

static u64 address_of(const void *p)
{
	return reinterpret_cast<u64>(p);
}

/* grain: the signal is for as many bytes around the address. */
static bool is_in(const access_range &r, const void *at, u64 grain)
{
	const u64 first = address_of(at) & ~(grain - 1), begin = address_of(r.at);

	return r.len && (((first - begin) & address_mask) < r.len || ((begin - first) & address_mask) < grain);
}

static bool is_beyond(const access_range &r)
{
	return r.len && address_of(r.at) + r.len > nowhere_from;
}

/* The fault is one of the guarded access. */
static bool covers(const page_guard &g, const siginfo_t *info)
{
	const u64 grain = info->si_signo == SIGBUS && info->si_code == BUS_MCEERR_AR ? u64(1) << info->si_addr_lsb : 1;

	if (!g.of[0].len && !g.of[1].len)
		return true;
	if (info->si_code == SI_KERNEL)
		return is_beyond(g.of[0]) || is_beyond(g.of[1]);
	return is_in(g.of[0], info->si_addr, grain) || is_in(g.of[1], info->si_addr, grain);
}

static page_guard *guard_of(const siginfo_t *info)
{
	page_guard *const g = info->si_code > 0 && info->si_code != BUS_MCEERR_AO ? innermost() : nullptr;

	return g && g->armed && covers(*g, info) ? g : nullptr;
}

template <unsigned nth> static void on_fault(int sig, siginfo_t *info, void *context)
{
	const int err = errno;
	page_guard *const g = guard_of(info);
	const protected_page first = sig == SIGSEGV && info->si_code == SEGV_ACCERR ?
					     load_acquire(&state->on_protected) :
					     nullptr;

	if (first && first(info->si_addr, context, g)) {
		errno = err;
		return;
	}
	if (g) {
		g->armed = 0;
		g->address = info->si_addr;
		/* ThreadSanitizer calls handlers with all signals blocked: restore the mask of the interrupted code. */
		pthread_sigmask(SIG_SETMASK, &static_cast<ucontext_t *>(context)->uc_sigmask, nullptr);
		siglongjmp(g->resume, 1);
	}
	pass_on(state->of[sig == SIGBUS].before[nth], sig, info, context);
	errno = err;
}

static constexpr handler handlers[most_times] = {on_fault<0>, on_fault<1>, on_fault<2>, on_fault<3>,
						 on_fault<4>, on_fault<5>, on_fault<6>, on_fault<7>};

static bool is_ours(const struct sigaction &now)
{
	for (const handler h : handlers)
		if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == h)
			return true;
	return false;
}

static int take_over(taken *t)
{
	struct sigaction now, ours = {};

	if (sigaction(t->sig, nullptr, &now))
		return fail_errno("cannot read the handler of signal %d", t->sig);
	t->lost = !is_ours(now) && t->times == most_times;
	if (is_ours(now))
		return 0;
	if (t->lost) {
		log_warn_limited("the handler of signal %d was replaced %u times: memory unmapped while it is copied "
				 "raises it from now on",
				 t->sig, most_times);
		return 0;
	}
	t->before[t->times] = now;
	ours.sa_sigaction = handlers[t->times];
	ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | (now.sa_flags & SA_RESTART);
	sigemptyset(&ours.sa_mask);
	if (sigaction(t->sig, &ours, nullptr))
		return fail_errno("cannot handle signal %d", t->sig);
	t->times++;
	return 0;
}

void page_guard_on_protected(protected_page f)
{
	store_release(&state->on_protected, f);
}

int page_guard_install()
{
	std::lock_guard guard(state->lock);

	if (!state->ready) {
		if (const int err = pthread_key_create(&state->key, nullptr))
			return fail(err, "no thread-specific data is left for the library (PTHREAD_KEYS_MAX)");
		store_release(&state->ready, 1u);
	}
	for (taken &t : state->of)
		if (const int err = take_over(&t))
			return err;
	return 0;
}

bool page_guard_is_installed()
{
	std::lock_guard guard(state->lock);

	return load_acquire(&state->ready) && !state->of[0].lost;
}

} // namespace usdma
