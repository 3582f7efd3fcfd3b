/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/sim/replay.h"

#include "driver/base/clock.h"
#include "driver/base/error.h"
#include "driver/base/grow.h"
#include "driver/base/log.h"
#include "driver/sim/config.h"
#include "driver/sim/models.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <tuple>

namespace usdma::sim {

/* How long the model may take to get where the device was; after that it is not waited for at this register. */
static constexpr u64 await_ns = 100 * ns_per_ms;
static constexpr const char *a_replay = "a replay";
static constexpr u32 mark_len = sizeof(u64);

/* Accesses of one width at one address, in the order of the record. */
struct replay_track {
	std::vector<const recorded_access *> list;
	size_t at = 0;
	u32 taken = 0; /* of the count of list[at] */
	const recorded_access *last_read = nullptr;
};

class replay_model final : public device_model {
public:
	replay_model(std::unique_ptr<device_model> model, std::shared_ptr<const recording> what)
		: model_(std::move(model)), what_(std::move(what))
	{
	}

	void set_in_client() override { model_->set_in_client(); }
	int start() override
	{
		return within_memory(a_replay, [this] { return prepare(); });
	}
	int share(u64 iova, void *vaddr, u64 size) override { return model_->share(iova, vaddr, size); }
	std::shared_ptr<shared_mapping> memory() const override { return model_->memory(); }

	u32 region_count() const override { return model_->region_count(); }
	const region_desc &region(u32 index) const override;
	int region_read(u32 index, u64 offset, u8 *buf, u32 len) override
	{
		return within_memory(a_replay, [=, this] { return read(index, offset, buf, len); });
	}
	int region_write(u32 index, u64 offset, const u8 *buf, u32 len) override
	{
		return within_memory(a_replay, [=, this] { return write(index, offset, buf, len); });
	}
	std::span<const doorbell_desc> doorbells(u32 region) const override
	{
		return is_recorded(region) ? std::span<const doorbell_desc>() : model_->doorbells(region);
	}

	u32 irq_types() const override { return model_->irq_types(); }
	u32 irq_count(u32 index) const override { return model_->irq_count(index); }
	int irq_set(u32 index, u32 first, std::span<unique_fd> fds) override
	{
		return model_->irq_set(index, first, fds);
	}
	int irq_clear(u32 index, u32 first, u32 count) override { return model_->irq_clear(index, first, count); }
	int irq_trigger(u32 index, u32 vector) override { return model_->irq_trigger(index, vector); }

	u32 max_areas() const override { return model_->max_areas(); }
	int dma_map(u64 iova, u64 size, u32 prot, unique_fd fd, u64 offset) override
	{
		return model_->dma_map(iova, size, prot, std::move(fd), offset);
	}
	bool takes_any_file() const override { return model_->takes_any_file(); }
	int dma_unmap(u64 iova, u64 size) override { return model_->dma_unmap(iova, size); }
	int dma_unmap_all() override { return model_->dma_unmap_all(); }

	int reset() override { return model_->reset(); }
	bool is_resetting() const override { return model_->is_resetting(); }
	void quiesce() override { model_->quiesce(); }
	reply_fault next_reply() override { return model_->next_reply(); }
	void connect(remote_port *port) override
	{
		port_ = port;
		model_->connect(port);
	}

private:
	using reg_key = std::tuple<u32, u64, u32>; /* region, offset, width */

	bool is_recorded(u32 region) const { return region < 32 && what_->regions >> region & 1; }
	const recorded_step &step() const { return what_->steps[step_ - 1]; }
	int prepare();
	int read(u32 index, u64 offset, u8 *buf, u32 len);
	int write(u32 index, u64 offset, const u8 *buf, u32 len);
	int begin_step();
	int read_ids(u32 index, u64 offset, u8 *buf, u32 len);
	int read_more(const reg_key &where, const replay_track &t, u8 *buf);
	int read_recorded(const reg_key &where, u8 *buf);
	int write_recorded(const reg_key &where, u64 value);
	/* The step failed on the device: the model has no part in it. */
	bool is_alone() const { return step_ && !step().ok; }
	void await_model(const reg_key &where, u64 value);
	int depart(const reg_key &where, const char *what, u64 value, const recorded_access *want);

