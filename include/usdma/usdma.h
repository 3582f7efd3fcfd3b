/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * usdma: asynchronous copies by DMA engines, from user space.
 *
 * Rules that hold for every call here:
 *
 * - Calls return 0 (or a count, where they say so) or a negative errno.  After
 *   a negative result usdma_error_text() says in words what was wrong and what
 *   helps.  Errors that any call can return beside its own:
 *     -EBADF    a handle is NULL, was never made here, or is destroyed already
 *     -EINVAL   an argument is out of its range; a NULL where a pointer is needed
 *     -ENODEV   the device is gone: unplugged, its server died, or it hung
 *     -EPERM    in a child of fork(2) of a process that had devices open
 * - Any thread may make any call on any handle at any time, unless it is said
 *   otherwise.  Destroying a handle while another thread uses it is safe: the
 *   other call fails with -EBADF or ends as if it had come before, and the call
 *   that destroys returns after it.  Of several threads that destroy one handle
 *   one succeeds, the others get -EBADF.  A handle is not used again for
 *   another object at once: what is kept after its end gets -EBADF.
 * - No call is a cancellation point: a thread that is cancelled (pthread_cancel)
 *   in one ends its call first.
 * - The error of a stream's work is kept by that stream until a call that says
 *   so takes it.  No other stream's call, and none on the device, takes it.
 * - Sizes and lengths are bytes, times are what their names say (ms, ns),
 *   timeouts of -1 mean: no limit (a device that makes no progress still ends
 *   the wait, after USDMA_HANG_MS).  A timeout of 0 looks and returns.  After
 *   -ETIMEDOUT the work is still in flight, and its memory still in use.
 * - Handles are owned by the caller and given back with the call that destroys
 *   them.  Strings that are returned belong to the library.
 * - An address is of one of three classes, decided by the address alone:
 *     device        from usdma_device_alloc(); the host must not touch it
 *     host          from usdma_host_alloc(), or inside usdma_host_register()
 *     unregistered  all the rest ("pageable")
 *   Copies between device and host memory are asynchronous: the call returns
 *   when the work is in the queue, and both ranges belong to the copy until it
 *   is done.  A copy with unregistered memory first waits for the stream's
 *   earlier work and returns when its data has arrived.
 * - A device that is isolated (usdma_open) reaches no memory but its own and
 *   what usdma_host_alloc() made for it, and no other device reaches that.
 *   Copies beyond that are made as with unregistered memory, through buffers
 *   of each device's own; what cannot be made so fails with -EXDEV.
 * - Structs that may grow begin with struct_size: set it to sizeof(the struct).
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

/* "MAJOR.MINOR.PATCH" of the library that runs. */
USDMA_API const char *usdma_version(void);

/*
 * What the calling thread's latest failed call had to say; "" if none failed.
 * Valid until the thread's next failing call.
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
 * text: one line without its end; valid during the call. Any thread of the library may call it; it must not
 * call usdma.
 */
typedef void (*usdma_log_fn)(int level, const char *text, void *arg);

/* -EINVAL: level is none of enum usdma_log_level. */
USDMA_API int usdma_log_set_level(int level);
/*
 * Lines go to fn(level, text, arg) from now on; fn == NULL: to standard error,
 * as at the start.  A line that another thread is just writing may still go to
 * the former place.
 */
USDMA_API void usdma_log_set_callback(usdma_log_fn fn, void *arg);

/* ---- settings -------------------------------------------------------------------------------------- */

/*
 * Every setting has a name ("spin_us"), an environment variable (USDMA_SPIN_US)
 * and a line in the configuration file (spin_us = 20).  What counts is the first
 * of these that says something: usdma_setting_set(), the environment, the user's
 * file (~/.config/usdma/usdma.conf), the system's (/etc/usdma/usdma.conf), the
 * default; USDMA_CONFIG names a file that takes the place of both.  usdmactl
 * info shows all with their values, docs/tuning.md what they are good for.
 *
 * Settings are taken into use, for good, by the first call that counts or opens
 * devices.
 */

