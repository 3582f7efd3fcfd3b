/* SPDX-License-Identifier: BSD-3-Clause */
extern "C" __global__ __aicore__ void add(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t n); /* for another compiler */
