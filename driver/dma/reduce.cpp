/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/dma/reduce.h"

#include <cstring>
#include <type_traits>

namespace usdma::dma {

static u32 bits_of(float v)
{
	return __builtin_bit_cast(u32, v);
}

static float float_of(u32 v)
{
	return __builtin_bit_cast(float, v);
}

/* v shifted right by n (1 … 31), rounded to nearest, ties to even. */
static u32 shift_round(u32 v, unsigned n)
{
	const u32 half = 1u << (n - 1), rest = v & ((1u << n) - 1), quotient = v >> n;

	return quotient + (rest > half || (rest == half && (quotient & 1)));
}

u16 bf16_from_f32(float v)
{
	const u32 b = bits_of(v);

	if (v != v)
		return u16(b >> 16 | 0x40); /* quiet NaN; low bits of the payload are lost */
	return u16(shift_round(b, 16));     /* a carry out of the mantissa increments the exponent, up to infinity */
}

float f32_from_bf16(u16 v)
{
	return float_of(u32(v) << 16);
}

/* binary16 (IEEE 754-2019 §3.6): 1 sign, 5 exponent (bias 15), 10 mantissa bits. */
u16 f16_from_f32(float v)
{
	const u32 b = bits_of(v), sign = b >> 16 & 0x8000, mag = b & 0x7fffffff;

	if (mag > 0x7f800000)
		return u16(sign | 0x7e00 | (mag >> 13 & 0x3ff));
	if (mag >= 0x47800000) /* 65536 and more */
		return u16(sign | 0x7c00);
	if (mag >= 0x38800000) /* 2^-14 and more: normal; a carry to infinity is correct */
		return u16(sign | shift_round(mag - 0x38000000, 13));
	if (mag < 0x33000000) /* below half of the smallest subnormal */
		return u16(sign);
	/* Subnormal: the mantissa with its hidden bit, in multiples of 2^-24. */
	return u16(sign | shift_round((mag & 0x7fffff) | 0x800000, 126 - (mag >> 23)));
}

float f32_from_f16(u16 v)
{
	const u32 sign = u32(v & 0x8000) << 16, exp = v >> 10 & 0x1f, man = v & 0x3ff;

	if (exp == 0x1f)
		return float_of(sign | 0x7f800000 | man << 13);
	if (exp)
		return float_of(sign | (exp + 112) << 23 | man << 13);
	const float small = float(man) * 0x1p-24f;
	return sign ? -small : small;
}

/* Storage type of each element, and the type of its arithmetic. */
template <class T> struct plain_number {
	using stored = T;
	static T load(T v) { return v; }
	static T store(T v) { return v; }
};

struct half {
	using stored = u16;
	static float load(u16 v) { return f32_from_f16(v); }
	static u16 store(float v) { return f16_from_f32(v); }
};

struct brain {
	using stored = u16;
	static float load(u16 v) { return f32_from_bf16(v); }
	static u16 store(float v) { return bf16_from_f32(v); }
};

/* Integer arithmetic is done in u64, which wraps; the low bits are the same. */
template <class T> static T wrap_add(T a, T b)
{
	if constexpr (std::is_integral_v<T>)
		return T(u64(a) + u64(b));
	else
		return a + b;
}

template <class T> static T wrap_mul(T a, T b)
{
	if constexpr (std::is_integral_v<T>)
		return T(u64(a) * u64(b));
	else
		return a * b;
}

template <class T> static bool is_nan(T v)
{
	return v != v;
}

struct sum {
	template <class T> static T apply(T a, T b) { return wrap_add(a, b); }
};
struct prod {
	template <class T> static T apply(T a, T b) { return wrap_mul(a, b); }
};
struct max {
	template <class T> static T apply(T a, T b) { return is_nan(a) ? a : is_nan(b) || b > a ? b : a; }
};
struct min {
	template <class T> static T apply(T a, T b) { return is_nan(a) ? a : is_nan(b) || b < a ? b : a; }
};
struct equal {
	template <class T> static T apply(T a, T b) { return a == b ? T(1) : T(0); }
};

template <class number, class op> static void reduce(void *dst, const void *src, size_t bytes)
{
	using stored = typename number::stored;
	auto *d = static_cast<u8 *>(dst);
	auto *s = static_cast<const u8 *>(src);

	for (size_t i = 0; i < bytes; i += sizeof(stored)) {
		stored a, b;

		memcpy(&a, d + i, sizeof(a));
		memcpy(&b, s + i, sizeof(b));
		a = number::store(op::apply(number::load(a), number::load(b)));
		memcpy(d + i, &a, sizeof(a));
	}
}

template <class number> static reduce_fn pick_op(reduce_op op)
{
	static constexpr reduce_fn table[] = {reduce<number, sum>, reduce<number, max>, reduce<number, min>,
					      reduce<number, equal>, reduce<number, prod>};

	return size_t(op) < sizeof(table) / sizeof(table[0]) ? table[size_t(op)] : nullptr;
}

reduce_fn find_reduction(u8 arg)
{
	const reduce_op op = reduce_operation(arg);

	switch (reduce_type(arg)) {
	case element::i8:
		return pick_op<plain_number<std::int8_t>>(op);
	case element::i16:
		return pick_op<plain_number<std::int16_t>>(op);
	case element::i32:
		return pick_op<plain_number<std::int32_t>>(op);
	case element::i64:
		return pick_op<plain_number<std::int64_t>>(op);
	case element::u8:
		return pick_op<plain_number<std::uint8_t>>(op);
	case element::u16:
		return pick_op<plain_number<std::uint16_t>>(op);
	case element::u32:
		return pick_op<plain_number<std::uint32_t>>(op);
	case element::u64:
		return pick_op<plain_number<std::uint64_t>>(op);
	case element::f16:
		return pick_op<half>(op);
	case element::bf16:
		return pick_op<brain>(op);
	case element::f32:
		return pick_op<plain_number<float>>(op);
	case element::f64:
		return pick_op<plain_number<double>>(op);
	default:
		return nullptr;
	}
}

} // namespace usdma::dma
