/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/worker.h"

#include "driver/base/clock.h"
#include "driver/base/error.h"
#include "net/handshake.h"

#include <algorithm>
#include <cstring>
#include <endian.h>
#include <sys/mman.h>

namespace usdma::net {

/* A header must stay until its message has gone; a receipt, until its data has come. */
struct in_flight {
	message_header header;
	worker::finished finished;
	worker *by;
	u32 slot;
	u64 visit;
	bool counted;
};

static int failed(ucs_status_t status, const char *what)
{
	return fail(EIO, "UCX: %s: %s", what, ucs_status_string(status));
}

int worker::open()
{
	ucp_config_t *config;

	if (const ucs_status_t status = ucp_config_read(nullptr, nullptr, &config); status != UCS_OK)
		return failed(status, "its settings");
	int err = start(config);
	ucp_config_release(config);
	if (!err)
		err = make_worker();
	for (size_t i = 0; !err && i < std::size(handlers_); i++) {
		handlers_[i] = {this, message(i + 1)};
		err = listen_to(handlers_[i].kind);
	}
	return err;
}

int worker::start(ucp_config_t *config)
{
	const ucp_params_t params = {
		.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS,
		.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP,
		.estimated_num_eps = 8,
	};
	const ucs_status_t status = ucp_init(&params, config, &context_);

	return status == UCS_OK ? 0 : failed(status, "no transport on this interface (net, net_tls)");
}

int worker::make_worker()
{
	const ucp_worker_params_t params = {
		.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
		.thread_mode = UCS_THREAD_MODE_SINGLE,
	};
	ucp_address_t *at;
	size_t length;
	ucs_status_t status = ucp_worker_create(context_, &params, &worker_);

	if (status == UCS_OK)
		status = ucp_worker_get_efd(worker_, &event_fd_);
	if (status == UCS_OK)
		status = ucp_worker_get_address(worker_, &at, &length);
	if (status == UCS_ERR_BUSY)
		return fail(EADDRINUSE, "the port for data is in use: the setting net has other ports behind a colon");
	if (status != UCS_OK)
		return failed(status, "no worker (net, net_tls)");
	const u8 *const first = reinterpret_cast<const u8 *>(at);
	address_.assign(first, first + length);
	ucp_worker_release_address(worker_, at);
	return length <= address_most ? 0 : fail(E2BIG, "UCX: the worker's address has %zu bytes", length);
}

int worker::listen_to(message kind)
{
	const ucp_am_handler_param_t params = {
		.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
			      UCP_AM_HANDLER_PARAM_FIELD_ARG,
		.id = unsigned(kind),
		.cb = on_message,
		.arg = &handlers_[u32(kind) - 1],
	};
	const ucs_status_t status = ucp_worker_set_am_recv_handler(worker_, &params);

	return status == UCS_OK ? 0 : failed(status, "active messages");
}

worker::~worker()
{
	for (u32 i = 0; i < slots_.size(); i++)
		slot_give(i);
	if (worker_)
		ucp_worker_destroy(worker_);
	if (context_)
		ucp_cleanup(context_);
	if (scratch_)
		munmap(scratch_, sink_most);
}

/* ---- slots ------------------------------------------------------------------------------------------- */

int worker::slot_take(u32 *slot, const u8 **token)
{
	const auto at = std::find(slots_.begin(), slots_.end(), nullptr);
	const u32 i = u32(at - slots_.begin()), number = htole32(i);

	if (i >= slots_most)
		return fail(EBUSY, "there are %u peers already", slots_most);
	if (at == slots_.end())
		slots_.emplace_back();
	slots_[i] = std::make_unique<peer>();
	slots_[i]->visit = ++visits_;
	if (const int err = random_bytes(slots_[i]->token, token_len)) {
		slots_[i].reset();
		return err;
	}
	memcpy(slots_[i]->token, &number, sizeof(number));
	*slot = i;
	*token = slots_[i]->token;
	return 0;
}

int worker::slot_connect(u32 slot, bytes peer_address, const u8 peer_token[token_len])
{
	peer &p = *slots_[slot];
	const ucp_ep_params_t params = {
		.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
			      UCP_EP_PARAM_FIELD_ERR_HANDLER,
		.address = reinterpret_cast<const ucp_address_t *>(peer_address.data()),
		.err_mode = UCP_ERR_HANDLING_MODE_PEER,
		.err_handler = {on_failure, &p},
	};
	const ucs_status_t status = ucp_ep_create(worker_, &params, &p.ep);

	if (status != UCS_OK)
		return failed(status, "the peer cannot be reached from this interface");
	memcpy(p.peer_token, peer_token, token_len);
	p.heard = now_ns();
	return 0;
}

/* UCX frees the endpoint when it has cancelled what is in flight. */
void worker::close_endpoint(ucp_ep_h ep)
{
	const ucp_request_param_t params = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK,
		.flags = UCP_EP_CLOSE_FLAG_FORCE,
		.cb = {.send = [](void *request, ucs_status_t, void *) { ucp_request_free(request); }},
	};

