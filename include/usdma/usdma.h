/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * usdma: asynchronous copies by DMA engines, from user space.
 *
 * Rules that hold for every call here:
 *
 * - Calls return 0 (or a count, where documented) or a negative errno. After a negative result
 *   usdma_error_text() describes the cause and the remedy. In addition to the errors listed at
 *   each call, any call can return:
 *     -EBADF    a handle is NULL, invalid, or already destroyed
 *     -EINVAL   an argument is out of range, or a required pointer is NULL
 *     -ENODEV   the device was lost: unplugged, its server died, or it hung
 *     -EPERM    in a child (fork, _Fork, clone) of a process that had devices open. A child of
 *               vfork, or of clone with CLONE_VM, runs with its parent's memory and may call
 *               exec and _exit only; there, calls that open, close, allocate, register or
 *               create fail so, while others act for the parent. Any other child has no
 *               memory of usdma_host_alloc(): there an access to it is a SIGSEGV
 * - Any thread may make any call on any handle at any time, unless documented otherwise.
 *   Destroying a handle while another thread uses it is safe: the other call fails with -EBADF or
 *   completes as if it had been made first, and the destroying call returns after it. If several
 *   threads destroy one handle, one succeeds and the others get -EBADF. A handle value is not
 *   reused for another object at once: a stale handle gives -EBADF.
 * - A call needs at most 64 KiB of stack.
 * - No call is a cancellation point: a thread that is cancelled (pthread_cancel) during a call
 *   completes the call first.
 * - An error of a stream's work stays pending in that stream until a call that is documented to
 *   take it does so. Calls on other streams or on the device do not take it, nor do calls that
 *   submit work, or wait for earlier work before they copy: these are made all the same, unless the
 *   stream has stopped (USDMA_FAIL_STOP) or was aborted.
 * - Sizes and lengths are bytes; the names of times state their unit (ms, ns). A timeout of -1
 *   means no limit (a device that makes no progress still ends the wait, after USDMA_HANG_MS), a
 *   timeout of 0 polls. After -ETIMEDOUT the work is still in flight, and its memory still in use;
 *   nothing else gives -ETIMEDOUT there: work that a device or a disk failed for its time is -ETIME.
 * - Handles are owned by the caller and released by the matching call that destroys or closes
 *   them. Returned strings belong to the library.
 * - An address is of one of three classes, decided by the address alone:
 *     device        from usdma_device_alloc(); the host must not touch it
 *     host          from usdma_host_alloc(), or inside usdma_host_register()
 *     unregistered  any other memory ("pageable")
 *   Copies between device and host memory are asynchronous: the call returns when the work is
 *   queued, and both ranges are owned by the copy until it completes. A copy with unregistered
 *   memory first waits for the stream's earlier work and returns when its data has arrived.
 * - Memory that another thread unregisters while a call is about to submit work with it is
 *   unregistered memory for what is not submitted yet. If it is freed, the call fails with -EFAULT,
 *   also if the address was allocated again. The call that frees or unregisters does not wait for
 *   a call that waits; no other memory is accessed.
 * - An isolated device (usdma_open) can access only its own memory and what usdma_host_alloc()
 *   allocated for it, and no other device can access that memory. Other copies go through buffers
 *   of each device, as with unregistered memory; where that is impossible they fail with -EXDEV.
 * - Structs that may grow begin with struct_size: set it to sizeof(the struct). -EINVAL: it is less than 8, or more
 *   than 256 bytes beyond the size that this library knows; the struct is not accessed beyond it.
 */
#ifndef USDMA_USDMA_H
#define USDMA_USDMA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define USDMA_API __attribute__((visibility("default")))
#else
#define USDMA_API
#endif

typedef struct usdma_device usdma_device;
typedef struct usdma_stream usdma_stream;
typedef struct usdma_event usdma_event;

/* ---- library --------------------------------------------------------------------------------------- */

/*
 * Version of these headers. USDMA_VERSION is one number, which the preprocessor can compare with
 * USDMA_VERSION_OF(0, 1, 0): major * 1000000 + minor * 1000 + patch.
 */
