/* SPDX-License-Identifier: BSD-3-Clause */
/* Data types, half-precision numbers, data buffers. */
#include "driver/base/log.h"
#include "lib/acl/state.h"

#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <new>

using namespace usdma;
using namespace usdma::acl;

struct aclDataBuffer {
	void *data;
	size_t size;
};

static u32 bits_of(float f)
{
	u32 bits;

	memcpy(&bits, &f, sizeof(bits));
	return bits;
}

static float float_of(u32 bits)
{
	float f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

/* value >> shift, rounded to nearest, ties to even. */
static u32 round_shift(u32 value, unsigned shift)
{
	const u32 half = 1u << (shift - 1), rest = value & ((1u << shift) - 1), high = value >> shift;

	return high + (rest > half || (rest == half && (high & 1)));
}

extern "C" {

size_t aclDataTypeSize(aclDataType dataType)
{
	switch (dataType) {
	case ACL_DT_UNDEFINED:
	case ACL_STRING:
		return 0;
	case ACL_INT8:
	case ACL_UINT8:
	case ACL_BOOL:
	case ACL_INT4:
	case ACL_UINT1:
	case ACL_HIFLOAT8:
	case ACL_FLOAT8_E5M2:
	case ACL_FLOAT8_E4M3FN:
	case ACL_FLOAT8_E8M0:
		return 1;
	case ACL_FLOAT16:
	case ACL_INT16:
	case ACL_UINT16:
	case ACL_BF16:
		return 2;
	case ACL_FLOAT:
	case ACL_INT32:
	case ACL_UINT32:
	case ACL_COMPLEX32:
		return 4;
	case ACL_COMPLEX128:
		return 16;
	default:
		return 8;
	}
}

float aclFloat16ToFloat(aclFloat16 value)
{
	const u32 sign = u32(value & 0x8000) << 16, exponent = value >> 10 & 0x1f, fraction = value & 0x3ff;

	if (exponent == 0x1f)
		return float_of(sign | 0x7f800000 | fraction << 13);
	if (exponent)
		return float_of(sign | (exponent + 112) << 23 | fraction << 13);
	/* Zero or subnormal: fraction * 2^-24, which a float holds exactly. */
	return float_of(sign | bits_of(float(fraction) * 0x1p-24f));
}

aclFloat16 aclFloatToFloat16(float value)
{
	const u32 bits = bits_of(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;

	if (magnitude > 0x7f800000) /* becomes a quiet NaN */
		return aclFloat16(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
	if (magnitude >= 0x477ff000) /* rounds beyond 65504 */
		return aclFloat16(sign | 0x7c00);
	if (magnitude >= 0x38800000) /* normal: rebias; a carry into the exponent is correct */
		return aclFloat16(sign | round_shift(magnitude - (112u << 23), 13));
	if (magnitude < 0x33000000) /* less than half of the least subnormal */
		return aclFloat16(sign);
	return aclFloat16(sign | round_shift((magnitude & 0x7fffff) | 0x800000, 126 - (magnitude >> 23)));
}

void aclAppLog(aclLogLevel logLevel, const char *func, const char *file, uint32_t line, const char *fmt, ...)
{
	static constexpr log_level levels[] = {log_level::debug, log_level::info, log_level::warn, log_level::error};
	const u32 at = number_in(logLevel);
	char text[1024];
	va_list ap;

	if (at >= std::size(levels) || !fmt || !log_enabled(levels[at]))
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	log_write(levels[at], "%s:%u: %s: %s", file ? file : "", line, func ? func : "", text);
}

} // extern "C"

#include "lib/acl/calls_types.h"