/*
 * The program's own choice, above environment and files; the last one counts.
 * -ENOENT: there is no such setting; -EINVAL: a value that it does not take (the
 * text says what it takes); -EBUSY: settings are in use already.
 */
USDMA_API int usdma_setting_set(const char *name, const char *value);

/*
 * Writes the present value into buf, with its final zero; does not take settings
 * into use.  -ENOENT: there is no such setting; -ENOSPC: it is longer than size - 1.
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
	int32_t source; /* enum usdma_setting_source: who said what it is */
	const char *name;
	const char *type;    /* "number", "size" (takes K, M, G), "choice", "cpus", "text" */
	const char *words;   /* choice: its words, separated by spaces; else NULL */
	const char *unit;    /* "us", "bytes", ...; "" */
	const char *meaning; /* one line */
	int64_t min, max;    /* number and size */
	char where[256];     /* "FILE:LINE" or the variable's name; "" */
};
/* The settings by number, from 0 on. -ENOENT: there are fewer. */
USDMA_API int usdma_setting_describe(unsigned index, struct usdma_setting_info *info);

/* ---- devices --------------------------------------------------------------------------------------- */

/*
 * How many devices there are: those that USDMA_DEVICES lists, else the usdma
 * devices bound to vfio-pci, else two embedded software devices.  Opens none.
 * -EINVAL: USDMA_DEVICES is not well formed.
 */
USDMA_API int usdma_device_count(void);

/*
 * Opens a device, or takes one more reference to it when it is open already.
 * name: NULL for the first; a number that counts from 0, as text ("1"); or a
 * device string as USDMA_DEVICES lists it.  Device strings:
 *   sim[:mem=SIZE][:engines=N][:channels=N]   a software device in this process
 *   vfio-user:PATH[:trust=no|checked|yes]     a device that another process serves on a UNIX socket;
 *                                             no: no memory is shared with that process but rings;
 *                                             checked (default): none that either can take away from
 *                                             under the other; yes: any, for a server that may end
 *                                             this process
 *   DDDD:BB:DD.F                              a PCI device bound to vfio-pci
 * and behind each of them [:isolated=yes|no]: yes, for a device that is not to
 * see what others copy (rules on top).
 * A string that is not in the list joins it at its end and stays there.
 * -EINVAL the name is not well formed; -ENODEV there is no such device;
 * -ENOSPC sixteen devices are listed already; -ENOENT, -ECONNREFUSED,
 * -EACCES, -ETIMEDOUT, -EPROTO the device cannot be reached; -EBUSY another
 * process has the PCI device: a child of fork(2), too, until it has ended; -ENOMEM.
 */
USDMA_API int usdma_open(const char *name, usdma_device **out);
/* The same by number. */
USDMA_API int usdma_open_index(unsigned index, usdma_device **out);
/*
 * Gives one reference back.  With the last one: waits for calls in progress and
 * for the device's work, destroys the streams that are left (what waits there
 * for an event, a value or a function is dropped), frees the device's memory and
 * closes it.  Events stay, and are reached by then.
 *
 * A device that was lost may still write: a server that was stopped goes on.
 * What it could reach then stays out of use until it is proven that it writes
 * nothing any more (its server has ended, an IOMMU has taken the memory away, a
 * reset has succeeded); without proof, for good.  The log says so once, usdmactl
 * stat shows it.  -EBADF.
 */
USDMA_API int usdma_close(usdma_device *dev);

enum usdma_device_flags {
	USDMA_DEVICE_OWN_MEMORY = 1,  /* has memory of its own; else host memory is lent to it */
	USDMA_DEVICE_CPU_VISIBLE = 2, /* the library can reach its memory by CPU stores */
	USDMA_DEVICE_LOST = 4,        /* is gone; nothing but closing works */
	USDMA_DEVICE_MAY_WRITE = 8    /* is lost, and may still write to all host memory that it had mapped */
};

