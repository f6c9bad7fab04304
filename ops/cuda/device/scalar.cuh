// Element types, and the scalar operations of fused programs (graph/fused_program.h), in device
// code. This folder is a subset of CUDA C++ without any header of the toolkit or the standard
// library: NVRTC and nvcc compile it for GPUs, and a host compiler with tests/cuda_simt for tests.
// What an operation means is written in ops/scalar_functions.h; here is the same once more, in f32
// where the element type is f16, bf16 or f32.
#ifndef MILLRACE_OPS_CUDA_DEVICE_SCALAR_CUH_
#define MILLRACE_OPS_CUDA_DEVICE_SCALAR_CUH_

namespace millrace {

using i8 = signed char;
using u8 = unsigned char;
using i16 = short;
using u16 = unsigned short;
using i32 = int;
using u32 = unsigned;
using i64 = long long;
using u64 = unsigned long long;
using f32 = float;
using f64 = double;
struct f16 {
  u16 bits;
};
struct bf16 {
  u16 bits;
};

template <typename A, typename B>
inline constexpr bool kSame = false;
template <typename A>
inline constexpr bool kSame<A, A> = true;
template <typename T>
inline constexpr bool kIsHalf = kSame<T, f16> || kSame<T, bf16>;
template <typename T>
inline constexpr bool kIsFloat = kIsHalf<T> || kSame<T, f32> || kSame<T, f64>;
template <typename T>
inline constexpr bool kIsSigned =
    kIsFloat<T> || kSame<T, i8> || kSame<T, i16> || kSame<T, i32> || kSame<T, i64>;

template <bool kFirst, typename A, typename B>
struct Either {
  using type = A;
};
template <typename A, typename B>
struct Either<false, A, B> {
  using type = B;
};
template <bool kFirst, typename A, typename B>
using Choose = typename Either<kFirst, A, B>::type;

// What arithmetic on T is done in, and what rows of T are reduced in.
template <typename T>
using Native = Choose<kIsHalf<T>, f32, T>;
template <typename T>
using Wide = Choose<kIsFloat<T>, Native<T>, Choose<kIsSigned<T>, i64, u64>>;

// --- f16 and bf16 ------------------------------------------------------------------------------
// Rounded to nearest even; NaN stays NaN.
__device__ inline f32 ToF32(f16 x) {
#ifdef __CUDA_ARCH__
  f32 y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
#else
  const u32 sign = (x.bits & 0x8000u) << 16, exponent = x.bits >> 10 & 0x1fu;
  const u32 fraction = x.bits & 0x3ffu;
  if (exponent == 0x1f) return __uint_as_float(sign | 0x7f800000u | fraction << 13);
  if (exponent == 0) {
    return __uint_as_float(sign | __float_as_uint(static_cast<f32>(fraction) * 0x1p-24f));
  }
  return __uint_as_float(sign | (exponent + 112) << 23 | fraction << 13);
#endif
}
__device__ inline f32 ToF32(bf16 x) { return __uint_as_float(static_cast<u32>(x.bits) << 16); }

__device__ inline f16 ToF16(f32 x) {
#ifdef __CUDA_ARCH__
  f16 y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
#else
  const u32 all = __float_as_uint(x), magnitude = all & 0x7fffffffu;
  const u16 sign = static_cast<u16>(all >> 16 & 0x8000u);
  if (magnitude > 0x7f800000u) return {static_cast<u16>(0x7fffu)};
  if (magnitude >= 0x477ff000u) return {static_cast<u16>(sign | 0x7c00u)};
  if (magnitude < 0x33000001u) return {sign};
  const int exponent = static_cast<int>(magnitude >> 23) - 127;
  const int dropped = exponent < -14 ? -1 - exponent : 13;
  const u32 significand = (magnitude & 0x7fffffu) | 0x800000u;
  const u32 rest = significand & ((1u << dropped) - 1), half = 1u << (dropped - 1);
  u32 rounded = significand >> dropped;
  if (rest > half || (rest == half && (rounded & 1u) != 0)) ++rounded;
  const u32 bits = exponent < -14 ? rounded : (static_cast<u32>(exponent + 14) << 10) + rounded;
  return {static_cast<u16>(sign | bits)};
#endif
}
__device__ inline bf16 ToBF16(f32 x) {
  const u32 bits = __float_as_uint(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<u16>(bits >> 16 | 0x40u)};
  return {static_cast<u16>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16)};
}