#define USDMA_VERSION_MAJOR 0
#define USDMA_VERSION_MINOR 1
#define USDMA_VERSION_PATCH 0
#define USDMA_VERSION_OF(major, minor, patch) ((major)*1000000 + (minor)*1000 + (patch))
#define USDMA_VERSION USDMA_VERSION_OF(USDMA_VERSION_MAJOR, USDMA_VERSION_MINOR, USDMA_VERSION_PATCH)

/* "MAJOR.MINOR.PATCH" of the running library. */
USDMA_API const char *usdma_version(void);

/*
 * Error text of the calling thread's latest failed call; "" if none failed. Valid until the thread's next failing
 * call.
 */
USDMA_API const char *usdma_error_text(void);

enum usdma_log_level {
	USDMA_LOG_NONE = 0,
	USDMA_LOG_ERROR = 1,
	USDMA_LOG_WARN = 2, /* the default; USDMA_LOG=none|error|warn|info|debug sets another */
	USDMA_LOG_INFO = 3,
	USDMA_LOG_DEBUG = 4
};

/*
 * text: one line without the newline; valid during the call. Any thread of the library may call it; it must not
 * call usdma.
 */
typedef void (*usdma_log_fn)(int level, const char *text, void *arg);

/* -EINVAL: level is not in enum usdma_log_level. */
USDMA_API int usdma_log_set_level(int level);
/*
 * From now on log lines go to fn(level, text, arg); with fn == NULL to standard error, as by default. A line that
 * another thread is writing may still go to the previous destination.
 */
USDMA_API void usdma_log_set_callback(usdma_log_fn fn, void *arg);

/* ---- settings -------------------------------------------------------------------------------------- */

/*
 * Every setting has a name ("spin_us"), an environment variable (USDMA_SPIN_US) and a line in the configuration
 * file (spin_us = 20). The first of these sources that has a value wins: usdma_setting_set(), the environment, the
 * user's file (~/.config/usdma/usdma.conf), the system's file (/etc/usdma/usdma.conf), the default; USDMA_CONFIG
 * names a file that replaces both files. usdmactl info lists all settings with their values, docs/tuning.md
 * describes them.
 *
 * The first call that counts or opens devices, or of ACL, puts the settings into use; they cannot be changed
 * afterwards.
 */

/*
 * Sets a value from the program, above environment and files; the last call wins. -ENOENT: no such setting;
 * -EINVAL: a value that it does not accept (the text says which it accepts); -EBUSY: settings are in use already.
 */
USDMA_API int usdma_setting_set(const char *name, const char *value);

/*
 * Writes the current value into buf, with a terminating NUL; does not put settings into use. A device string that
 * has an option of its own goes before it: see usdma_device_info::name. -ENOENT: no such setting; -ENOSPC: the
 * value is longer than size - 1.
 */
USDMA_API int usdma_setting_get(const char *name, char *buf, size_t size);

enum usdma_setting_source {
	USDMA_SETTING_DEFAULT = 0,
	USDMA_SETTING_FILE = 1,
	USDMA_SETTING_ENVIRONMENT = 2,
	USDMA_SETTING_PROGRAM = 3
};

struct usdma_setting_info {
	uint32_t struct_size;
	int32_t source; /* enum usdma_setting_source: where the value comes from */
	const char *name;
	const char *type;    /* "number", "size" (takes K, M, G, T), "choice", "cpus", "text" */
	const char *words;   /* choice: its values, separated by spaces; else NULL */
	const char *unit;    /* "us", "bytes", ...; "" */
	const char *meaning; /* one line */
	int64_t min, max;    /* number and size */
	char where[256];     /* "FILE:LINE" or the variable's name; "" */
};
/* Describes a setting by index, from 0 on. -ENOENT: index is past the last setting. */
USDMA_API int usdma_setting_describe(unsigned index, struct usdma_setting_info *info);

/* ---- devices --------------------------------------------------------------------------------------- */

/*
 * Number of devices: those listed in USDMA_DEVICES, else the usdma devices bound to vfio-pci, else four embedded
 * software devices. Opens none. -EINVAL: USDMA_DEVICES is malformed; -EMFILE, -ENFILE, -ENOMEM: they cannot be
 * read now; the next call tries again.
 */
USDMA_API int usdma_device_count(void);

