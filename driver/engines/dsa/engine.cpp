/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/base/error.h"
#include "driver/base/log.h"
#include "driver/dma/registry.h"
#include "driver/engines/dsa/dsa.h"

#include <algorithm>
#include <bit>
#include <new>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace usdma::dsa {

static constexpr u32 usual_ring = 256;
/* What a batch may hold must end before a stop does. */
static constexpr u32 most_xfer_log2 = 24, least_xfer_log2 = 12;
/* Of a queue: a batch, the one before whose record is not written yet, and drains. */
static constexpr u32 least_slots = 8, least_batch_log2 = 5, most_batch_log2 = 7;
static constexpr u64 command_ms = 2000;
static constexpr u32 usual_class_up_to = 0x200;
static constexpr u64 swerr_ack = swerr_valid | swerr_overflow;
static constexpr u64 needed_ops = u64(1) << u32(operation::noop) | u64(1) << u32(operation::batch) |
				  u64(1) << u32(operation::drain) | u64(1) << u32(operation::move) |
				  u64(1) << u32(operation::fill);

/* ---- the CPU ----------------------------------------------------------------------------------------- */

static bool has_movdir64b()
{
#if defined(__x86_64__)
	u32 a = 0, b = 0, c = 0, d = 0;

	return __get_cpuid_count(7, 0, &a, &b, &c, &d) && c & 1u << 28;
#else
	return false;
#endif
}

/* One write of 64 bytes. It is not ordered after earlier stores: what the descriptor points to must be visible. */
static void movdir64b([[maybe_unused]] u8 *to, [[maybe_unused]] const work &w)
{
#if defined(__x86_64__)
	asm volatile("sfence; .byte 0x66, 0x0f, 0x38, 0xf8, 0x02" : : "a"(to), "d"(&w) : "memory");
#endif
}

void dsa_engine::submit(u32 index, const work &w)
{
	const u64 at = index * portals_step + portal_limited * portal_page;

	if (likely(portals_.data() != nullptr))
		movdir64b(portals_.data() + at, w);
	else
		dev_->region_post(vfio::region_bar2, at, &w, sizeof(w));
}

/* ---- commands ---------------------------------------------------------------------------------------- */

/* GENSTS and CMDSTATUS have reserved bits (drivers/dma/idxd/registers.h of Linux): an absent function reads as ones. */
int dsa_engine::read_state(u32 reg, u32 *out)
{
	const int err = read(reg, out);

	return err < 0 || *out != ~0u ? err : fail(EIO, "its registers read as ones: the device is off");
}

int dsa_engine::wait_command(u32 *value)
{
	const deadline until = deadline::in_ms(command_ms);
	const timespec t = {0, 20 * 1000};

	for (;; nanosleep(&t, nullptr)) {
		if (int err = read_state(off_cmdstatus, value); err < 0)
			return err;
		if (!(*value & cmd_active))
			return 0;
		if (until.passed())
			return fail(ETIMEDOUT, "a command is not done after %llu ms",
				    static_cast<unsigned long long>(command_ms));
	}
}

static const char *name_of(command code)
{
	static const char *const names[] = {"",
					    "Enable Device",
					    "Disable Device",
					    "Drain All",
					    "Abort All",
					    "Reset Device",
					    "Enable WQ",
					    "Disable WQ",
					    "Drain WQ",
					    "Abort WQ",
					    "Reset WQ",
					    "Drain PASID",
					    "Abort PASID",
					    "Request Interrupt Handle",
					    "Release Interrupt Handle"};

	return u32(code) < std::size(names) ? names[u32(code)] : "?";
}

/* With command_lock_ held. status: CMDSTATUS after it. */
int dsa_engine::execute(command code, u32 operand, u32 *status)
{
	/* The one before may have timed out. */
	int err = wait_command(status);

	if (!err)
		err = write(off_cmd, u32(code) << cmd_code_shift | operand);
	return err ? err : wait_command(status);
}

static int refused(command code, u32 operand, u32 status)
{
	return fail(EIO, "the device refuses %s (command %u, operand 0x%x) with error 0x%x (specification, 5.8.3)",
		    name_of(code), u32(code), operand, status & cmd_error_mask);
}