struct usdma_device_info {
	uint32_t struct_size;
	uint32_t index;       /* its number */
	char name[256];       /* its device string, shortened if longer */
	char driver[32];      /* the engine's driver: "sdma", "edu", … */
	char transport[32];   /* "vfio-user", "type1", "iommufd", "sim" */
	uint64_t memory_size; /* bytes of device memory … */
	uint64_t memory_free; /* … and how many are not allocated */
	uint64_t max_copy;    /* bytes that the engine moves by one descriptor (longer copies are split) */
	uint32_t engines;     /* units that work at the same time */
	uint32_t channels;    /* rings; more streams than that share them */
	uint32_t ring_size;   /* descriptors in a ring */
	uint32_t flags;       /* enum usdma_device_flags */
	int32_t numa_node;    /* -1: not known */
	uint32_t reserved;
};
USDMA_API int usdma_device_get_info(usdma_device *dev, struct usdma_device_info *info);

/* Totals since the device was opened; read without stopping anyone, so they need not fit each other exactly. */
struct usdma_device_stats {
	uint32_t struct_size;
	uint32_t streams;  /* open now, internal ones too */
	uint64_t copies;   /* pieces of work submitted */
	uint64_t bytes;    /* that they move */
	uint64_t requests; /* descriptors */
	uint64_t doorbells;
	uint64_t wakes;         /* times that a sleeping device was woken */
	uint64_t faults;        /* descriptors that failed */
	uint64_t sleeps;        /* waits that slept … */
	uint64_t spins;         /* … and that ended while spinning */
	uint64_t memory_peak;   /* most bytes of device memory in use at a time */
	uint64_t memory_blocks; /* allocated now */
};
USDMA_API int usdma_device_get_stats(usdma_device *dev, struct usdma_device_stats *stats);

/*
 * Waits until all work submitted to any stream of the device before has ended.
 * -ETIMEDOUT; -ENODEV.  Failed copies are not reported here but by their streams.
 */
USDMA_API int usdma_device_sync(usdma_device *dev, int timeout_ms);

/*
 * For tests: what shall go wrong on a software device in this process, from now
 * on; "": nothing any more.  Rules are joined by "+", such as "fail@3+drop-irq%2";
 * usdma(7) lists them under FAULTS.  The device must have been opened with
 * "faults=" in its device string (sim:faults=), or with USDMA_FAULTS set.
 * -EINVAL: names the rule, and changes nothing; -EOPNOTSUPP: any other device
 * (a usdma-sim of its own takes rules by usdma-sim --control).
 */
USDMA_API int usdma_device_inject(usdma_device *dev, const char *rules);

/* ---- memory ---------------------------------------------------------------------------------------- */

/*
 * Pinned host memory: in place, at least 64-byte aligned, and mapped into every
 * device that is open or will be and is not isolated.  Filled with zeros or with
 * what an earlier block of this process left.  dev: on whose NUMA node (NULL: no
 * matter); where it is isolated, the memory is mapped into that device alone.
 * size 0: -EINVAL.  -ENOMEM: no memory, or RLIMIT_MEMLOCK; or what a device
 * said to the mapping.
 */
USDMA_API int usdma_host_alloc(usdma_device *dev, size_t size, void **out);
/*
 * Frees a block; NULL is fine.  Copies in flight may still end: the memory is
 * reused when no device can touch it any more.  -EINVAL: ptr is not the start
 * of such a block.
 */
USDMA_API int usdma_host_free(void *ptr);

enum usdma_register_flags {
	USDMA_REGISTER_READ_ONLY = 1 /* devices only read it; for memory that is mapped without write permission */
};
/*
 * Pins memory of the caller's, any alignment, so that copies with it take the
 * asynchronous path; but for devices that are isolated.  It must stay mapped until it is unregistered.  A PCI device
 * reaches the whole pages that the range touches: register whole pages of your own
 * where it shall not see their rest.  A vfio-user server reaches the range alone.
 *
 * Where it is gone or protected all the same (a file cut short, munmap, mprotect), what the CPU copies of it, for a
 * software device or in pieces through other memory, ends with -EFAULT or -EIO.  For that the library handles SIGSEGV
 * and SIGBUS from the first usdma_open on; this call takes them over again where the program has installed handlers
 * since.  Those are called for all other faults.
 *
 * READ_ONLY: what would write it fails with -EFAULT.
 * -EEXIST overlaps a registration or a block of usdma_host_alloc; -EFAULT not
 * mapped; -ENOMEM more than RLIMIT_MEMLOCK allows; or what a device said.
 */