/*
 * Opens a device, or takes another reference to it when it is open already. name: NULL for the first; a number
 * that counts from 0, as text ("1"); or a device string as in USDMA_DEVICES. Device strings:
 *   sim[:mem=SIZE][:engines=N][:channels=N]   a software device in this process
 *   vfio-user:PATH[:trust=no|checked|yes]     a device that another process serves on a UNIX socket;
 *                                             no: only rings are shared with that process;
 *                                             checked (default): only memory that neither process can
 *                                             take from the other; yes: any memory, for a server that
 *                                             is allowed to end this process
 *   DDDD:BB:DD.F                              a PCI device bound to vfio-pci
 * Each may be followed by [:isolated=yes|no]; yes: the device must not see what others copy (rules at the top). A
 * string that is not in the list is appended to it, and stays there if it could be opened. -EINVAL: name is
 * malformed, or USDMA_CHECK is not for such a device; -ENODEV: no such device; -ENOSPC: sixteen devices are listed
 * already; -EMFILE, -ENFILE: no descriptor is left; -ENOENT,
 * -ECONNREFUSED, -EACCES, -ETIMEDOUT, -EPROTO: the device cannot be reached; -EBUSY: another process has the PCI
 * device, also a child of fork(2) until it has ended; -ENOPKG: the library of software devices, libusdma-sim, is not
 * installed, or is of another build; -ENOMEM.
 */
USDMA_API int usdma_open(const char *name, usdma_device **out);
/* As usdma_open(), by number. */
USDMA_API int usdma_open_index(unsigned index, usdma_device **out);
/*
 * Drops one reference. The last one waits for calls in progress and for the device's work, destroys the remaining
 * streams, frees the device's memory and closes it. Events stay valid and are reached by then. Work that waits in a
 * stream for an event, a value or a function is dropped; calls of other threads that wait for such work (a sync, a
 * destroy, a copy) return -EBADF. Opening and closing other devices does not wait for this call.
 *
 * Returns what usdma_stream_destroy would have returned for the first of the remaining streams that has an error: a
 * failure, or -ENODEV for a loss with work pending, that no call has returned before. The device is closed in every
 * case but -EBADF and -EPERM.
 *
 * A lost device may still write: a server that was stopped can resume. The memory that it could access is not
 * reused until it is proven that it no longer writes (its server has exited, an IOMMU has unmapped the memory, a
 * reset has succeeded); without proof, never. This is logged once and shown by usdmactl stat.
 */
USDMA_API int usdma_close(usdma_device *dev);

enum usdma_device_flags {
	USDMA_DEVICE_OWN_MEMORY = 1,  /* has memory of its own; else it uses host memory */
	USDMA_DEVICE_CPU_VISIBLE = 2, /* the library can reach its memory by CPU stores */
	USDMA_DEVICE_LOST = 4,        /* was lost; it can only be closed */
	USDMA_DEVICE_MAY_WRITE = 8    /* was lost, and may still write to all host memory that it had mapped */
};

struct usdma_device_info {
	uint32_t struct_size;
	uint32_t index;       /* its number */
	char name[256];       /* its device string with the settings in force for it, shortened if longer */
	char driver[32];      /* the engine's driver: "sdma", "edu", … */
	char transport[32];   /* "vfio-user", "type1", "iommufd", "sim" */
	uint64_t memory_size; /* bytes of device memory … */
	uint64_t memory_free; /* … and how many are not allocated */
	uint64_t max_copy;    /* most bytes of one descriptor (longer copies are split) */
	uint32_t engines;     /* engines that work in parallel */
	uint32_t channels;    /* rings; more streams than that share them */
	uint32_t ring_size;   /* descriptors in a ring */
	uint32_t flags;       /* enum usdma_device_flags */
	int32_t numa_node;    /* -1: unknown */
	uint32_t reserved;
};
USDMA_API int usdma_device_get_info(usdma_device *dev, struct usdma_device_info *info);