int dsa_engine::run(command code, u32 operand, u32 *result)
{
	std::lock_guard guard(command_lock_);
	u32 status = 0;

	if (int err = execute(code, operand, &status); err < 0)
		return err;
	if (status & cmd_error_mask)
		return refused(code, operand, status);
	if (result)
		*result = status >> cmd_result_shift & 0xffff;
	return 0;
}

/* A queue that is not enabled refuses it, and has nothing to be reset: as [L] idxd_wq_reset(). */
int dsa_engine::reset_queue(u32 index, bool is_idle)
{
	std::lock_guard guard(command_lock_);
	const u32 operand = 1u << index;
	u32 state = 0, status = 0;
	int err = wait_command(&status);

	if (!err)
		err = read(queue_reg(index, wq_word_state), &state);
	if (err || wq_state(state >> wq_state_shift) == wq_state::disabled)
		return err;
	/* As [L] since the erratum; one that hangs would never end it. */
	if (is_idle)
		err = execute(command::drain_wq, operand, &status);
	if (!err)
		err = execute(command::reset_wq, operand, &status);
	if (err || !(status & cmd_error_mask) || cmd_error(status & cmd_error_mask) == cmd_error::wq_not_enabled)
		return err;
	return refused(command::reset_wq, operand, status);
}

void dsa_engine::clear_error(u32 index)
{
	u64 error = 0;

	if (read(off_swerror, &error) < 0 || !(error & swerr_valid))
		return;
	/* That queue has yet to see it. */
	if (error & swerr_has_wq && !is_error_of(index, error))
		return;
	log_warn("%s: channel %u: software error 0x%llx", dev_->name(), index, static_cast<unsigned long long>(error));
	write(off_swerror, swerr_ack);
}

/* ---- probe ------------------------------------------------------------------------------------------- */

int dsa_engine::check_capabilities(u64 wqcap, u64 grpcap, u64 engcap, u64 opcap)
{
	const u32 queues = wqcap >> 16 & 0xff, slots = wqcap & 0xffff;

	if (!(chip_.gencap & gencap_config))
		return fail(EOPNOTSUPP, "its configuration is fixed (GENCAP): another driver has set it up, or a "
					"virtual machine's");
	if (!(wqcap & wqcap_dedicated))
		return fail(EOPNOTSUPP, "it has shared work queues only, which need a PASID; VFIO gives none");
	chip_.batch_log2 = std::min(u32(chip_.gencap >> gencap_batch_shift & 0xf), most_batch_log2);
	if ((opcap & needed_ops) != needed_ops || chip_.batch_log2 < least_batch_log2)
		return fail(EOPNOTSUPP, "it lacks operations, or batches of %u: OPCAP 0x%llx, GENCAP 0x%llx",
			    1u << least_batch_log2, static_cast<unsigned long long>(opcap),
			    static_cast<unsigned long long>(chip_.gencap));
	if ((chip_.gencap >> gencap_xfer_shift & 0x1f) < least_xfer_log2)
		return fail(EOPNOTSUPP, "it copies no more than 2^%u bytes at a time: 2^%u are needed",
			    u32(chip_.gencap >> gencap_xfer_shift & 0x1f), least_xfer_log2);
	const u32 groups = u32(std::min(grpcap & 0xff, engcap & 0xff));
	const u32 channels = std::min({queues, max_channels, slots / least_slots});
	if (!groups || !channels)
		return fail(EPROTO, "it reports %u queues, %u slots, %u groups with an engine", queues, slots, groups);
	chip_.groups = std::min(groups, channels);
	chip_.queue_slots = slots / channels;
	chip_.queue_bytes = 32u << (wqcap >> 24 & 0xf);
	/* Of the words of the smallest table it would be beyond the register. */
	chip_.has_opcfg = wqcap & wqcap_opcfg && chip_.queue_bytes > wq_word_opcfg * 4;
	limits_.channels = channels;
	limits_.engines = chip_.groups;
	return 0;
}