USDMA_API int usdma_host_register(void *ptr, size_t size, unsigned flags);
/*
 * Ends a registration: from when it returns 0 no device touches the memory.
 * Copies that are still in flight fail, or have ended.  -ENOENT: ptr is not the
 * start of a registration.  -EBUSY: a device that was lost may still write
 * there, for a second by now: the memory stays registered, keep it.
 */
USDMA_API int usdma_host_unregister(void *ptr);

/*
 * Device memory, at least 512-byte aligned (2 MiB for 2 MiB and more where the
 * heap has it).  Holds zeros, or what this process had there before: another
 * user's data are cleared first (setting clear_memory), which the call waits for.
 * The pointer is for copies only: the host faults on touching it.
 * size 0: -EINVAL.  -ENOMEM: the device has no such run free.  -EIO and others:
 * it could not be cleared.
 */
USDMA_API int usdma_device_alloc(usdma_device *dev, size_t size, void **out);
/*
 * Frees a block; NULL is fine.  Does not wait: the space is reused when the
 * work submitted before has ended.  -EINVAL: not the start of such a block.
 */
USDMA_API int usdma_device_free(void *ptr);

enum usdma_memory_class { USDMA_MEMORY_UNREGISTERED = 0, USDMA_MEMORY_HOST = 1, USDMA_MEMORY_DEVICE = 2 };

struct usdma_pointer_info {
	uint32_t struct_size;
	int32_t memory_class; /* enum usdma_memory_class */
	uint64_t base;        /* of the block or registration that holds the address; 0: none */
	uint64_t size;        /* of it; 0: none (unregistered; or a device address that is not allocated) */
	int32_t device_index; /* whose memory; -1 for host and unregistered memory */
	uint32_t registered;  /* 1: host memory that the caller registered */
};
/* What the library knows about an address; NULL is an address too. */
USDMA_API int usdma_pointer_get_info(const void *ptr, struct usdma_pointer_info *info);

/* ---- streams --------------------------------------------------------------------------------------- */

enum usdma_wait_mode {
	USDMA_WAIT_DEFAULT = 0,   /* as USDMA_WAIT says; hybrid if it says nothing */
	USDMA_WAIT_POLL = 1,      /* spins: no system call, a CPU at 100 % while waiting */
	USDMA_WAIT_INTERRUPT = 2, /* sleeps at once */
	USDMA_WAIT_HYBRID = 3     /* spins for as long as it has paid lately, then sleeps */
};

struct usdma_stream_options {
	uint32_t struct_size;
	uint32_t wait_mode; /* enum usdma_wait_mode */
	uint32_t priority;  /* a hint; 0 is the highest */
	uint32_t reserved;  /* 0 */
};

/*
 * A stream runs its work in the order of submission; streams run beside each
 * other.  options: NULL for the defaults.  -EINVAL an option out of its range;
 * -E2BIG options that this version does not know; -ENOMEM.
 */
USDMA_API int usdma_stream_create(usdma_device *dev, const struct usdma_stream_options *options, usdma_stream **out);
/*
 * Waits for the stream's work, then destroys it.  The handle is dead from the
 * start of the call.  Returns the stream's pending error, if any: the first
 * failure that no sync and no take_error has returned (that it was aborted is
 * none); -ENODEV: the device was lost with work pending.  The stream is
 * destroyed in every case but -EBADF and -EPERM.
 */
USDMA_API int usdma_stream_destroy(usdma_stream *stream);

