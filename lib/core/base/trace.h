/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Static tracepoints (USDT, provider usdma): a nop each while not traced, and compiled out without sys/sdt.h.
 * Arguments are existing values; none is computed for a tracepoint. docs/examples/bpftrace has scripts that use
 * them.
 *
 *   submit(ch, channel, last, requests)      requests are in the ring; last: the number of the last one
 *   doorbell(ch, channel, last)              the doorbell was written for them
 *   wait__begin(ch, channel, seq)            a thread begins to wait for a number
 *   wait__end(ch, channel, seq, error, device) and ends: 0, or a negative errno
 *   complete(ch, channel, seq, device)       a query that does not wait found the number done
 *   error(stream, errno, reason, address, seq) a request failed
 *
 * ch identifies a channel; channel is its index in its device, which the tracepoints of the fast path omit to
 * avoid a load.
 */
#pragma once

#ifdef USDMA_TRACE
#include <sys/sdt.h>

#define trace_submit(ch, n) STAP_PROBE4(usdma, submit, ch, (ch)->index, (ch)->posted, n)
#define trace_doorbell(ch) STAP_PROBE3(usdma, doorbell, ch, (ch)->index, (ch)->posted)
#define trace_wait_begin(l, seq) STAP_PROBE3(usdma, wait__begin, (l)->ch, (l)->ch->index, seq)
#define trace_wait_end(l, seq, err) STAP_PROBE5(usdma, wait__end, (l)->ch, (l)->ch->index, seq, err, (l)->dev->slot)
#define trace_complete(l, seq) STAP_PROBE4(usdma, complete, (l)->ch, (l)->ch->index, seq, (l)->dev->slot)
#define trace_error(id, err, reason, address, seq) STAP_PROBE5(usdma, error, id, err, reason, address, seq)
#else
#define trace_submit(ch, n) ((void)0)
#define trace_doorbell(ch) ((void)0)
#define trace_wait_begin(l, seq) ((void)0)
#define trace_wait_end(l, seq, err) ((void)0)
#define trace_complete(l, seq) ((void)0)
#define trace_error(id, err, reason, address, seq) ((void)0)
#endif
