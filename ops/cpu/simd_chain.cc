// See chain.h. A step is a function that gets the block in vector registers and calls the next one
// in tail position, which compilers make a jump: this is threaded code over whole vectors.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/simd_chain.cc"
#include "ops/cpu/simd_targets.h"
// Highway wants its per-target includes after this line.
#include "hwy/foreach_target.h"
#include "ops/cpu/chain.h"
#include "ops/cpu/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace millrace {
namespace HWY_NAMESPACE {
namespace chain {

using D = hn::ScalableTag<float>;
using DI = hn::RebindToSigned<D>;
using V = hn::Vec<D>;
using VI = hn::Vec<DI>;
using M = hn::Mask<D>;

// As many vectors as are passed in registers, where there are enough for the formulas too.
#if HWY_TARGET <= HWY_AVX3
#define MILLRACE_CHAIN_EACH(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7)
#define MILLRACE_CHAIN_PARAMS V v0, V v1, V v2, V v3, V v4, V v5, V v6, V v7
#define MILLRACE_CHAIN_ARGS v0, v1, v2, v3, v4, v5, v6, v7
#define MILLRACE_CHAIN_ZEROS hn::Zero(D()), hn::Zero(D()), hn::Zero(D()), hn::Zero(D()), \
                             hn::Zero(D()), hn::Zero(D()), hn::Zero(D()), hn::Zero(D())
constexpr int kVectors = 8;
#else
#define MILLRACE_CHAIN_EACH(F) F(0) F(1) F(2) F(3)
#define MILLRACE_CHAIN_PARAMS V v0, V v1, V v2, V v3
#define MILLRACE_CHAIN_ARGS v0, v1, v2, v3
#define MILLRACE_CHAIN_ZEROS hn::Zero(D()), hn::Zero(D()), hn::Zero(D()), hn::Zero(D())
constexpr int kVectors = 4;
#endif

using Step = void (*)(const ChainStep* step, float* const* slots, MILLRACE_CHAIN_PARAMS);

#define MILLRACE_CHAIN_NEXT \
  reinterpret_cast<Step>(step[1].function)(step + 1, slots, MILLRACE_CHAIN_ARGS)

// --- What lanes are ------------------------------------------------------------------------------

HWY_INLINE V FromMask(M mask) { return hn::VecFromMask(D(), mask); }
HWY_INLINE M ToMask(V v) { return hn::MaskFromVec(v); }
HWY_INLINE VI Bits(V v) { return hn::BitCast(DI(), v); }
HWY_INLINE V FromBits(VI v) { return hn::BitCast(D(), v); }
HWY_INLINE V FromIntMask(hn::Mask<DI> mask) { return FromBits(hn::VecFromMask(DI(), mask)); }

// Vector i of a slot.
template <bool kSplat>
HWY_INLINE V LoadAt(const float* at, int i) {
  const D d;
  return hn::LoadU(d, kSplat ? at : at + i * static_cast<int>(hn::Lanes(d)));
}

// --- Unary ---------------------------------------------------------------------------------------

struct Neg { static HWY_INLINE V Of(D, V x) { return hn::Neg(x); } };
struct Abs { static HWY_INLINE V Of(D, V x) { return hn::Abs(x); } };
struct Sign {
  static HWY_INLINE V Of(D d, V x) {
    const auto one = hn::Set(d, 1.0f), zero = hn::Zero(d);
    const auto y = hn::IfThenElse(hn::Lt(x, zero), hn::Neg(one),
                                  hn::IfThenElseZero(hn::Gt(x, zero), one));
    return hn::IfThenElse(hn::IsNaN(x), x, y);
  }
};
struct Exp { static HWY_INLINE V Of(D d, V x) { return HWY_NAMESPACE::Exp(d, x); } };
struct Log { static HWY_INLINE V Of(D d, V x) { return HWY_NAMESPACE::Log(d, x); } };
struct Sqrt { static HWY_INLINE V Of(D, V x) { return hn::Sqrt(x); } };
struct Rsqrt {
  static HWY_INLINE V Of(D d, V x) { return hn::Div(hn::Set(d, 1.0f), hn::Sqrt(x)); }
};
struct Reciprocal { static HWY_INLINE V Of(D d, V x) { return hn::Div(hn::Set(d, 1.0f), x); } };
struct Tanh { static HWY_INLINE V Of(D d, V x) { return HWY_NAMESPACE::Tanh(d, x); } };
struct Erf { static HWY_INLINE V Of(D d, V x) { return HWY_NAMESPACE::Erf(d, x); } };
struct Sigmoid { static HWY_INLINE V Of(D d, V x) { return HWY_NAMESPACE::Sigmoid(d, x); } };
struct Expm1 {
  static HWY_INLINE V Of(D d, V x) {
    const auto large = hn::Sub(HWY_NAMESPACE::Exp(d, x), hn::Set(d, 1.0f));
    const auto small = ExpMinus1(d, hn::Min(x, hn::Set(d, 0.5f)));
    return hn::IfThenElse(hn::Gt(x, hn::Set(d, 0.5f)), large, hn::IfThenElse(hn::IsNaN(x), x, small));
  }
};
struct Softplus { static HWY_INLINE V Of(D d, V x) { return HWY_NAMESPACE::Softplus(d, x); } };
struct Gelu { static HWY_INLINE V Of(D d, V x) { return HWY_NAMESPACE::Gelu(d, x); } };
struct GeluTanh { static HWY_INLINE V Of(D d, V x) { return HWY_NAMESPACE::GeluTanh(d, x); } };
struct Floor { static HWY_INLINE V Of(D, V x) { return hn::Floor(x); } };
struct Ceil { static HWY_INLINE V Of(D, V x) { return hn::Ceil(x); } };
struct Round { static HWY_INLINE V Of(D, V x) { return hn::Round(x); } };
struct Not { static HWY_INLINE V Of(D, V x) { return hn::Not(x); } };
struct IsNaN { static HWY_INLINE V Of(D, V x) { return FromMask(hn::IsNaN(x)); } };
struct NegI { static HWY_INLINE V Of(D, V x) { return FromBits(hn::Neg(Bits(x))); } };
struct AbsI { static HWY_INLINE V Of(D, V x) { return FromBits(hn::Abs(Bits(x))); } };
struct RoundF16 {
  static HWY_INLINE V Of(D d, V x) {
    const hn::Rebind<hwy::float16_t, D> dh;
    return hn::PromoteTo(d, hn::DemoteTo(dh, x));
  }
};
// To the nearest even; NaN stays NaN.
struct RoundBF16 {
  static HWY_INLINE V Of(D, V x) {
    const DI di;
    const auto odd = hn::And(hn::ShiftRight<16>(Bits(x)), hn::Set(di, 1));
    const auto rounded = hn::Add(Bits(x), hn::Add(odd, hn::Set(di, 0x7fff)));
    const auto cut = FromBits(hn::And(rounded, hn::Set(di, static_cast<int32_t>(0xffff0000))));
    const auto quiet = FromBits(hn::And(hn::Or(Bits(x), hn::Set(di, 0x00400000)),
                                        hn::Set(di, static_cast<int32_t>(0xffff0000))));
    return hn::IfThenElse(hn::IsNaN(x), quiet, cut);
  }
};
struct FloatOfBool { static HWY_INLINE V Of(D d, V x) { return hn::And(x, hn::Set(d, 1.0f)); } };
struct BoolOfFloat {
  static HWY_INLINE V Of(D d, V x) { return FromMask(hn::Ne(x, hn::Zero(d))); }
};
struct FloatOfInt { static HWY_INLINE V Of(D d, V x) { return hn::ConvertTo(d, Bits(x)); } };
// Truncated; out of range the nearest there is, NaN 0.
struct IntOfFloat {
  static HWY_INLINE V Of(D d, V x) {
    const DI di;
    const auto too_large = hn::Ge(x, hn::Set(d, 2147483648.0f));
    const auto within = hn::IfThenZeroElse(hn::IsNaN(x), hn::Max(x, hn::Set(d, -2147483648.0f)));
    const auto y = hn::ConvertTo(di, hn::IfThenZeroElse(too_large, within));
    return hn::IfThenElse(too_large, FromBits(hn::Set(di, 2147483647)), FromBits(y));
  }
};
struct IntOfBool {
  static HWY_INLINE V Of(D, V x) { return FromBits(hn::And(Bits(x), hn::Set(DI(), 1))); }
};
struct BoolOfInt {
  static HWY_INLINE V Of(D, V x) { return FromIntMask(hn::Ne(Bits(x), hn::Zero(DI()))); }
};

template <class Op>
void UnaryStep(const ChainStep* step, float* const* slots, MILLRACE_CHAIN_PARAMS) {
  const D d;
#define MILLRACE_CHAIN_DO(i) v##i = Op::Of(d, v##i);
  MILLRACE_CHAIN_EACH(MILLRACE_CHAIN_DO)
#undef MILLRACE_CHAIN_DO
  return MILLRACE_CHAIN_NEXT;
}

template <class Op>
void NarrowUnaryStep(const ChainStep* step, float* const* slots, MILLRACE_CHAIN_PARAMS) {
  v0 = Op::Of(D(), v0);
  return MILLRACE_CHAIN_NEXT;
}

// --- Binary --------------------------------------------------------------------------------------

// b where it is larger (smaller), else a: NaN does not compare. x86 has just that.
HWY_INLINE V LargerOrFirst(V a, V b) {
#if HWY_ARCH_X86
  return hn::Max(b, a);
#else
  return hn::IfThenElse(hn::Gt(b, a), b, a);
#endif
}
HWY_INLINE V SmallerOrFirst(V a, V b) {
#if HWY_ARCH_X86
  return hn::Min(b, a);
#else
  return hn::IfThenElse(hn::Lt(b, a), b, a);
#endif
}
// NaN wins, the first of equals stays.
HWY_INLINE V LargerOf(V a, V b) { return hn::IfThenElse(hn::IsNaN(b), b, LargerOrFirst(a, b)); }
HWY_INLINE V SmallerOf(V a, V b) { return hn::IfThenElse(hn::IsNaN(b), b, SmallerOrFirst(a, b)); }

#define MILLRACE_CHAIN_PAIR(name, body) \
  struct name {                         \
    static HWY_INLINE V Of(V a, V x) { return body; } \
  };
MILLRACE_CHAIN_PAIR(Add, hn::Add(a, x))
MILLRACE_CHAIN_PAIR(Sub, hn::Sub(a, x))
MILLRACE_CHAIN_PAIR(SubFrom, hn::Sub(x, a))
MILLRACE_CHAIN_PAIR(Mul, hn::Mul(a, x))
MILLRACE_CHAIN_PAIR(Div, hn::Div(a, x))
MILLRACE_CHAIN_PAIR(DivInto, hn::Div(x, a))
MILLRACE_CHAIN_PAIR(Min, SmallerOf(a, x))
MILLRACE_CHAIN_PAIR(MinOf, SmallerOf(x, a))
MILLRACE_CHAIN_PAIR(Max, LargerOf(a, x))
MILLRACE_CHAIN_PAIR(MaxOf, LargerOf(x, a))
MILLRACE_CHAIN_PAIR(AtLeast, LargerOrFirst(a, x))  // a < x ? x : a
MILLRACE_CHAIN_PAIR(AtMost, SmallerOrFirst(a, x))  // x < a ? x : a
MILLRACE_CHAIN_PAIR(LeastFor, LargerOrFirst(x, a))
MILLRACE_CHAIN_PAIR(MostFor, SmallerOrFirst(x, a))
MILLRACE_CHAIN_PAIR(And, hn::And(a, x))
MILLRACE_CHAIN_PAIR(Or, hn::Or(a, x))
MILLRACE_CHAIN_PAIR(Xor, hn::Xor(a, x))
MILLRACE_CHAIN_PAIR(Equal, FromMask(hn::Eq(a, x)))
MILLRACE_CHAIN_PAIR(NotEqual, FromMask(hn::Ne(a, x)))
MILLRACE_CHAIN_PAIR(Less, FromMask(hn::Lt(a, x)))
MILLRACE_CHAIN_PAIR(LessEqual, FromMask(hn::Le(a, x)))
MILLRACE_CHAIN_PAIR(Greater, FromMask(hn::Gt(a, x)))
MILLRACE_CHAIN_PAIR(GreaterEqual, FromMask(hn::Ge(a, x)))
MILLRACE_CHAIN_PAIR(AddI, FromBits(hn::Add(Bits(a), Bits(x))))
MILLRACE_CHAIN_PAIR(SubI, FromBits(hn::Sub(Bits(a), Bits(x))))
MILLRACE_CHAIN_PAIR(SubFromI, FromBits(hn::Sub(Bits(x), Bits(a))))
MILLRACE_CHAIN_PAIR(MulI, FromBits(hn::Mul(Bits(a), Bits(x))))
MILLRACE_CHAIN_PAIR(MinI, FromBits(hn::Min(Bits(a), Bits(x))))
MILLRACE_CHAIN_PAIR(MaxI, FromBits(hn::Max(Bits(a), Bits(x))))
MILLRACE_CHAIN_PAIR(EqualI, FromIntMask(hn::Eq(Bits(a), Bits(x))))
MILLRACE_CHAIN_PAIR(NotEqualI, FromIntMask(hn::Ne(Bits(a), Bits(x))))
MILLRACE_CHAIN_PAIR(LessI, FromIntMask(hn::Lt(Bits(a), Bits(x))))
MILLRACE_CHAIN_PAIR(LessEqualI, hn::Not(FromIntMask(hn::Gt(Bits(a), Bits(x)))))
MILLRACE_CHAIN_PAIR(GreaterI, FromIntMask(hn::Gt(Bits(a), Bits(x))))
MILLRACE_CHAIN_PAIR(GreaterEqualI, hn::Not(FromIntMask(hn::Lt(Bits(a), Bits(x)))))
#undef MILLRACE_CHAIN_PAIR

template <class Op, bool kSplat>
void BinaryStep(const ChainStep* step, float* const* slots, MILLRACE_CHAIN_PARAMS) {
  const float* const x = slots[step->x];
#define MILLRACE_CHAIN_DO(i) v##i = Op::Of(v##i, LoadAt<kSplat>(x, i));
  MILLRACE_CHAIN_EACH(MILLRACE_CHAIN_DO)
#undef MILLRACE_CHAIN_DO
  return MILLRACE_CHAIN_NEXT;
}

template <class Op>
void NarrowBinaryStep(const ChainStep* step, float* const* slots, MILLRACE_CHAIN_PARAMS) {
  v0 = Op::Of(v0, LoadAt<true>(slots[step->x], 0));
  return MILLRACE_CHAIN_NEXT;
}

// --- Ternary -------------------------------------------------------------------------------------

#define MILLRACE_CHAIN_TRIPLE(name, body) \
  struct name {                           \
    static HWY_INLINE V Of(V a, V x, V y) { return body; } \
  };
MILLRACE_CHAIN_TRIPLE(SelectByAcc, hn::IfThenElse(ToMask(a), x, y))
MILLRACE_CHAIN_TRIPLE(SelectAcc, hn::IfThenElse(ToMask(x), a, y))
MILLRACE_CHAIN_TRIPLE(SelectAccElse, hn::IfThenElse(ToMask(x), y, a))
MILLRACE_CHAIN_TRIPLE(FmaFactor, hn::MulAdd(a, x, y))
MILLRACE_CHAIN_TRIPLE(FmaAddend, hn::MulAdd(x, y, a))
MILLRACE_CHAIN_TRIPLE(ReduceSum, hn::IfThenElse(ToMask(y), hn::Add(x, a), x))
MILLRACE_CHAIN_TRIPLE(ReduceMax, hn::IfThenElse(ToMask(y), LargerOf(x, a), x))
MILLRACE_CHAIN_TRIPLE(ReduceMin, hn::IfThenElse(ToMask(y), SmallerOf(x, a), x))
MILLRACE_CHAIN_TRIPLE(ReduceProd, hn::IfThenElse(ToMask(y), hn::Mul(x, a), x))
#undef MILLRACE_CHAIN_TRIPLE

template <class Op, bool kSplatX, bool kSplatY>
void TernaryStep(const ChainStep* step, float* const* slots, MILLRACE_CHAIN_PARAMS) {
  const float* const x = slots[step->x];
  const float* const y = slots[step->y];
#define MILLRACE_CHAIN_DO(i) v##i = Op::Of(v##i, LoadAt<kSplatX>(x, i), LoadAt<kSplatY>(y, i));
  MILLRACE_CHAIN_EACH(MILLRACE_CHAIN_DO)
#undef MILLRACE_CHAIN_DO
  return MILLRACE_CHAIN_NEXT;
}

template <class Op>
void NarrowTernaryStep(const ChainStep* step, float* const* slots, MILLRACE_CHAIN_PARAMS) {
  v0 = Op::Of(v0, LoadAt<true>(slots[step->x], 0), LoadAt<true>(slots[step->y], 0));
  return MILLRACE_CHAIN_NEXT;
}

template <class Op>
void ReduceStep(const ChainStep* step, float* const* slots, MILLRACE_CHAIN_PARAMS) {
  const D d;
  float* const x = slots[step->x];
  const float* const y = slots[step->y];
#define MILLRACE_CHAIN_DO(i)                                          \
  hn::StoreU(Op::Of(v##i, LoadAt<false>(x, i), LoadAt<false>(y, i)), d, \
             x + i * static_cast<int>(hn::Lanes(d)));
  MILLRACE_CHAIN_EACH(MILLRACE_CHAIN_DO)
#undef MILLRACE_CHAIN_DO
  return MILLRACE_CHAIN_NEXT;
}

// --- Moves ---------------------------------------------------------------------------------------

template <bool kSplat>
void LoadStep(const ChainStep* step, float* const* slots, MILLRACE_CHAIN_PARAMS) {
  const float* const x = slots[step->x];
#define MILLRACE_CHAIN_DO(i) v##i = LoadAt<kSplat>(x, i);
  MILLRACE_CHAIN_EACH(MILLRACE_CHAIN_DO)
#undef MILLRACE_CHAIN_DO
  return MILLRACE_CHAIN_NEXT;
}

void StoreStep(const ChainStep* step, float* const* slots, MILLRACE_CHAIN_PARAMS) {
  const D d;
  float* const x = slots[step->x];
#define MILLRACE_CHAIN_DO(i) hn::StoreU(v##i, d, x + i * static_cast<int>(hn::Lanes(d)));
  MILLRACE_CHAIN_EACH(MILLRACE_CHAIN_DO)
#undef MILLRACE_CHAIN_DO
  return MILLRACE_CHAIN_NEXT;
}

void NarrowLoadStep(const ChainStep* step, float* const* slots, MILLRACE_CHAIN_PARAMS) {
  v0 = LoadAt<true>(slots[step->x], 0);
  return MILLRACE_CHAIN_NEXT;
}

void NarrowStoreStep(const ChainStep* step, float* const* slots, MILLRACE_CHAIN_PARAMS) {
  hn::StoreU(v0, D(), slots[step->x]);
  return MILLRACE_CHAIN_NEXT;
}

void EndStep(const ChainStep*, float* const*, MILLRACE_CHAIN_PARAMS) {
#define MILLRACE_CHAIN_DO(i) (void)v##i;
  MILLRACE_CHAIN_EACH(MILLRACE_CHAIN_DO)
#undef MILLRACE_CHAIN_DO
}

void Run(const ChainStep* code, float* const* slots) {
  reinterpret_cast<Step>(code->function)(code, slots, MILLRACE_CHAIN_ZEROS);
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  _mm256_zeroupper();  // compilers do not see that steps leave upper halves behind
#endif
}

void Fill(float* to, float value, int vectors) {
  const D d;
  const auto lanes = static_cast<ptrdiff_t>(hn::Lanes(d));
  const auto v = hn::Set(d, value);
  for (ptrdiff_t i = 0; i < vectors; ++i) hn::StoreU(v, d, to + i * lanes);
}

// Halves are combined until one vector is left, and its lanes one by one.
template <class Op>
float FoldBlock(const float* block, Op op) {
  const D d;
  const auto lanes = static_cast<ptrdiff_t>(hn::Lanes(d));
  HWY_ALIGN float halves[kVectors * hn::MaxLanes(d)];
  ptrdiff_t count = kVectors / 2 * lanes;
  for (ptrdiff_t i = 0; i < count; i += lanes) {
    hn::Store(op(hn::LoadU(d, block + i), hn::LoadU(d, block + count + i)), d, halves + i);
  }
  for (count /= 2; count >= lanes; count /= 2) {
    for (ptrdiff_t i = 0; i < count; i += lanes) {
      hn::Store(op(hn::Load(d, halves + i), hn::Load(d, halves + count + i)), d, halves + i);
    }
  }
  const hn::CappedTag<float, 1> one;
  for (count = lanes / 2; count > 0; count /= 2) {
    for (ptrdiff_t i = 0; i < count; ++i) {
      const auto a = hn::LoadU(one, halves + i), b = hn::LoadU(one, halves + count + i);
      hn::StoreU(op(a, b), one, halves + i);
    }
  }
  return halves[0];
}

float Fold(ChainOp op, const float* block) {
  switch (op) {
    case ChainOp::kReduceMax:
      return FoldBlock(block, [](auto a, auto b) HWY_ATTR {
        return hn::IfThenElse(hn::Or(hn::Gt(b, a), hn::IsNaN(b)), b, a);
      });
    case ChainOp::kReduceMin:
      return FoldBlock(block, [](auto a, auto b) HWY_ATTR {
        return hn::IfThenElse(hn::Or(hn::Lt(b, a), hn::IsNaN(b)), b, a);
      });
    case ChainOp::kReduceProd:
      return FoldBlock(block, [](auto a, auto b) HWY_ATTR { return hn::Mul(a, b); });
    default:
      return FoldBlock(block, [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); });
  }
}

ChainMachine::StepFn Hidden(Step step) { return reinterpret_cast<ChainMachine::StepFn>(step); }

}  // namespace chain

void FillChainMachine(ChainMachine& machine) {
  machine.lanes = static_cast<int>(hn::Lanes(chain::D()));
  machine.block = machine.lanes * chain::kVectors;
  machine.run = chain::Run;
  machine.fill = chain::Fill;
  machine.fold = chain::Fold;
  const auto set = [&](ChainOp op, int splats, chain::Step step) {
    machine.step[static_cast<int>(op)][splats] = chain::Hidden(step);
  };
  constexpr int kNarrow = ChainMachine::kNarrow;
  set(ChainOp::kEnd, 0, chain::EndStep);
  set(ChainOp::kEnd, kNarrow, chain::EndStep);
  set(ChainOp::kLoad, kNarrow, chain::NarrowLoadStep);
  set(ChainOp::kStore, kNarrow, chain::NarrowStoreStep);
  set(ChainOp::kLoad, 0, chain::LoadStep<false>);
  set(ChainOp::kLoad, 1, chain::LoadStep<true>);
  set(ChainOp::kStore, 0, chain::StoreStep);
#define MILLRACE_CHAIN_SET(name)                            \
  set(ChainOp::k##name, 0, chain::UnaryStep<chain::name>); \
  set(ChainOp::k##name, kNarrow, chain::NarrowUnaryStep<chain::name>);
  MILLRACE_CHAIN_UNARY(MILLRACE_CHAIN_SET)
#undef MILLRACE_CHAIN_SET
#define MILLRACE_CHAIN_SET(name)                                      \
  set(ChainOp::k##name, 0, chain::BinaryStep<chain::name, false>);    \
  set(ChainOp::k##name, 1, chain::BinaryStep<chain::name, true>);     \
  set(ChainOp::k##name, kNarrow, chain::NarrowBinaryStep<chain::name>);
  MILLRACE_CHAIN_BINARY(MILLRACE_CHAIN_SET)
#undef MILLRACE_CHAIN_SET
#define MILLRACE_CHAIN_SET(name)                                           \
  set(ChainOp::k##name, 0, chain::TernaryStep<chain::name, false, false>); \
  set(ChainOp::k##name, 1, chain::TernaryStep<chain::name, true, false>);  \
  set(ChainOp::k##name, 2, chain::TernaryStep<chain::name, false, true>);  \
  set(ChainOp::k##name, 3, chain::TernaryStep<chain::name, true, true>);   \
  set(ChainOp::k##name, kNarrow, chain::NarrowTernaryStep<chain::name>);
  MILLRACE_CHAIN_TERNARY(MILLRACE_CHAIN_SET)
#undef MILLRACE_CHAIN_SET
#define MILLRACE_CHAIN_SET(name) set(ChainOp::k##name, 0, chain::ReduceStep<chain::name>);
  MILLRACE_CHAIN_REDUCE(MILLRACE_CHAIN_SET)
#undef MILLRACE_CHAIN_SET
}

#undef MILLRACE_CHAIN_EACH
#undef MILLRACE_CHAIN_PARAMS
#undef MILLRACE_CHAIN_ARGS
#undef MILLRACE_CHAIN_ZEROS
#undef MILLRACE_CHAIN_NEXT

}  // namespace HWY_NAMESPACE
}  // namespace millrace
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <map>
#include <mutex>

#include "ops/cpu/simd_dispatch.h"

namespace millrace {
namespace {

HWY_EXPORT(FillChainMachine);

}  // namespace

const ChainMachine& GetChainMachine() {
  // By instruction set: tests change it.
  static std::mutex mutex;
  static auto& machines = *new std::map<void (*)(ChainMachine&), ChainMachine>;
  const std::lock_guard<std::mutex> lock(mutex);
  const auto fill = MILLRACE_SIMD_FUNCTION(FillChainMachine);
  const auto [machine, is_new] = machines.try_emplace(fill);
  if (is_new) fill(machine->second);
  return machine->second;
}

}  // namespace millrace
#endif  // HWY_ONCE