/*
 * Waits until all work submitted before has ended.  If a piece of it failed,
 * returns the first failure (-EFAULT bad address, -EIO transfer failed, …; see
 * usdma_stream_take_error for more) and forgets it.  -ETIMEDOUT: not yet;
 * -ECANCELED: the stream was aborted.
 */
USDMA_API int usdma_stream_sync(usdma_stream *stream, int timeout_ms);
/* 1: all done; 0: not yet; or -ENODEV. Never blocks, takes no error. */
USDMA_API int usdma_stream_query(usdma_stream *stream);
/*
 * Drops work that has not begun and stops what runs (a copy may be half done).
 * Functions of usdma_stream_call that were dropped with it are called all the
 * same.  Later work and syncs of the stream give -ECANCELED until it is destroyed.
 */
USDMA_API int usdma_stream_abort(usdma_stream *stream);

enum usdma_fail_mode {
	USDMA_FAIL_GO_ON = 0, /* the default: work behind a failed piece still runs */
	USDMA_FAIL_STOP = 1   /* the first failure ends the stream: what waits is dropped, new work gets the error */
};
/* From the next failure on. -EINVAL: none of enum usdma_fail_mode. */
USDMA_API int usdma_stream_set_fail_mode(usdma_stream *stream, int mode);

struct usdma_error_info {
	uint32_t struct_size;
	int32_t error;   /* as usdma_stream_sync would return it; 0: none */
	uint32_t reason; /* the device's number for it (docs/hardware.md) … */
	uint32_t reserved;
	char reason_name[32]; /* … and its name */
	uint64_t address;     /* that the device gave with it; 0: none */
	uint64_t sequence;    /* which descriptor of its ring */
};
/* The first failure since it was last taken or returned by a sync; takes it. Returns 0 also when there was none. */
USDMA_API int usdma_stream_take_error(usdma_stream *stream, struct usdma_error_info *info);

struct usdma_stream_stats {
	uint32_t struct_size;
	uint32_t id;     /* the stream's number in log lines */
	uint64_t copies; /* pieces of work submitted */
	uint64_t bytes;  /* that they move */
	uint64_t errors; /* pieces that failed */
};
USDMA_API int usdma_stream_get_stats(usdma_stream *stream, struct usdma_stream_stats *stats);

/*
 * Adds 1 to the eventfd (any file that takes an 8-byte write of 1) when all
 * work submitted before has ended.  The descriptor is duplicated: the caller may
 * close its own.  A file that is full is written when it takes it, and holds
 * nothing up.  Returns at once.  -EBADF also when fd is not open; -EMFILE.
 * For a completion in an io_uring of the caller's: <usdma/uring.h>.
 */
USDMA_API int usdma_stream_signal_fd(usdma_stream *stream, int fd);

/*
 * Calls fn(arg) on a thread of the library when all work submitted before has
 * ended.  hold != 0: later work waits until fn has returned.  A stream's functions
 * are called in their order, and those of one device one after the other.  fn may
 * make any call.  With hold, one that waits for its stream, for what waits for that by an event, or for a function
 * that the same thread is to run, fails with -EDEADLK at once: usdma_stream_sync, usdma_event_sync,
 * usdma_device_sync, usdma_stream_destroy, and a copy in such a stream that waits for it first (usdma_copy).
 * Returns at once; -EAGAIN: the thread cannot be started.
 */
USDMA_API int usdma_stream_call(usdma_stream *stream, void (*fn)(void *arg), void *arg, int hold);

/* ---- copies ---------------------------------------------------------------------------------------- */

/*
 * Copies len bytes; the ranges must not overlap.  When it returns see the rules
 * on top (classes); two unregistered ends are copied by the CPU.  len 0 does
 * nothing.  Errors:
 *   -EFAULT     a device address that is not allocated, or a range that leaves its block
 *   -ENODEV     also: memory of another device, which was lost
 *   -ECANCELED  the stream was aborted
 * and for unregistered memory, because it waits: what usdma_stream_sync returns.
 * A full ring makes the call wait for room; that is no error.
 */
