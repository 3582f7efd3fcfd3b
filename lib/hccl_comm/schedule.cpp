/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/hccl_comm/schedule.h"

#include <algorithm>
#include <cstring>

namespace usdma::hccl_comm {
namespace {

/* An AllReduce of less is by one exchange of all with all, which costs less than two of shares. */
constexpr u64 small_bytes = 32 << 10;

/* Some ranks of the group, which do something together; own: this rank's index among them. */
struct members {
	u32 ranks[max_ranks];
	u32 count = 0, own = 0;

	void add(const comm *c, u32 rank)
	{
		own = rank == c->rank ? count : own;
		ranks[count++] = rank;
	}
};

members everybody(const comm *c)
{
	members all;

	for (u32 r = 0; r < c->size; r++)
		all.add(c, r);
	return all;
}

/* Those of this machine, … */
members row_of(const comm *c)
{
	members row;

	for (u32 i = 0; i < c->at.columns; i++)
		row.add(c, c->at.ranks[c->at.row * c->at.columns + i]);
	return row;
}

/* … and those of the same index on the others. */
members column_of(const comm *c)
{
	members column;

	for (u32 i = 0; i < c->at.rows; i++)
		column.add(c, c->at.ranks[i * c->at.columns + c->at.column]);
	return column;
}

/* The layout has a part for each member. */
HcclResult reduce_scatter_among(work *w, const members &m, const layout &from, char *to, const reduction &by)
{
	parts give, take;

	for (u32 i = 0; i < m.count; i++)
		if (i != m.own) {
			give.add(m.ranks[i], from.at(i), from.bytes(i));
			take.add(m.ranks[i], to, from.bytes(m.own));
		}
	if (HcclResult ret = copy_local(w, to, from.at(m.own), from.bytes(m.own)))
		return ret;
	return exchange(w, give.list, give.count, take.list, take.count, &by);
}

HcclResult all_gather_among(work *w, const members &m, char *from, const layout &to)
{
	parts give, take;

	for (u32 i = 0; i < m.count; i++)
		if (i != m.own) {
			give.add(m.ranks[i], from, to.bytes(m.own));
			take.add(m.ranks[i], to.at(i), to.bytes(i));
		}
	if (HcclResult ret = copy_local(w, to.at(m.own), from, to.bytes(m.own)))
		return ret;
	return exchange(w, give.list, give.count, take.list, take.count);
}

HcclResult all_reduce_among(work *w, const members &m, char *dst, char *src, u64 count, const reduction &by)
{
	const shares each(count, m.count);
	const layout to = each.of(dst, by.element);

	if (HcclResult ret = reduce_scatter_among(w, m, each.of(src, by.element), to.at(m.own), by))
		return ret;
	return all_gather_among(w, m, to.at(m.own), to);
}

/* Each rank of a machine reduces a share there, then with those of the same index elsewhere. */
HcclResult all_reduce_on_grid(work *w, char *dst, char *src, u64 count, const reduction &by)
{
	const members row = row_of(w->c);
	const shares each(count, row.count);
	const layout to = each.of(dst, by.element);
	char *const own = to.at(row.own);

	if (HcclResult ret = reduce_scatter_among(w, row, each.of(src, by.element), own, by))
		return ret;
	if (HcclResult ret = all_reduce_among(w, column_of(w->c), own, own, each.counts[row.own], by))
		return ret;
	return all_gather_among(w, row, own, to);
}

/* Each part crosses to another machine once, to the rank of the same index. */
HcclResult all_gather_on_grid(work *w, char *from, const layout &to)
{
	const members row = row_of(w->c), column = column_of(w->c);
	parts give, take;

	for (u32 i = 0; i < column.count; i++)
		if (i != column.own) {
			give.add(column.ranks[i], from, to.bytes(w->c->rank));
			take.add(column.ranks[i], to.at(column.ranks[i]), to.bytes(column.ranks[i]));
		}
	HcclResult ret = copy_local(w, to.at(w->c->rank), from, to.bytes(w->c->rank));
	ret = ret ? ret : exchange(w, give.list, give.count, take.list, take.count);
	/* What each has from one machine, then from the next. */
	for (u32 host = 0; !ret && host < column.count; host++) {
		parts out, in;

		for (u32 i = 0; i < row.count; i++) {
			const u32 theirs = w->c->at.ranks[host * row.count + i], own = column.ranks[host];

			if (i == row.own)
				continue;
			out.add(row.ranks[i], to.at(own), to.bytes(own));
			in.add(row.ranks[i], to.at(theirs), to.bytes(theirs));
		}
		ret = exchange(w, out.list, out.count, in.list, in.count);
	}
	return ret;
}

HcclResult broadcast_among(work *w, const members &m, u32 root, char *at, u64 bytes)
{
	const transfer own = {root, at, bytes};
	parts all; /* the same part for each */

	if (w->c->rank != root)
		return exchange(w, nullptr, 0, &own, 1);
	for (u32 i = 0; i < m.count; i++)
		if (m.ranks[i] != root)
			all.add(m.ranks[i], at, bytes);
	return exchange(w, all.list, all.count, nullptr, 0);
}

/* To one rank of each machine, which has it for the others there. */
HcclResult broadcast_on_grid(work *w, u32 root, char *at, u64 bytes)
{
	const grid &g = w->c->at;
	const u32 column = u32(std::find(g.ranks, g.ranks + w->c->size, root) - g.ranks) % g.columns;

	if (g.column == column)
		if (HcclResult ret = broadcast_among(w, column_of(w->c), root, at, bytes))
			return ret;
	return broadcast_among(w, row_of(w->c), g.ranks[g.row * g.columns + column], at, bytes);
}

bool on_grid(const comm *c)
{
	return c->at.rows > 1;
}

} // namespace

HcclResult reduce_scatter(work *w, const layout &from, char *to, const reduction &by)
{
	return reduce_scatter_among(w, everybody(w->c), from, to, by);
}

HcclResult all_gather(work *w, char *from, const layout &to)
{
	return on_grid(w->c) ? all_gather_on_grid(w, from, to) : all_gather_among(w, everybody(w->c), from, to);
}

HcclResult all_reduce(work *w, char *dst, char *src, u64 count, const reduction &by)
{
	const comm *c = w->c;
	const u64 bytes = count * by.element,
		  slot = c->remote_slot ? std::min(c->slot_bytes, c->remote_slot) : c->slot_bytes;

	if (bytes <= std::min(small_bytes, slot))
		return reduce_in_slots(w, dst, src, bytes, by);
	return on_grid(c) ? all_reduce_on_grid(w, dst, src, count, by) :
			    all_reduce_among(w, everybody(c), dst, src, count, by);
}

HcclResult broadcast(work *w, u32 root, char *at, u64 bytes)
{
	return on_grid(w->c) ? broadcast_on_grid(w, root, at, bytes) :
			       broadcast_among(w, everybody(w->c), root, at, bytes);
}

/* A row is a machine. Without an equal number of ranks on each, and more than one, there is none. */
void find_grid(comm *c, const rank_info *all)
{
	u32 hosts[max_ranks], filled[max_ranks] = {};
	grid g;

	const auto same = [=](u32 a, u32 b) { return !memcmp(all[a].host, all[b].host, sizeof(all[a].host)); };
	const auto host_of = [&](u32 r) {
		return u32(std::find_if(hosts, hosts + g.rows, [&](u32 h) { return same(h, r); }) - hosts);
	};

	for (u32 r = 0; r < c->size; r++)
		if (host_of(r) == g.rows)
			hosts[g.rows++] = r;
	g.columns = c->size / g.rows;
	c->at = {};
	for (u32 r = 0; r < c->size; r++) {
		const u32 row = host_of(r);

		if (filled[row] == g.columns)
			return;
		if (r == c->rank) {
			g.row = row;
			g.column = filled[row];
		}
		g.ranks[row * g.columns + filled[row]++] = r;
	}
	if (g.columns > 1 && g.columns * g.rows == c->size)
		c->at = g;
}

} // namespace usdma::hccl_comm