/* Totals since the device was opened; not an atomic snapshot, so they may be inconsistent with each other. */
struct usdma_device_stats {
	uint32_t struct_size;
	uint32_t streams;  /* open now, including internal ones */
	uint64_t copies;   /* operations submitted; items of a batch that were merged are one */
	uint64_t bytes;    /* moved by them */
	uint64_t requests; /* descriptors */
	uint64_t doorbells;
	uint64_t wakes;         /* wake-ups of a sleeping device */
	uint64_t faults;        /* descriptors that failed */
	uint64_t sleeps;        /* waits that slept … */
	uint64_t spins;         /* … and that ended while spinning */
	uint64_t memory_peak;   /* most bytes of device memory ever in use */
	uint64_t memory_blocks; /* allocated now */
};
USDMA_API int usdma_device_get_stats(usdma_device *dev, struct usdma_device_stats *stats);

/*
 * Waits until all work submitted before to any stream of the device has ended. -ETIMEDOUT; -ENODEV; -EBADF also: it
 * was dropped, as another thread closed the device. Failed copies are reported by their streams, not here.
 */
USDMA_API int usdma_device_sync(usdma_device *dev, int timeout_ms);

/*
 * For tests: sets the faults that a software device in this process injects from now on; "": none. Rules are
 * joined by "+", such as "fail@3+drop-irq%2"; usdma(7) lists them under FAULTS. The device must have been opened
 * with "faults=" in its device string (sim:faults=). -EINVAL: an invalid rule, which the text names; nothing changes;
 * -EOPNOTSUPP: any other device (a separate usdma-sim takes rules by usdma-sim
 * --control).
 */
USDMA_API int usdma_device_inject(usdma_device *dev, const char *rules);

/* ---- memory ---------------------------------------------------------------------------------------- */

/*
 * Pinned host memory: populated, at least 64-byte aligned, and mapped into every device that is or will be open
 * and is not isolated. Contains zeros or data of an earlier block of this process. dev: allocate on its NUMA node
 * (NULL: any node); if it is isolated, the memory is mapped into that device only. size 0: -EINVAL. -ENOMEM: no
 * memory, or RLIMIT_MEMLOCK; or the error of a device's mapping.
 */
USDMA_API int usdma_host_alloc(usdma_device *dev, size_t size, void **out);
/*
 * Frees a block; NULL is allowed. Copies in flight may still complete: the memory is reused when no device can
 * access it any more. -EINVAL: ptr is not the start of such a block.
 */
USDMA_API int usdma_host_free(void *ptr);

enum usdma_register_flags {
	USDMA_REGISTER_READ_ONLY = 1 /* devices only read it; for memory that is mapped without write permission */
};
/*
 * Pins memory of the caller, of any alignment, so that copies with it are asynchronous, except on isolated
 * devices. It must stay mapped until it is unregistered. A PCI device can access the whole pages that the range
 * touches: register whole pages if it must not see other data in them. A vfio-user server can access only the
 * range.
 *
 * If the memory is unmapped or protected nevertheless (truncated file, munmap, mprotect), CPU copies of it, for a
 * software device or in pieces through other memory, fail with -EFAULT or -EIO. For this the library handles
 * SIGSEGV and SIGBUS from the first usdma_open on; this call installs its handlers again if the program has
 * installed others since. Those are called for all other faults. For the time of such a copy they are not blocked in
 * the calling thread. Of a thread that blocks them only after its first copies, that holds for 256 KiB and more: a
 * shorter copy kills the process.
 *
 * READ_ONLY: operations that would write to it fail with -EFAULT. -EEXIST: overlaps a registration or a block of
 * usdma_host_alloc; -EFAULT: not mapped; -ENOMEM: more than RLIMIT_MEMLOCK allows; or the error of a device's
 * mapping.
 */
USDMA_API int usdma_host_register(void *ptr, size_t size, unsigned flags);
/*
 * Ends a registration: after it returns 0 no device accesses the memory. Waits up to one second for copies in flight
 * with this memory, and what precedes them in their streams, but for no other work; copies that have not ended then
 * fail with -EFAULT, but one by the CPU goes on as with unregistered memory. -ENOENT: ptr is not the start of a
 * registration. -EBUSY: a lost device may still write there after that second: the memory stays registered and must
 * not be freed.
 */
USDMA_API int usdma_host_unregister(void *ptr);

/*
 * Device memory, at least 512-byte aligned (2 MiB for 2 MiB and more where the heap has it). Contains zeros, or
 * earlier data of this process: another user's data are cleared first (setting clear_memory), which the call waits
 * for. The pointer is for copies only: access by the CPU faults. size 0: -EINVAL. -ENOMEM: the device has no free
 * range of this size, after a wait of up to one second for freed blocks that its work still uses (not again for work
 * that has not ended by then). -EIO and others: the memory could not be cleared.
 */