	std::unique_ptr<device_model> model_;
	const std::shared_ptr<const recording> what_;
	region_desc regions_[vfio::region_count];
	/* The server's thread. */
	size_t step_ = 0; /* 1 is the first; 0: before it */
	bool departed_ = false;
	remote_port *port_ = nullptr;
	std::map<reg_key, replay_track> tracks_;
	std::set<reg_key> unlike_;                        /* where the model never gets */
	std::map<reg_key, std::set<u64>> read_, written_; /* the values of each register in the report */
};

/* Regions of registers are not mapped, so that each access is one of these. */
int replay_model::prepare()
{
	if (const int err = model_->start())
		return err;
	for (u32 i = 0; i < std::min(model_->region_count(), u32(std::size(regions_))); i++) {
		const region_desc &r = model_->region(i);

		regions_[i] = {r.size, r.flags, r.fd, r.mappable};
		if (is_recorded(i)) {
			regions_[i].flags &= ~u32(vfio::region_mappable);
			regions_[i].mappable.clear();
		}
	}
	for (const recorded_step &s : what_->steps)
		for (const recorded_access &a : s.list) {
			(a.is_write ? written_ : read_)[{a.region, a.offset, a.width}].insert(a.value);
			if (a.region >= std::size(regions_) || a.offset + a.width > regions_[a.region].size)
				return fail(EINVAL,
					    "replay: step %s accesses 0x%llx of region %u, which the model %s does "
					    "not have",
					    s.name.c_str(), static_cast<unsigned long long>(a.offset), a.region,
					    what_->driver.c_str());
		}
	return 0;
}

const region_desc &replay_model::region(u32 index) const
{
	return index < std::size(regions_) ? regions_[index] : model_->region(index);
}

/* From here on nothing is as it was, so nothing is answered. */
int replay_model::depart(const reg_key &where, const char *what, u64 value, const recorded_access *want)
{
	const auto [region, offset, width] = where;
	char had[96] = "the report has no such access";

	if (want)
		snprintf(had, sizeof(had), "the report has a %s of 0x%llx", want->is_write ? "write" : "read",
			 static_cast<unsigned long long>(want->value));
	departed_ = true;
	const int err = fail(
		EPROTO,
		"replay: in step %s the driver leaves the recorded path: it %s %u bytes at 0x%llx of region "
		"%u (0x%llx); %s",
		step_ ? step().name.c_str() : "0", what, width, static_cast<unsigned long long>(offset), region,
		static_cast<unsigned long long>(value), had);
	log_error("%s", error_text());
	/* Most drivers do not check how a write has ended. */
	if (port_)
		port_->hang_up();
	return err;
}

int replay_model::begin_step()
{
	if (step_ == what_->steps.size())
		return depart({vfio::region_config, 0, mark_len}, "begins a step by reading", 0, nullptr);
	step_++;
	tracks_.clear();
	for (const recorded_access &a : step().list)
		tracks_[{a.region, a.offset, a.width}].list.push_back(&a);
	log_info("replay: step %s", step().name.c_str());
	return 0;
}

/* Before the first step the client finds a driver for the device. */
int replay_model::read_ids(u32 index, u64 offset, u8 *buf, u32 len)
{
	const std::vector<recorded_access> &first = what_->steps[0].list;

	if (index == vfio::region_config && offset + len <= 4 && !first.empty() &&
	    first[0].region == vfio::region_config && !first[0].offset && first[0].width == mark_len) {
		memcpy(buf, reinterpret_cast<const u8 *>(&first[0].value) + offset, len);
		return 0;
	}
	return model_->region_read(index, offset, buf, len);
}

/* The driver goes on with what the device had done: the model must have done it, too. */
void replay_model::await_model(const reg_key &where, u64 value)
{
	const auto [region, offset, width] = where;
	const deadline until = deadline::in_ns(await_ns);
	const timespec pause = {0, 50 * 1000};

	for (bool first = true;; first = false) {
		u64 now = 0;

		if (model_->region_read(region, offset, reinterpret_cast<u8 *>(&now), width) || now == value)
			return;
		if (unlike_.contains(where))
			return;
		if (!first && until.passed())
			break;
		nanosleep(&pause, nullptr);
	}
	unlike_.insert(where);
}

/* Behind the record: what is the same each time; else the state of the device, which failed, or of the model. */
int replay_model::read_more(const reg_key &where, const replay_track &t, u8 *buf)
{
	const auto [region, offset, width] = where;
	const auto found = read_.find(where);

	if (found == read_.end() && !written_.contains(where))
		return depart(where, "reads", 0, nullptr);
	if (found != read_.end() && found->second.size() == 1)
		memcpy(buf, &*found->second.begin(), width);
	else if (is_alone() && t.last_read)
		memcpy(buf, &t.last_read->value, width);
	else
		return model_->region_read(region, offset, buf, width);
	return 0;
}

int replay_model::read_recorded(const reg_key &where, u8 *buf)
{
	replay_track &t = tracks_[where];

	if (t.at == t.list.size() || t.list[t.at]->is_write)
		return read_more(where, t, buf);
	t.last_read = t.list[t.at];
	if (++t.taken == t.last_read->count) {
		t.taken = 0;
		t.at++;
	}
	if (!is_alone())
		await_model(where, t.last_read->value);
	memcpy(buf, &t.last_read->value, std::get<2>(where));
	return 0;
}

int replay_model::read(u32 index, u64 offset, u8 *buf, u32 len)
{
	const reg_key where = {index, offset, len};

	if (departed_)
		return fail(EPROTO, "replay: the driver has left the recorded path");
	if (where == reg_key{vfio::region_config, 0, mark_len})
		if (const int err = begin_step())
			return err;
	if (!step_)
		return read_ids(index, offset, buf, len);
	/* With many copies in flight the state is that of the moment. */
	if (!is_recorded(index) || len > sizeof(u64) || !is_pow2(len) || (step().in_flight && step().ok))
		return model_->region_read(index, offset, buf, len);
	return read_recorded(where, buf);
}

/* Of a register that threads set to and fro the turns differ from run to run, and their values do not. */
int replay_model::write_recorded(const reg_key &where, u64 value)
{
	replay_track &t = tracks_[where];
	const std::set<u64> &values = written_[where];
	const auto next = std::find_if(t.list.begin() + long(t.at), t.list.end(),
				       [](const recorded_access *a) { return a->is_write; });
	const recorded_access *const want = next == t.list.end() ? nullptr : *next;

	if (want && want->value == value) {
		t.at = size_t(next - t.list.begin()) + 1;
		t.taken = 0;
		return 0;
	}
	if (values.contains(value) || (step().in_flight && !values.empty()))
		return 0;
	return !want && step().is_partial ? 0 : depart(where, "writes", value, want);
}

int replay_model::write(u32 index, u64 offset, const u8 *buf, u32 len)
{
	u64 value = 0;

	if (departed_)
		return fail(EPROTO, "replay: the driver has left the recorded path");
	if (step_ && is_recorded(index) && len <= sizeof(value) && is_pow2(len)) {
		memcpy(&value, buf, len);
		if (const int err = write_recorded({index, offset, len}, value))
			return err;
	}
	return is_alone() ? 0 : model_->region_write(index, offset, buf, len);
}

std::unique_ptr<device_model> make_replay(std::unique_ptr<device_model> model, std::shared_ptr<const recording> what)
{
	return try_unique<replay_model>(std::move(model), std::move(what));
}

std::unique_ptr<device_model> make_model(const config &cfg, faults *wrong)
{
	auto made = cfg.model->make(cfg, wrong);

	return made && cfg.replay ? make_replay(std::move(made), cfg.replay) : std::move(made);
}

} // namespace usdma::sim
