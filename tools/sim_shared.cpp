/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/sim_shared.h"

#include "driver/base/error.h"
#include "driver/base/futex_lock.h"
#include "driver/base/log.h"
#include "driver/base/thread.h"
#include "driver/base/words.h"

#include <algorithm>
#include <climits>
#include <sys/socket.h>

namespace usdma::tool {

using std::string_view;

/* For all clients to leave: longer than the device's two resets take, which one may wait for. */
static constexpr u64 all_leave_ms = 60000;

/* ---- weights --------------------------------------------------------------------------------------- */

int user_weights::set(string_view user, string_view weight)
{
	u64 uid, n;

	if (!number_parse(user, &uid, 0, UINT_MAX - 1) ||
	    !number_parse(weight, &n, 1, sim::backend_client::most_weight))
		return fail(EINVAL, "a weight is USER:N, a user's number and a number from 1 to %u",
			    sim::backend_client::most_weight);
	auto *const end = list_ + count_;
	auto *const at = std::find_if(list_, end, [=](const auto &e) { return e.user == uid; });
	if (at == end && count_ == most)
		return fail(ENOSPC, "weights of more than %u users", most);
	count_ += at == end;
	*at = {u32(uid), u32(n)};
	return 0;
}

u32 user_weights::of(u32 user) const
{
	const auto *const end = list_ + count_;
	const auto *const at = std::find_if(list_, end, [=](const auto &e) { return e.user == user; });

	return at == end ? 1 : at->weight;
}

/* ---- clients --------------------------------------------------------------------------------------- */

shared_clients::shared_clients(sim::listener &socket, const sim::config &cfg, sim::backend &device,
			       const user_weights &weights, sim::console *control)
	: socket_(socket), cfg_(cfg), device_(device), control_(control), weights_(weights)
{
	if (control_)
		control_->answer_by(answer, this);
}

/* nullptr: no client is served now, or there are too many. */
shared_clients::client *shared_clients::take(unique_fd *sock)
{
	std::lock_guard guard(lock_);
	client *const c = std::find_if(clients_, clients_ + most, [](const client &e) { return !e.all; });
	ucred peer = {};
	socklen_t len = sizeof(peer);

	if (draining_ || c == clients_ + most || getsockopt(sock->get(), SOL_SOCKET, SO_PEERCRED, &peer, &len))
		return nullptr;
	c->all = this;
	c->sock = std::move(*sock);
	c->number = ++served_;
	c->user = peer.uid;
	c->pid = peer.pid;
	c->since_ns = now_ns();
	fetch_add_release(&serving_, 1u);
	return c;
}

void shared_clients::give_back(client *c)
{
	{
		std::lock_guard guard(lock_);

		*c = {};
	}
	fetch_add_release(&serving_, ~u32(0));
	futex_wake(&serving_, INT_MAX);
}

void *shared_clients::thread_main(void *arg)
{
	auto *const c = static_cast<client *>(arg);
	shared_clients *const all = c->all;
	sim::config cfg = all->cfg_;
	sim::backend_client work(all->device_, 1);

	thread_name("usdma-client");
	{
		std::lock_guard guard(all->lock_);

		work.set_weight(all->weights_.of(c->user));
		c->work = &work;
	}
	cfg.device = &work;
	if (sim::listener::serve(std::move(c->sock), cfg, all->stop_fd_, nullptr))
		log_error("%s", error_text());
	all->give_back(c);
	return nullptr;
}

/* A shortage rejects this client only. */
int shared_clients::serve(unique_fd sock)
{
	client *const c = take(&sock);

	if (c && !thread_start_detached("usdma-client", thread_main, c))
		return 0;
	if (c) {
		sock = std::move(c->sock);
		give_back(c);
	}
	log_warn_limited("a client is rejected: %u are served", load_acquire(&serving_));
	sim::listener::reject(sock.get(), EAGAIN);
	return 0;
}

int shared_clients::wait_all(u64 ms)
{
	const deadline until = deadline::in_ms(ms);

	for (u32 n; (n = load_acquire(&serving_)) != 0;) {
		if (until.passed())
			return fail(EIO, "%u clients do not leave", n);
		futex_wait_until(&serving_, n, until.at());
	}
	return 0;
}

int shared_clients::run(int stop_fd, bool once)
{
	int err = 0;

	stop_fd_ = stop_fd;
	while (!err) {
		unique_fd sock;

		err = socket_.wait_client(stop_fd, control_, &sock);
		if (!err)
			err = serve(std::move(sock));
		if (once)
			break;
	}
	const int late = wait_all(once && !err ? ~u64(0) : all_leave_ms);
	return late ? late : err == -ECANCELED ? 0 : err;
}

/* ---- commands -------------------------------------------------------------------------------------- */

static std::string number(const char *name, u64 value)
{
	return std::string(", \"") + name + "\": " + std::to_string(value);
}

static std::string counts_of(const sim::client_counts &n)
{
	return number("weight", n.weight) + number("channels", n.channels) + number("copies", n.copies) +
	       number("bytes", n.bytes) + number("failed", n.failed) + number("in_flight", n.in_flight) +
	       number("in_flight_bytes", n.in_flight_bytes) + number("areas", n.areas) + number("mapped", n.mapped);
}

std::string shared_clients::state()
{
	std::lock_guard guard(lock_);
	std::string list;

	for (const client &c : clients_)
		if (c.work)
			list += (list.empty() ? "{\"client\": " : ", {\"client\": ") + std::to_string(c.number) +
				number("pid", u64(c.pid)) + number("user", c.user) +
				number("ms", (now_ns() - c.since_ns) / ns_per_ms) + counts_of(c.work->counts()) + "}";
	return "{\"ok\": true, \"device\": " + sim::json_text(device_.name()) +
	       ", \"driver\": " + sim::json_text(device_.driver()) + number("clients", served_) +
	       ", \"draining\": " + (draining_ ? "true" : "false") + number("most_mapped", cfg_.share) +
	       number("most_channels", cfg_.channels) + ", \"shared\": [" + list + "]}\n";
}

int shared_clients::set_weight(string_view user, string_view weight)
{
	std::lock_guard guard(lock_);
	const int err = weights_.set(user, weight);

	for (client &c : clients_)
		if (!err && c.work)
			c.work->set_weight(weights_.of(c.user));
	return err;
}

void shared_clients::set_draining(bool on)
{
	std::lock_guard guard(lock_);

	draining_ = on;
}

int shared_clients::set_client(string_view number, string_view weight)
{
	std::lock_guard guard(lock_);
	u64 n, w;

	if (!number_parse(number, &n) || !number_parse(weight, &w, 1, sim::backend_client::most_weight))
		return fail(EINVAL, "client takes a client's number and its weight, from 1 to %u",
			    sim::backend_client::most_weight);
	for (client &c : clients_)
		if (c.work && c.number == n) {
			c.work->set_weight(u32(w));
			return 0;
		}
	return fail(ENOENT, "there is no client %llu", static_cast<unsigned long long>(n));
}

std::string shared_clients::execute(string_view line)
{
	static constexpr const char *commands = "state, drain, return, weight USER N, client NUMBER N, help";
	const size_t first = line.find(' '), second = first == line.npos ? first : line.find(' ', first + 1);
	const string_view what = line.substr(0, first);
	int err = 0;

	if (what == "help")
		return std::string("{\"ok\": true, \"help\": \"") + commands + "\"}\n";
	if ((what == "weight" || what == "client") && second != line.npos)
		err = (this->*(what == "weight" ? &shared_clients::set_weight : &shared_clients::set_client))(
			line.substr(first + 1, second - first - 1), line.substr(second + 1));
	else if (line == "drain" || line == "return")
		set_draining(line == "drain");
	else if (line != "state")
		err = fail(EINVAL, "no such command; there are: %s", commands);
	return err ? "{\"ok\": false, \"error\": " + sim::json_text(error_text()) + "}\n" : state();
}

std::string shared_clients::answer(void *arg, string_view line)
{
	return static_cast<shared_clients *>(arg)->execute(line);
}

} // namespace usdma::tool