USDMA_API int usdma_device_alloc(usdma_device *dev, size_t size, void **out);
/*
 * Frees a block; NULL is allowed. Does not wait: the space is reused when the work submitted before has ended.
 * -EINVAL: ptr is not the start of such a block.
 */
USDMA_API int usdma_device_free(void *ptr);

enum usdma_memory_class { USDMA_MEMORY_UNREGISTERED = 0, USDMA_MEMORY_HOST = 1, USDMA_MEMORY_DEVICE = 2 };

struct usdma_pointer_info {
	uint32_t struct_size;
	int32_t memory_class; /* enum usdma_memory_class */
	uint64_t base;        /* of the block or registration that contains the address; 0: none */
	uint64_t size;        /* of it; 0: none (unregistered; or a device address that is not allocated) */
	int32_t device_index; /* the owner; -1 for host and unregistered memory */
	uint32_t registered;  /* 1: host memory that the caller registered */
};
/* Describes an address, which may be NULL. */
USDMA_API int usdma_pointer_get_info(const void *ptr, struct usdma_pointer_info *info);

/* ---- streams --------------------------------------------------------------------------------------- */

enum usdma_wait_mode {
	USDMA_WAIT_DEFAULT = 0,   /* as set by USDMA_WAIT; hybrid if unset */
	USDMA_WAIT_POLL = 1,      /* spins: no system call, a CPU at 100 % while waiting */
	USDMA_WAIT_INTERRUPT = 2, /* sleeps at once */
	USDMA_WAIT_HYBRID = 3     /* spins for a time adapted to recent waits, then sleeps */
};

struct usdma_stream_options {
	uint32_t struct_size;
	uint32_t wait_mode; /* enum usdma_wait_mode */
	uint32_t priority;  /* 0: all streams have the same priority */
	uint32_t reserved;  /* 0 */
};

/*
 * A stream runs its work in the order of submission; streams run concurrently. options: NULL for the defaults.
 * -EINVAL: an option is out of range; -E2BIG: options unknown to this version; -ENOMEM.
 */
USDMA_API int usdma_stream_create(usdma_device *dev, const struct usdma_stream_options *options, usdma_stream **out);
/*
 * Waits for the stream's work, then destroys it. The handle is invalid from the start of the call. Returns the
 * stream's pending error, if any: the first failure that neither a sync nor take_error has returned (an abort does
 * not count); -ENODEV: the device was lost with work pending. -EBADF also: another thread closed the device during
 * the call, which dropped work that waited. The stream is destroyed in every case but -EDEADLK (usdma_stream_call)
 * and -EPERM.
 */
USDMA_API int usdma_stream_destroy(usdma_stream *stream);

/*
 * Waits until all work submitted before has ended. If any of it failed, returns the first failure (-EFAULT bad
 * address, -EIO transfer failed, -ETIME the device or a disk took too long, …; see usdma_stream_take_error for
 * details) and clears it, and those behind it. -ETIMEDOUT: not yet, nothing was cleared; -ECANCELED: the stream was
 * aborted.
 *
 * A failure is returned once, by its owner:
 * - The operations of a stream have numbers, in the order in which they were accepted, from 1: each copy, item of a
 *   batch, rectangle, fill, reduction, value, wait, mark of an event and file operation (a batch of these is one).
 * - A completion (<usdma/uring.h>), or a function with a status, owns the failures of all operations up to its
 *   preparation that no completion before it owns and no call has returned. usdma_completion_finish returns the first
 *   of them, in whatever order completions are finished, also after the stream was destroyed.
 * - All other failures are the stream's. They are returned by usdma_stream_sync, usdma_stream_take_error, or
 *   usdma_stream_destroy, or belong to the next completion.
 * - A stopped stream (USDMA_FAIL_STOP) returns the failure that stopped it with each call, also one of a completion.
 * - A reset of the device fails what is pending. Each completion of such work has -EIO; what none owns is one failure,
 *   with the number of the last operation.
 * A stream lists 1,024 failures until they are returned; further ones are counted (usdma_error_info::more), but each
 * completion still has its own first one.
 */