	ucp_ep_close_nbx(ep, &params);
}

void worker::slot_give(u32 slot)
{
	if (!slots_[slot])
		return;
	if (slots_[slot]->ep)
		close_endpoint(slots_[slot]->ep);
	slots_[slot].reset();
}

/* arg is in a slot that was not given back: closing comes first, and calls this no more. */
void worker::on_failure(void *arg, ucp_ep_h, ucs_status_t status)
{
	static_cast<peer *>(arg)->error = status;
}

static int lost(ucs_status_t status)
{
	return status == UCS_OK ? 0 : failed(status, "the peer is gone");
}

int worker::slot_error(u32 slot) const
{
	return lost(slots_[slot]->error);
}

worker::peer *worker::peer_of(const u8 token[token_len], u32 *slot)
{
	u32 i;

	memcpy(&i, token, sizeof(i));
	*slot = le32toh(i);
	if (*slot >= slots_.size() || !slots_[*slot] || !slots_[*slot]->ep)
		return nullptr;
	return equal({slots_[*slot]->token, token_len}, {token, token_len}) ? slots_[*slot].get() : nullptr;
}

/* ---- sending ----------------------------------------------------------------------------------------- */

void *worker::scratch()
{
	if (!scratch_) {
		void *p = mmap(nullptr, sink_most, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		scratch_ = p == MAP_FAILED ? nullptr : p;
	}
	return scratch_;
}

/* What a peer has in flight is counted: it may take nothing, and ask for more. */
int worker::begin(peer *p, bool counted)
{
	if (counted && p->in_flight == in_flight_most && p->error == UCS_OK)
		p->error = UCS_ERR_EXCEEDS_LIMIT;
	if (p->error == UCS_OK)
		p->in_flight += counted;
	return lost(p->error);
}

/* What has failed may be what the peer waits for: without it the connection is of no use. */
void worker::end(u32 slot, u64 visit, bool counted, ucs_status_t status)
{
	peer *const p = slots_[slot].get();

	if (!p || p->visit != visit)
		return;
	p->in_flight -= counted;
	if (p->error == UCS_OK)
		p->error = status;
}

static void finish(void *request, ucs_status_t status, void *arg)
{
	const std::unique_ptr<in_flight> m(static_cast<in_flight *>(arg));

	m->by->end(m->slot, m->visit, m->counted, status);
	if (m->finished)
		m->finished(status == UCS_OK);
	if (request)
		ucp_request_free(request);
}

static void on_sent(void *request, ucs_status_t status, void *arg)
{
	finish(request, status, arg);
}

/* What this side asks for is limited by its program. */
static bool is_answer(message kind)
{
	return kind == message::ack || kind == message::data;
}

int worker::post(u32 slot, message kind, const message_header &h, const void *data, finished f)
{
	peer &p = *slots_[slot];
	std::unique_ptr<in_flight> m(
		new in_flight{message_write(h), std::move(f), this, slot, p.visit, is_answer(kind)});
	const ucp_request_param_t params = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
		.flags = 0,
		.cb = {.send = on_sent},
		.user_data = m.get(),
	};

	memcpy(m->header.token, p.peer_token, token_len);
	const ucs_status_ptr_t done = ucp_am_send_nbx(p.ep, unsigned(kind), &m->header, sizeof(m->header), data,
						      h.length, &params);
	if (UCS_PTR_IS_PTR(done)) {
		m.release();
		return 0;
	}
	end(slot, p.visit, is_answer(kind), UCS_PTR_STATUS(done));
	if (UCS_PTR_IS_ERR(done))
		return failed(UCS_PTR_STATUS(done), "a message cannot be sent");
	if (m->finished)
		m->finished(true);
	return 0;
}

