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

	if (!number_parse(user, &uid, 0, UINT_MAX - 1) || !number_parse(weight, &n, 1, sim::shares::most_weight))
		return fail(EINVAL, "a weight is USER:N, a user's number and a number from 1 to %u",
			    sim::shares::most_weight);
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

int share_settings::set(string_view name, string_view value)
{
	const size_t at = std::min(value.find(':'), value.size());
	u64 n;

	if (name == "weight")
		return weights.set(value.substr(0, at), value.substr(std::min(at + 1, value.size())));
	if (name == "share" || name == "user-share") {
		u64 *const to = name == "share" ? &limits.client_bytes : &limits.user_bytes;

		if (!size_parse(value, to))
			return fail(EINVAL, "--%.*s takes a size: %s", int(name.size()), name.data(), size_rule);
		/* A user whose only client may map more maps more. */
		if (name == "share")
			limits.user_bytes = std::max(limits.user_bytes, limits.client_bytes);
		return 0;
	}
	if (name != "user-clients" && name != "channels" && name != "hang-ms")
		return -ENOENT;
	if (!number_parse(value, &n, name == "hang-ms" ? 10 : 1, name == "channels" ? 1024 : INT_MAX))
		return fail(EINVAL, "--%.*s takes a number", int(name.size()), name.data());
	if (name == "hang-ms")
		hang_ms = n;
	else
		(name == "channels" ? channels : limits.user_clients) = u32(n);
	return 0;
}

/* ---- clients --------------------------------------------------------------------------------------- */