// `x` as an f32 from which rounding to fewer bits gives what rounding `x` itself would.
__device__ inline f32 RoundToOdd(f64 x) {
  const f32 y = static_cast<f32>(x);
  if (static_cast<f64>(y) == x || x != x) return y;
  u32 bits = __float_as_uint(y);
  const f64 away = static_cast<f64>(y);
  if ((bits & 0x7fffffffu) == 0x7f800000u || fabs(away) > fabs(x)) --bits;
  return __uint_as_float(bits | 1u);
}

template <typename T>
__device__ inline Native<T> ToNative(T x) {
  if constexpr (kIsHalf<T>) {
    return ToF32(x);
  } else {
    return x;
  }
}

// --- Limits --------------------------------------------------------------------------------------
template <typename T>
__device__ inline T Infinity() {
  return static_cast<T>(__uint_as_float(0x7f800000u));
}
template <typename T>
__device__ constexpr T LargestInteger() {
  constexpr int kBits = 8 * static_cast<int>(sizeof(T));
  if constexpr (kSame<T, bool>) {
    return true;
  } else {
    return static_cast<T>(~0ull >> (64 - kBits + (kIsSigned<T> ? 1 : 0)));
  }
}
template <typename T>
__device__ constexpr T SmallestInteger() {
  if constexpr (kIsSigned<T>) {
    return static_cast<T>(-LargestInteger<T>() - 1);
  } else {
    return T(0);
  }
}