USDMA_API int usdma_stream_sync(usdma_stream *stream, int timeout_ms);
/*
 * 1: all done; 0: not yet; or -ENODEV. Takes no error, and does not wait for the work; but a loop of calls that shares
 * its CPU with the engine's thread sleeps for 0.1 ms now and then, so that the engine runs whatever its priority.
 */
USDMA_API int usdma_stream_query(usdma_stream *stream);
/*
 * Drops work that has not started and stops work that runs (a copy may be half done). Dropped functions of
 * usdma_stream_call are still called. Later work and syncs of the stream give -ECANCELED until it is destroyed.
 */
USDMA_API int usdma_stream_abort(usdma_stream *stream);

enum usdma_fail_mode {
	USDMA_FAIL_GO_ON = 0, /* the default: work after a failure still runs */
	USDMA_FAIL_STOP = 1   /* the first failure stops the stream: pending work is dropped, new work gets the error;
				 dropped functions are still called */
};
/* Applies from the next failure on. -EINVAL: mode is not in enum usdma_fail_mode. */
USDMA_API int usdma_stream_set_fail_mode(usdma_stream *stream, int mode);

struct usdma_error_info {
	uint32_t struct_size;
	int32_t error;        /* as usdma_stream_sync would return it; 0: none */
	uint32_t reason;      /* the device's code for it (docs/hardware.md) … */
	uint32_t more;        /* later failures that were not listed, as there were 1,024 already, or no memory */
	char reason_name[32]; /* … and its name */
	uint64_t address;     /* reported by the device; of a file: its offset; 0: none */
	uint64_t sequence;    /* number of the operation in its stream, as usdma_submit_copy() returns it */
};
/*
 * Takes the oldest failure that no completion owns (see usdma_stream_sync), one with each call. Returns 0 also when
 * there was none. error is -ENODEV, with each call, if work was lost with the device; a stopped stream returns its
 * error with each call, too.
 */
USDMA_API int usdma_stream_take_error(usdma_stream *stream, struct usdma_error_info *info);

struct usdma_stream_stats {
	uint32_t struct_size;
	uint32_t id;       /* the stream's number in log lines */
	uint64_t copies;   /* operations submitted, as in usdma_device_stats */
	uint64_t bytes;    /* moved by them */
	uint64_t errors;   /* operations that failed */
	uint64_t sequence; /* number of the last operation that was accepted */
};
USDMA_API int usdma_stream_get_stats(usdma_stream *stream, struct usdma_stream_stats *stats);

/*
 * Adds 1 to the eventfd (any file that takes an 8-byte write of 1) when all work submitted before has ended. The
 * descriptor is duplicated: the caller may close its own. A file that is full is written later, when it has space,
 * and blocks nothing: also after the stream was destroyed or its device closed, which do not wait for that. The
 * duplicate stays open until then. Returns at once. -EBADF also: fd is not open; -EMFILE. For completions in the
 * caller's io_uring see <usdma/uring.h>.
 */
USDMA_API int usdma_stream_signal_fd(usdma_stream *stream, int fd);

/*
 * Calls fn(arg) on a thread of the library when all work submitted before has ended. hold != 0: later work waits
 * until fn has returned. Functions of one stream are called in order, functions of one device one at a time. fn
 * may make any call, and returns: it must not end its thread (pthread_exit, an exception). With hold, a call in fn that
 * would wait for its own stream, for one that waits for that stream by an event, or for a function that the same thread
 * is to run fails with -EDEADLK at once: usdma_stream_sync, usdma_event_sync, usdma_device_sync, usdma_stream_destroy,
 * and a copy in such a stream that waits for it first (usdma_copy). Returns at once; -EAGAIN: the thread cannot be
 * started.
 */
USDMA_API int usdma_stream_call(usdma_stream *stream, void (*fn)(void *arg), void *arg, int hold);
/*
 * As usdma_stream_call, for a function that has the result of the work before it as a completion has: 0, or the first
 * failure that it owns (usdma_stream_sync has the rules), -ENODEV if the device was lost before that work ended,
 * -ECANCELED if it was dropped.
 */
USDMA_API int usdma_stream_call_status(usdma_stream *stream, void (*fn)(void *arg, int status), void *arg, int hold);