shared_clients::shared_clients(sim::listener &socket, const sim::config &cfg, sim::backend &device,
			       const share_settings &settings, const share_settings &defaults, sim::console *control)
	: socket_(socket), cfg_(cfg), device_(device), control_(control), settings_(settings), defaults_(defaults)
{
	apply(settings);
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

/* What the device made of it stays in the sums. */
void shared_clients::give_back(client *c)
{
	{
		std::lock_guard guard(lock_);
		const sim::client_counts n = c->work ? c->work->counts() : sim::client_counts();

		copies_ += n.copies;
		bytes_ += n.bytes;
		failed_ += n.failed;
		refused_ += !c->work;
		*c = {};
	}
	fetch_add_release(&serving_, ~u32(0));
	futex_wake(&serving_, INT_MAX);
}

/* -EBUSY: the user has as many as it may. */
int shared_clients::begin(client *c, sim::config *cfg, sim::backend_client *work)
{
	std::lock_guard guard(lock_);
	const int err = work->enter(c->user, settings_.weights.of(c->user));

	cfg->device = work;
	cfg->channels = settings_.channels;
	/* The device's clients have limits that may change. */
	cfg->share = ~u64(0);
	if (!err)
		c->work = work;
	return err;
}

void *shared_clients::thread_main(void *arg)
{
	auto *const c = static_cast<client *>(arg);
	shared_clients *const all = c->all;
	sim::config cfg = all->cfg_;
	sim::backend_client work(all->device_);

	thread_name("usdma-client");
	if (all->begin(c, &cfg, &work)) {
		log_warn_limited("a client is rejected: %s", error_text());
		sim::listener::reject(c->sock.get(), EBUSY);
	} else if (sim::listener::serve(std::move(c->sock), cfg, all->stop_fd_, nullptr)) {
		log_error("%s", error_text());
	}
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

/* With the lock, as the next two. */
std::string shared_clients::users()
{
	std::string list;

	device_.parts.each_user([&](const sim::shares::user &u) {
		list += (list.empty() ? "{\"user\": " : ", {\"user\": ") + std::to_string(u.number) +
			number("weight", u.weight) + number("clients", u.clients) + number("mapped", u.mapped) + "}";
	});
	return ", \"users\": [" + list + "]";
}

/* Sums since the start, also of clients that have left. */
std::string shared_clients::device()
{
	const sim::device_counts n = device_.counts();
	u64 copies = copies_, bytes = bytes_, failed = failed_, in_flight = 0;

	for (const client &c : clients_)
		if (c.work) {
			const sim::client_counts of = c.work->counts();

			copies += of.copies;
			bytes += of.bytes;
			failed += of.failed;
			in_flight += of.in_flight_bytes;
		}
	return number("device_channels", n.channels) + number("used_channels", n.submitters) +
	       number("all_mapped", n.mapped) + number("all_copies", copies) + number("all_bytes", bytes) +
	       number("all_failed", failed) + number("all_in_flight_bytes", in_flight) + number("faults", n.faults) +
	       number("channel_resets", n.channel_resets) + number("device_resets", n.device_resets) +
	       number("refused", refused_);
}

std::string shared_clients::state()
{
	std::lock_guard guard(lock_);
	const sim::share_limits &l = settings_.limits;
	std::string list;

	for (const client &c : clients_)
		if (c.work)
			list += (list.empty() ? "{\"client\": " : ", {\"client\": ") + std::to_string(c.number) +
				number("pid", u64(c.pid)) + number("user", c.user) +
				number("ms", (now_ns() - c.since_ns) / ns_per_ms) + counts_of(c.work->counts()) + "}";
	return "{\"ok\": true, \"device\": " + sim::json_text(device_.name()) +
	       ", \"driver\": " + sim::json_text(device_.driver()) + number("clients", served_) +
	       ", \"draining\": " + (draining_ ? "true" : "false") + number("ms", now_ns() / ns_per_ms) + device() +
	       number("most_mapped", l.client_bytes) + number("most_mapped_by_user", l.user_bytes) +
	       number("most_mapped_by_all", l.all_bytes) + number("most_clients_of_user", l.user_clients) +
	       number("most_channels", settings_.channels) + number("hang_ms", settings_.hang_ms) + users() +
	       ", \"shared\": [" + list + "]}\n";
}

/* ---- settings -------------------------------------------------------------------------------------- */

/* With the lock, or before any client. */
void shared_clients::apply(const share_settings &s)
{
	settings_ = s;
	device_.parts.set_limits(s.limits);
	device_.set_hang_ms(s.hang_ms);
	for (client &c : clients_)
		if (c.work)
			device_.parts.set_user_weight(c.user, s.weights.of(c.user));
}

static string_view next_word(string_view *text)
{
	const size_t from = std::min(text->find_first_not_of(' '), text->size());
	const string_view word = text->substr(from, text->find(' ', from) - from);

	text->remove_prefix(from + word.size());
	return word;
}

/* "--name value" or "--name=value"; others are listed: they need a restart. */
int shared_clients::reload(string_view options, std::string *others)
{
	share_settings made = defaults_;

	for (string_view word; !(word = next_word(&options)).empty();) {
		const size_t at = word.find('=');
		const string_view name = word.substr(0, at);
		string_view value = at == word.npos ? "" : word.substr(at + 1), rest = options;

		if (!name.starts_with("-"))
			return fail(EINVAL, "reload takes options, such as --share 2G");
		if (at == word.npos && !next_word(&rest).starts_with("-"))
			value = next_word(&options);
		const int err = made.set(name.substr(std::min(name.find_first_not_of('-'), name.size())), value);
		if (err == -ENOENT)
			*others += (others->empty() ? "" : " ") + std::string(name);
		else if (err)
			return err;
	}
	std::lock_guard guard(lock_);
	apply(made);
	return 0;
}

int shared_clients::set_weight(string_view user, string_view weight)
{
	std::lock_guard guard(lock_);
	const int err = settings_.weights.set(user, weight);

	if (!err)
		apply(share_settings(settings_));
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

	if (!number_parse(number, &n) || !number_parse(weight, &w, 1, sim::shares::most_weight))
		return fail(EINVAL, "client takes a client's number and its weight, from 1 to %u",
			    sim::shares::most_weight);
	for (client &c : clients_)
		if (c.work && c.number == n) {
			c.work->set_weight(u32(w));
			return 0;
		}
	return fail(ENOENT, "there is no client %llu", static_cast<unsigned long long>(n));
}

std::string shared_clients::execute(string_view line)
{
	static constexpr const char
		*commands = "state, drain, return, weight USER N, client NUMBER N, reload OPTION ..., "
			    "help";
	std::string others;
	const size_t first = line.find(' '), second = first == line.npos ? first : line.find(' ', first + 1);
	const string_view what = line.substr(0, first);
	int err = 0;

	if (what == "help")
		return std::string("{\"ok\": true, \"help\": \"") + commands + "\"}\n";
	if ((what == "weight" || what == "client") && second != line.npos)
		err = (this->*(what == "weight" ? &shared_clients::set_weight : &shared_clients::set_client))(
			line.substr(first + 1, second - first - 1), line.substr(second + 1));
	else if (what == "reload")
		err = reload(line.substr(what.size()), &others);
	else if (line == "drain" || line == "return")
		set_draining(line == "drain");
	else if (line != "state")
		err = fail(EINVAL, "no such command; there are: %s", commands);
	if (err)
		return "{\"ok\": false, \"error\": " + sim::json_text(error_text()) + "}\n";
	const std::string now = state();

	return others.empty() ? now : "{\"need_restart\": " + sim::json_text(others) + ", " + now.substr(1);
}

std::string shared_clients::answer(void *arg, string_view line)
{
	return static_cast<shared_clients *>(arg)->execute(line);
}

} // namespace usdma::tool