USDMA_API int usdma_copy(usdma_stream *stream, void *dst, const void *src, size_t len);

/*
 * Without a stream: returns when the data has arrived (or with the reason why
 * not); does not wait for streams.  Any classes, two host addresses included.
 * -ETIMEDOUT: the copy may still be in flight; keep device memory and pinned or
 * registered ranges until usdma_device_sync.  Unregistered ones are not touched
 * any more.
 */
USDMA_API int usdma_copy_sync(usdma_device *dev, void *dst, const void *src, size_t len, int timeout_ms);

struct usdma_copy_item {
	void *dst;
	const void *src;
	uint64_t len;
};
/*
 * n copies by one call, in order.  An item with unregistered memory behaves as
 * in usdma_copy (the call waits there).  On an error *done (if not NULL) says
 * how many items were submitted before the one that is wrong; those run.
 * Errors as usdma_copy.
 */
USDMA_API int usdma_copy_batch(usdma_stream *stream, const struct usdma_copy_item *items, size_t n, size_t *done);

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
 * Fills len bytes with a pattern of pattern_size bytes (1, 4 or 8; the low ones
 * of pattern, little-endian); len is a multiple of it.  The asynchronous form
 * takes device or host memory, the other one any.
 * -EINVAL the sizes; -EFAULT as usdma_copy; -ETIMEDOUT as usdma_copy_sync;
 * -EXDEV, of the asynchronous form, here and in the next three calls: memory that
 * the stream's device does not reach.
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
 * dst[i] = op(dst[i], src[i]) over len bytes; device or host memory.
 * -EINVAL: type, op, or len no multiple of the element; -EFAULT.
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
 * Later work of the stream waits until the 64-bit word at addr (device or host
 * memory, 8-byte aligned) compares with value.  Returns at once.  Where the
 * memory is freed meanwhile the wait ends with -EFAULT, the stream's error, or
 * lasts until the stream is aborted or destroyed by usdma_close.
 * -EOPNOTSUPP: the CPU cannot read the word, and the stream shares its channel.
 */
USDMA_API int usdma_wait_value(usdma_stream *stream, const void *addr, int compare, uint64_t value);

/* ---- events ---------------------------------------------------------------------------------------- */

enum usdma_event_flags {
	USDMA_EVENT_TIMING = 1 /* takes the device's time when it is reached */
};
/* A mark in a stream's work. flags: enum usdma_event_flags. -EINVAL; -ENOMEM. */
USDMA_API int usdma_event_create(usdma_device *dev, unsigned flags, usdma_event **out);
/* At once; streams that wait for it are served. */
USDMA_API int usdma_event_destroy(usdma_event *event);
/* Marks the work submitted to the stream so far; replaces an earlier mark. */
USDMA_API int usdma_event_record(usdma_event *event, usdma_stream *stream);
/*
 * Work submitted to the stream from now on starts after the event's latest mark
 * is reached; a stream of another device too.  An event that was never recorded
 * holds nothing up.  Returns at once.
 */
USDMA_API int usdma_stream_wait_event(usdma_stream *stream, usdma_event *event);
/* 1: reached, or never recorded, or of a device that was lost; 0: not yet. Never blocks. */
USDMA_API int usdma_event_query(usdma_event *event);
/*
 * Waits until it is reached; 0 at once when it was never recorded.  Returns the
 * pending error of the stream that it was recorded on, which stays pending
 * there: usdma_stream_sync takes it.  -ETIMEDOUT; -ENODEV: that stream's device was lost.
 */
USDMA_API int usdma_event_sync(usdma_event *event, int timeout_ms);
/*
 * *ns = device time between the two marks; negative when end came first.
 * -ENOENT one was never recorded; -EAGAIN one is not reached yet; -EINVAL one
 * has no USDMA_EVENT_TIMING.
 */
USDMA_API int usdma_event_elapsed(usdma_event *start, usdma_event *end, int64_t *ns);

#ifdef __cplusplus
}
#endif

#endif