/* ---- copies ---------------------------------------------------------------------------------------- */

/*
 * Copies len bytes; the ranges must not overlap. The classes of the addresses decide when it returns (rules at the
 * top); copies between two unregistered ranges are made by the CPU. len 0 does nothing. Errors:
 *   -EFAULT     a device address that is not allocated, or a range that extends beyond its block
 *   -ENODEV     also: memory of another device, which was lost
 *   -ECANCELED  the stream was aborted
 * and for unregistered memory those of its own transfer. An earlier failure of the stream stays pending for its next
 * sync, and the copy is made, also if the call waits for the earlier work first. If the ring is full the call waits
 * for a free slot; that is not an error.
 */
USDMA_API int usdma_copy(usdma_stream *stream, void *dst, const void *src, size_t len);

/*
 * Copies without a stream: returns when the data has arrived, or with the error; does not wait for streams. Any
 * classes, including two host addresses. -ETIMEDOUT: the copy may still be in flight; keep device memory and
 * pinned or registered ranges until usdma_device_sync. Unregistered ones are no longer accessed.
 */
USDMA_API int usdma_copy_sync(usdma_device *dev, void *dst, const void *src, size_t len, int timeout_ms);

struct usdma_copy_item {
	void *dst;
	const void *src;
	uint64_t len;
};
/*
 * n copies in one call, in order. An item with unregistered memory behaves as in usdma_copy (the call waits
 * there). Items that continue the one before in both ranges may be copied as one. On an error *done (if not NULL)
 * is the number of items submitted before the invalid one; those run. Errors as usdma_copy.
 */
USDMA_API int usdma_copy_batch(usdma_stream *stream, const struct usdma_copy_item *items, size_t n, size_t *done);

/*
 * As usdma_copy and usdma_copy_batch. *sequence (if not NULL) is the number of the copy in its stream, or that of the
 * first item, which the others follow; usdma_error_info has it if the copy fails. 0: all was done when the call
 * returned, which then returns the errors. Items that were copied as one fail with the number of the first of them.
 * Other operations: usdma_stream_stats::sequence, if no other thread submits to the stream meanwhile. flags: enum
 * usdma_submit_flags. -EINVAL: flags. -EAGAIN: USDMA_NOWAIT, and the copy, or the next item, was not submitted, as the
 * call would wait: the ring is full, or the stream's device cannot access the memory (unregistered, or apart from it).
 * To be tried again when earlier work has ended.
 */
enum usdma_submit_flags {
	USDMA_NOWAIT = 1 /* waits for no earlier work */
};
USDMA_API int usdma_submit_copy(usdma_stream *stream, void *dst, const void *src, size_t len, unsigned flags,
				uint64_t *sequence);
USDMA_API int usdma_submit_batch(usdma_stream *stream, const struct usdma_copy_item *items, size_t n, unsigned flags,
				 size_t *done, uint64_t *sequence);

/* height rows of width bytes, whose starts are pitch bytes apart. */
struct usdma_copy_rect {
	void *dst;
	uint64_t dst_pitch;
	const void *src;
	uint64_t src_pitch;
	uint64_t width, height;
};
/* Errors as usdma_copy and usdma_copy_sync; -EINVAL also: a pitch that is less than the width. */
USDMA_API int usdma_copy_2d(usdma_stream *stream, const struct usdma_copy_rect *rect);
USDMA_API int usdma_copy_2d_sync(usdma_device *dev, const struct usdma_copy_rect *rect, int timeout_ms);

/*
 * Fills len bytes with a pattern of pattern_size bytes (1, 4 or 8; the low bytes of pattern, little-endian); len
 * is a multiple of pattern_size. The asynchronous call takes device or host memory, the synchronous one any.
 * -EINVAL: the sizes; -EFAULT as usdma_copy; -ETIMEDOUT as usdma_copy_sync; -EXDEV, of the asynchronous call and
 * of the next three calls: memory that the stream's device cannot access.
 */
USDMA_API int usdma_fill(usdma_stream *stream, void *dst, uint64_t pattern, unsigned pattern_size, size_t len);
USDMA_API int usdma_fill_sync(usdma_device *dev, void *dst, uint64_t pattern, unsigned pattern_size, size_t len,
			      int timeout_ms);