int dsa_engine::check_identity()
{
	u64 wqcap = 0, grpcap = 0, engcap = 0, opcap = 0;
	const struct {
		u32 at;
		u64 *to;
	} regs[] = {{off_gencap, &chip_.gencap}, {off_wqcap, &wqcap}, {off_grpcap, &grpcap},
		    {off_engcap, &engcap},       {off_opcap, &opcap}, {off_offsets, &chip_.offsets}};
	u32 version = 0, commands = 0;
	int err = read(off_version, &version);

	if (!err && version == ~0u)
		return fail(ENODEV, "its registers read as ones: it is off, or its memory space is disabled");
	for (const auto &r : regs)
		if (!err)
			err = read(r.at, r.to);
	if (!err && chip_.gencap & gencap_cmdcap)
		err = read(off_cmdcap, &commands);
	if (!err)
		err = check_capabilities(wqcap, grpcap, engcap, opcap);
	if (err)
		return err;
	chip_.version = version;
	chip_.has_handles = commands >> u32(command::request_handle) & 1;
	chip_.queues_at = u32(chip_.offsets >> 16 & 0xffff) * table_step;
	limits_.max_len = u64(1) << std::min<u64>(chip_.gencap >> gencap_xfer_shift & 0x1f, most_xfer_log2);
	limits_.ring_size = usual_ring;
	limits_.ops = dma::op_bit(dma::opcode::nop) | dma::op_bit(dma::opcode::copy) | dma::op_bit(dma::opcode::fill);
	limits_.numa_node = dev_->numa_node();
	return 0;
}

/* The hardware takes a descriptor as one write only, which no trapped access is. A vfio-user server gets a message. */
int dsa_engine::map_portals()
{
	vfio::region_info bar;

	if (int err = dev_->region(vfio::region_bar2, &bar); err < 0)
		return err;
	if (bar.size < limits_.channels * portals_step)
		return fail(ENODEV, "BAR2 has %llu bytes for the portals of %u queues",
			    static_cast<unsigned long long>(bar.size), limits_.channels);
	if (!(bar.flags & vfio::region_mappable) && dev_->own_connection())
		return 0;
	if (!(bar.flags & vfio::region_mappable))
		return fail(EOPNOTSUPP, "BAR2 cannot be mapped, which descriptors need: VFIO traps it");
	if (!has_movdir64b())
		return fail(EOPNOTSUPP, "this CPU lacks MOVDIR64B, by which descriptors are submitted");
	return dev_->region_map(vfio::region_bar2, 0, limits_.channels * portals_step, &portals_);
}

/* Read buffers stay as the reset has left them. */
int dsa_engine::set_class(u32 at)
{
	u64 flags = 0;
	const int err = chip_.version <= usual_class_up_to ? read(at, &flags) : 0;

	return err || chip_.version > usual_class_up_to ? err : write(at, (flags & ~group_tc_mask) | group_tc_usual);
}

/* Interrupts of descriptors without a PASID, as [L] leaves them; no source says that a reset does. */
int dsa_engine::setup_permissions()
{
	const u32 at = u32(chip_.offsets >> 32 & 0xffff) * table_step;
	int err = 0;

	for (u32 i = 0; i <= limits_.channels && !err; i++)
		err = write(at + i * msixperm_step, u32(0));
	return err;
}

/* A queue in each group with one engine, so that its descriptors run in order; further queues share them. */
int dsa_engine::setup_groups()
{
	const u32 at = u32(chip_.offsets & 0xffff) * table_step, n = limits_.channels;
	int err = 0;

	for (u32 g = 0; g < chip_.groups && !err; g++) {
		const u32 group = at + g * u32(sizeof(group_config));
		u64 queues = 0;

		for (u32 i = g; i < n; i += chip_.groups)
			queues |= u64(1) << i;
		err = write(group, queues);
		if (!err)
			err = write(group + u32(offsetof(group_config, engines)), u64(1) << g);
		if (!err)
			err = set_class(group + u32(offsetof(group_config, flags)));
	}
	for (u32 i = 0; i < n && !err; i++)
		err = write(queue_reg(i, wq_word_size), chip_.queue_slots);
	return err;
}

/* From any state: then no descriptor of an earlier user runs, and the device is enabled. */
int dsa_engine::setup()
{
	u32 general = 0, handle;
	int err = read_state(off_gensts, &general);

	/* The command does not end this state. */
	if (!err && device_state(general & 3) == device_state::halt)
		err = dev_->reset();
	if (!err)
		err = run(command::reset_device, 0);
	/* The command leaves the error of an earlier user there, which would count as one of ours. */
	if (!err)
		err = write(off_swerror, swerr_ack);
	if (!err)
		err = setup_groups();
	if (!err)
		err = setup_permissions();
	/* A record must not pass its data. */
	if (!err)
		err = keep_order();
	if (!err)
		err = vfio::config_bus_master(*dev_, true);
	/* Also if the command fails, or takes too long: it may be enabled later. */
	is_set_up_ |= !err;
	if (!err)
		err = run(command::enable_device, 0);
	for (u32 i = 0; i < limits_.channels && !err; i++) {
		handle = i + 1;
		if (chip_.has_handles)
			err = run(command::request_handle, i + 1, &handle);
		chip_.handles[i] = u16(handle);
	}
	return err;
}