int worker::send(u32 slot, message kind, const message_header &h, const void *data, finished f)
{
	peer *const p = slot < slots_.size() ? slots_[slot].get() : nullptr;

	if (!p || !p->ep)
		return fail(ENOTCONN, "the peer is gone");
	const int err = begin(p, is_answer(kind));
	return err ? err : post(slot, kind, h, data, std::move(f));
}

int worker::send(u32 slot, message kind, u64 number, u64 length)
{
	const void *const data = length ? scratch() : nullptr;
	message_header h = {};

	if (length && !data)
		return no_memory("the buffer of a measurement");
	h.number = number;
	h.length = length;
	return send(slot, kind, h, data);
}

/* The peer may be gone by now. */
void worker::acknowledge(u32 slot, u64 number, int status)
{
	message_header h = {};

	h.number = number;
	h.status = status;
	send(slot, message::ack, h);
}

/* ---- receiving --------------------------------------------------------------------------------------- */

static void on_received(void *request, ucs_status_t status, size_t, void *arg)
{
	finish(request, status, arg);
}

void worker::receive(const incoming &in, void *to, finished f)
{
	if (!(in.param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV)) {
		memcpy(to, in.data, in.h.length);
		f(true);
		return;
	}
	peer *const p = slots_[in.slot].get();

	if (begin(p, true)) {
		f(false);
		return;
	}
	std::unique_ptr<in_flight> m(new in_flight{in.h, std::move(f), this, in.slot, p->visit, true});
	const ucp_request_param_t params = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
		.flags = 0,
		.cb = {.recv_am = on_received},
		.user_data = m.get(),
	};
	const ucs_status_ptr_t done = ucp_am_recv_data_nbx(worker_, in.data, to, in.h.length, &params);
	if (UCS_PTR_IS_PTR(done)) {
		m.release();
		return;
	}
	end(in.slot, p->visit, true, UCS_PTR_STATUS(done));
	m->finished(!UCS_PTR_IS_ERR(done));
}

/* The token is that of the peer that was there when it came. */
ucs_status_t worker::take_sink(const incoming &in)
{
	void *const to = scratch();
	message_header h = in.h;

	if (!to)
		return UCS_ERR_NO_MEMORY;
	receive(in, to, [this, h](bool done) {
		u32 slot;

		if (done && peer_of(h.token, &slot))
			acknowledge(slot, h.number);
	});
	return UCS_OK;
}

ucs_status_t worker::take(message kind, const void *header, size_t header_length, void *data, size_t length,
			  const ucp_am_recv_param_t *param)
{
	incoming in = {kind, 0, {}, data, param};
	const bool fits = message_read(kind, header, header_length, length, &in.h);
	peer *const p = peer_of(in.h.token, &in.slot);

	if (!p || !fits)
		dropped_++;
	if (!p)
		return UCS_OK;
	p->heard = now_ns();
	if (!fits) {
		if (message_asks(kind))
			acknowledge(in.slot, in.h.number, -EINVAL);
		return UCS_OK;
	}
	if (kind == message::sink)
		return take_sink(in);
	if (kind == message::ping)
		acknowledge(in.slot, in.h.number);
	else if (receiver_)
		receiver_->on_message(in);
	return UCS_OK;
}

ucs_status_t worker::on_message(void *arg, const void *header, size_t header_length, void *data, size_t length,
				const ucp_am_recv_param_t *param)
{
	const handler *const h = static_cast<const handler *>(arg);

	return h->w->take(h->kind, header, header_length, data, length, param);
}

} // namespace usdma::net