enum usdma_element {
	USDMA_INT8 = 0,
	USDMA_INT16 = 1,
	USDMA_INT32 = 2,
	USDMA_INT64 = 3,
	USDMA_UINT8 = 4,
	USDMA_UINT16 = 5,
	USDMA_UINT32 = 6,
	USDMA_UINT64 = 7,
	USDMA_FLOAT16 = 8,
	USDMA_BFLOAT16 = 9,
	USDMA_FLOAT32 = 10,
	USDMA_FLOAT64 = 11
};
enum usdma_reduce_op {
	USDMA_SUM = 0,
	USDMA_MAX = 1,
	USDMA_MIN = 2,
	USDMA_EQUAL = 3 /* 1 where equal, else 0 */,
	USDMA_PROD = 4
};
/*
 * dst[i] = op(dst[i], src[i]) over len bytes; device or host memory. -EINVAL: type, op, or len not a multiple of
 * the element size; -EFAULT.
 */
USDMA_API int usdma_reduce(usdma_stream *stream, void *dst, const void *src, size_t len, int element, int op);

/* Stores a 64-bit value at dst (device or host memory, 8-byte aligned) when the work before has ended. */
USDMA_API int usdma_write_value(usdma_stream *stream, void *dst, uint64_t value);

enum usdma_compare {
	USDMA_GEQ = 0, /* (int64_t)(word - value) >= 0 */
	USDMA_EQ = 1,
	USDMA_AND = 2, /* (word & value) != 0 */
	USDMA_NOR = 3  /* ~(word | value) != 0 */
};
/*
 * Later work of the stream waits until the 64-bit word at addr (device or host memory, 8-byte aligned) compares
 * with value. Returns at once. If the memory is freed meanwhile the wait ends with -EFAULT as the stream's error,
 * or lasts until the stream is aborted or destroyed by usdma_close. -EOPNOTSUPP: the CPU cannot read the word, and
 * the stream shares its channel.
 */
USDMA_API int usdma_wait_value(usdma_stream *stream, const void *addr, int compare, uint64_t value);

/* ---- events ---------------------------------------------------------------------------------------- */

enum usdma_event_flags {
	USDMA_EVENT_TIMING = 1 /* records the device's time when it is reached */
};
/* Creates a mark in a stream's work. flags: enum usdma_event_flags. -EINVAL; -ENOMEM. */
USDMA_API int usdma_event_create(usdma_device *dev, unsigned flags, usdma_event **out);
/* Returns at once; pending waits of streams for it still complete. */
USDMA_API int usdma_event_destroy(usdma_event *event);
/* Marks the work submitted to the stream so far; replaces an earlier mark. */
USDMA_API int usdma_event_record(usdma_event *event, usdma_stream *stream);
/*
 * Work submitted to the stream from now on starts after the event's latest mark is reached; the mark may be on a
 * stream of another device. An event that was never recorded delays nothing. Returns at once. If that device is lost
 * before the mark is reached, the wait is an operation of this stream that failed with -EIO, and the work behind it
 * runs (USDMA_FAIL_STOP: is dropped).
 */
USDMA_API int usdma_stream_wait_event(usdma_stream *stream, usdma_event *event);
/* 1: reached, or never recorded, or its device was lost; 0: not yet. Does not wait, as usdma_stream_query. */
USDMA_API int usdma_event_query(usdma_event *event);
/*
 * Waits until it is reached; 0 at once when it was never recorded. Returns the pending error of the stream that it
 * was recorded on without taking it: usdma_stream_sync does. -ETIMEDOUT; -ENODEV: that stream's device was lost.
 */
USDMA_API int usdma_event_sync(usdma_event *event, int timeout_ms);
/*
 * *ns = device time between the two marks; negative when end came first. -ENOENT: one was never recorded; -EAGAIN:
 * one is not reached yet; -EINVAL: one lacks USDMA_EVENT_TIMING; -ECANCELED: one has no time, as its stream was aborted
 * or stopped at a failure, or its device was closed, before the device reached it.
 */
USDMA_API int usdma_event_elapsed(usdma_event *start, usdma_event *end, int64_t *ns);

#ifdef __cplusplus
}
#endif

#endif