int dsa_engine::enable_queue(u32 index)
{
	const u32 xfer = u32(std::countr_zero(limits_.max_len));
	int err = write(queue_reg(index, wq_word_mode), u32(wq_dedicated | 1 << wq_priority_shift));

	if (!err)
		err = write(queue_reg(index, wq_word_limits), xfer | chip_.batch_log2 << wq_batch_shift);
	for (u32 i = 0; i < wq_opcfg_words && !err && chip_.has_opcfg; i++)
		err = write(queue_reg(index, wq_word_opcfg + i), i ? u32(0) : u32(needed_ops));
	return err ? err : run(command::enable_wq, index);
}

/* It would halt if it were still enabled when bus mastering is turned off (5.7). */
void dsa_engine::disable()
{
	const saved_error why;

	if (!is_off() && run(command::reset_device, 0) < 0)
		log_warn("%s: %s", dev_->name(), error_text());
	why.again(0);
}

int dsa_engine::start()
{
	int err = check_identity();

	if (!err)
		err = map_portals();
	if (!err)
		err = setup();
	if (!err)
		err = setup_interrupts(1);
	if (err) {
		if (is_set_up_)
			disable();
		return err;
	}
	log_info("%s: DSA over %s, %u channels, descriptors by %s", dev_->name(), dev_->backend(), limits_.channels,
		 portals_.data() ? "MOVDIR64B" : "messages");
	return 0;
}

dsa_engine::~dsa_engine()
{
	close_all();
	if (dev_)
		disable();
}

dma::ring_channel *dsa_engine::make_channel(u32 index)
{
	return new (std::nothrow) dsa_channel(*this, index);
}

static constexpr dma::pci_id ids[] = {
#include "driver/engines/dsa/ids.inc"
};

static constexpr dma::named_register registers[] = {
	{"VERSION", vfio::region_bar0, 4, off_version},     {"GENCAP", vfio::region_bar0, 8, off_gencap},
	{"WQCAP", vfio::region_bar0, 8, off_wqcap},         {"GRPCAP", vfio::region_bar0, 8, off_grpcap},
	{"ENGCAP", vfio::region_bar0, 8, off_engcap},       {"OPCAP", vfio::region_bar0, 8, off_opcap},
	{"OFFSETS", vfio::region_bar0, 8, off_offsets},     {"GENCFG", vfio::region_bar0, 4, off_gencfg},
	{"GENSTS", vfio::region_bar0, 4, off_gensts},       {"INTCAUSE", vfio::region_bar0, 4, off_intcause},
	{"CMDSTATUS", vfio::region_bar0, 4, off_cmdstatus}, {"CMDCAP", vfio::region_bar0, 4, off_cmdcap},
	{"SWERROR", vfio::region_bar0, 8, off_swerror},
};

static constexpr dma::checklist_item checklist[] = {
	{"order",
	 "a batch is submitted when all records of the one before are written, without waiting for its own record",
	 "lists of more than 32 copies that depend on each other; batch_requests 1 in dsa/channel.cpp: no batches"},
	{"interrupts", "a drain descriptor with an interrupt behind a batch that runs", "waits that take 50 ms"},
	{"interrupts", "revoked interrupt handles (INTCAUSE bit 31) are not noticed",
	 "INTCAUSE; waits that take 50 ms"},
	{"faults", "ATS stays as the kernel left it",
	 "a fault that hangs instead of failing: the kernel's option pci=noats"},
	{"faults", "Reset WQ of a queue whose batch has failed or hangs, without a drain", "CMDSTATUS; SWERROR"},
};

static constexpr dma::erratum errata[] = {
	{id_spr, 0xffff,
	 "843306: Disable WQ may leave wrong translations cached; the driver drains and resets instead"},
};

extern const dma::driver driver = {"dsa",
				   ids,
				   dma::probe_as<dsa_engine>,
				   registers,
				   checklist,
				   errata,
				   "idxd",
				   "its work queues are lost to the kernel and to /dev/dsa"};

} // namespace usdma::dsa
