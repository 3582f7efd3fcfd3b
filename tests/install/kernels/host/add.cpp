/* SPDX-License-Identifier: BSD-3-Clause */
#include <host_kernel.h>

/* z = x + y */
void add_do(uint32_t, void *stream, int32_t *x, int32_t *y, int32_t *z, uint32_t n)
{
	host_kernel(stream, [=] {
		for (uint32_t i = 0; i < n; i++)
			z[i] = x[i] + y[i];
	});
}