// --- Conversion, as Cast does it
// -------------------------------------------------------------------
template <typename To, typename From>
__device__ inline To Convert(From x) {
  if constexpr (kSame<To, From>) {
    return x;
  } else if constexpr (kIsHalf<From>) {
    return Convert<To>(ToF32(x));
  } else if constexpr (kSame<To, bool>) {
    return x != From(0);
  } else if constexpr (kSame<To, f16> || kSame<To, bf16>) {
    f32 narrow;
    if constexpr (kSame<From, f32>) {
      narrow = x;
    } else {
      narrow = RoundToOdd(static_cast<f64>(x));
    }
    if constexpr (kSame<To, f16>) {
      return ToF16(narrow);
    } else {
      return ToBF16(narrow);
    }
  } else if constexpr (!kIsFloat<To> && kIsFloat<From>) {
    if (x != x) return To(0);
    if (x <= static_cast<From>(SmallestInteger<To>())) return SmallestInteger<To>();
    if (x >= static_cast<From>(LargestInteger<To>())) return LargestInteger<To>();
    return static_cast<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

// --- Operations on Native types ----------------------------------------------------------------
template <typename T>
__device__ inline T Add(T a, T b) {
  if constexpr (kIsFloat<T>) return a + b;
  return static_cast<T>(static_cast<u64>(a) + static_cast<u64>(b));
}
template <typename T>
__device__ inline T Sub(T a, T b) {
  if constexpr (kIsFloat<T>) return a - b;
  return static_cast<T>(static_cast<u64>(a) - static_cast<u64>(b));
}
template <typename T>
__device__ inline T Mul(T a, T b) {
  if constexpr (kIsFloat<T>) return a * b;
  return static_cast<T>(static_cast<u64>(a) * static_cast<u64>(b));
}
template <typename T>
__device__ inline T Neg(T a) {
  if constexpr (kIsFloat<T>) return -a;
  return static_cast<T>(0 - static_cast<u64>(a));
}
template <typename T>
__device__ inline T Div(T a, T b) {
  if constexpr (kIsFloat<T>) {
    return a / b;
  } else {
    if (b == T(0)) return T(0);
    if (kIsSigned<T> && b == T(-1)) return Neg(a);
    return static_cast<T>(a / b);
  }
}
__device__ inline f32 Mod(f32 a, f32 b) { return fmodf(a, b); }
__device__ inline f64 Mod(f64 a, f64 b) { return fmod(a, b); }
template <typename T>
__device__ inline T Mod(T a, T b) {
  return b == T(0) || (kIsSigned<T> && b == T(-1)) ? T(0) : static_cast<T>(a % b);
}
// NaN wins, the first of equals stays.
template <typename T>
__device__ inline T Max(T a, T b) {
  return b > a || (b != b && a == a) ? b : a;
}
template <typename T>
__device__ inline T Min(T a, T b) {
  return b < a || (b != b && a == a) ? b : a;
}
template <typename T>
__device__ inline T Abs(T a) {
  if constexpr (kSame<T, f32>) return fabsf(a);
  if constexpr (kSame<T, f64>) return fabs(a);
  if constexpr (kIsSigned<T> && !kIsFloat<T>) return a < T(0) ? Neg(a) : a;
  return a;
}
// NaN is its own sign.
template <typename T>
__device__ inline T Sign(T a) {
  if (a == T(0)) return T(0);
  if (a > T(0)) return T(1);
  return kIsSigned<T> && a < T(0) ? static_cast<T>(-1) : a;
}

// X(name, f32 function, f64 function)
#define MILLRACE_DEVICE_UNARY(X) \
  X(Exp, expf, exp)              \
  X(Log, logf, log)              \
  X(Sqrt, sqrtf, sqrt)           \
  X(Tanh, tanhf, tanh)           \
  X(Erf, erff, erf)              \
  X(Sin, sinf, sin)              \
  X(Cos, cosf, cos)              \
  X(Expm1, expm1f, expm1)        \
  X(Log1p, log1pf, log1p)        \
  X(Floor, floorf, floor)        \
  X(Ceil, ceilf, ceil)           \
  X(Round, rintf, rint)
#define MILLRACE_DEVICE_FUNCTION(name, f, d)         \
  __device__ inline f32 name(f32 x) { return f(x); } \
  __device__ inline f64 name(f64 x) { return d(x); }
MILLRACE_DEVICE_UNARY(MILLRACE_DEVICE_FUNCTION)
#undef MILLRACE_DEVICE_FUNCTION
#undef MILLRACE_DEVICE_UNARY

__device__ inline f32 Pow(f32 a, f32 b) { return powf(a, b); }
__device__ inline f64 Pow(f64 a, f64 b) { return pow(a, b); }
__device__ inline f32 Fma(f32 a, f32 b, f32 c) { return fmaf(a, b, c); }
__device__ inline f64 Fma(f64 a, f64 b, f64 c) { return fma(a, b, c); }
template <typename T>
__device__ inline T Rsqrt(T x) {
  return T(1) / Sqrt(x);
}
template <typename T>
__device__ inline T Reciprocal(T x) {
  return T(1) / x;
}
template <typename T>
__device__ inline T Sigmoid(T x) {
  return T(1) / (T(1) + Exp(-x));
}
template <typename T>
__device__ inline T Softplus(T x) {  // exp(-|x|) does not overflow
  const T bound = x > T(0) ? x : T(0);
  return x != x ? x : bound + Log1p(Exp(-Abs(x)));
}
template <typename T>
__device__ inline T Gelu(T x) {
  if (x == -Infinity<T>()) return -T(0);
  return T(0.5) * x * (T(1) + Erf(x * T(0.70710678118654752440)));
}
template <typename T>
__device__ inline T GeluTanh(T x) {
  if (x == -Infinity<T>()) return -T(0);
  return T(0.5) * x * (T(1) + Tanh(T(0.79788456080286535588) * (x + T(0.044715) * x * x * x)));
}
__device__ inline bool Not(bool a) { return !a; }
template <typename T>
__device__ inline bool IsNaN(T a) {
  return a != a;
}
template <typename T>
__device__ inline T And(T a, T b) {
  return static_cast<T>(a & b);
}
template <typename T>
__device__ inline T Or(T a, T b) {
  return static_cast<T>(a | b);
}
template <typename T>
__device__ inline T Xor(T a, T b) {
  return static_cast<T>(a ^ b);
}

// --- Vectors
// --------------------------------------------------------------------------------------- kCount
// elements that are moved at once where they are aligned to their size.
template <typename T, int kCount>
struct alignas(sizeof(T) * kCount) Pack {
  T at[kCount];
};

__device__ inline bool IsAligned(const void* address, u32 bytes) {
  return (reinterpret_cast<u64>(address) & (bytes - 1)) == 0;
}

template <int kCount, typename T>
__device__ inline Pack<T, kCount> Load(const T* from, bool aligned) {
  if constexpr (kCount == 1) {
    return {{*from}};
  } else {
    if (aligned) return *reinterpret_cast<const Pack<T, kCount>*>(from);
    Pack<T, kCount> pack;
#pragma unroll
    for (int i = 0; i < kCount; ++i) pack.at[i] = from[i];
    return pack;
  }
}

template <int kCount, typename T>
__device__ inline void Store(T* to, const Pack<T, kCount>& pack, bool aligned) {
  if constexpr (kCount == 1) {
    *to = pack.at[0];
  } else {
    if (aligned) {
      *reinterpret_cast<Pack<T, kCount>*>(to) = pack;
      return;
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) to[i] = pack.at[i];
  }
}

}  // namespace millrace

#endif  // MILLRACE_OPS_CUDA_DEVICE_SCALAR_CUH_
