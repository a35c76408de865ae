// The angle of the point (x, y), atan2(y, x), correctly rounded to float.
//
// fast: `angle` (atan.hpp) in double, relative error below 2**-50. It is certain unless a midpoint of two
// floats is closer than 2**-49, as near one of 2**25 results.
// accurate: two doubles, relative error below 2**-97. With i / 16 next to a / b <= 1, atan(a / b) is
// atan(i / 16) + atan(u), u = (16 a - i b) / (16 b + i a) at most 1 / 32, whose operands are exact. No angle
// but 0 is a midpoint, and the sum of two doubles says on which side it lies, however close it is to a
// float that is one of them: atan(u) = u - u**3 / 3 + ... with a quotient u that is exact. That no
// angle else is closer than 2**-97 is not proven; of the 2**64 pairs of floats one in 2**72 is expected to be.
// Special values are those of IEEE 754's atan2; NaN is 0x7fc00000.
#pragma once

#include "repdl/exact/atan.hpp"
#include "repdl/exact/two_paths.hpp"

namespace repdl::exact {

// The sum of two doubles, of which the second is at most half an ulp of the first.
struct DoubleDouble {
  double high, low;
};

REPDL_HD inline DoubleDouble two_sum(double a, double b) {
  const double s = a + b, t = s - a;
  return {s, (a - (s - t)) + (b - t)};
}

REPDL_HD inline DoubleDouble operator+(const DoubleDouble& a, const DoubleDouble& b) {
  const DoubleDouble s = two_sum(a.high, b.high), t = two_sum(a.low, b.low);
  const DoubleDouble u = two_sum(s.high, s.low + t.high);
  return two_sum(u.high, u.low + t.low);
}

REPDL_HD inline DoubleDouble operator-(const DoubleDouble& a) { return {-a.high, -a.low}; }

REPDL_HD inline DoubleDouble operator*(const DoubleDouble& a, const DoubleDouble& b) {
  const double product = mul(a.high, b.high);
  const double error = repdl::fma(a.high, b.high, -product);
  return two_sum(product, error + (mul(a.high, b.low) + mul(a.low, b.high)));
}

REPDL_HD inline DoubleDouble operator/(const DoubleDouble& a, double b) {
  const double quotient = a.high / b;
  return two_sum(quotient, (repdl::fma(-quotient, b, a.high) + a.low) / b);
}

// atan(i / 16)
REPDL_HD inline DoubleDouble angle_of_sixteenths(int i) {
  constexpr double high[17] = {
      0.0,
      0x1.ff55bb72cfdeap-5,
      0x1.fd5ba9aac2f6ep-4,
      0x1.7b97b4bce5b02p-3,
      0x1.f5b75f92c80ddp-3,
      0x1.362773707ebccp-2,
      0x1.6f61941e4def1p-2,
      0x1.a64eec3cc23fdp-2,
      0x1.dac670561bb4fp-2,
      0x1.0657e94db30d0p-1,
      0x1.1e00babdefeb4p-1,
      0x1.345f01cce37bbp-1,
      0x1.4978fa3269ee1p-1,
      0x1.5d58987169b18p-1,
      0x1.700a7c5784634p-1,
      0x1.819d0b7158a4dp-1,
      0x1.921fb54442d18p-1,
  };
  constexpr double low[17] = {
      0.0,
      -0x1.c934d86d23f1dp-60,
      -0x1.cd37686760c17p-59,
      0x1.347b0b4f881cap-58,
      0x1.8ab6e3cf7afbdp-57,
      -0x1.963a544b672d8p-57,
      -0x1.c63aae6f6e918p-56,
      -0x1.24dec1b50b7ffp-56,
      0x1.a2b7f222f65e2p-56,
      -0x1.d5b495f6349e6p-56,
      -0x1.928df287a668fp-58,
      0x1.1021137c71102p-55,
      0x1.2419a87f2a458p-56,
      0x1.0028e4bc5e7cap-57,
      -0x1.8c34d25aadef6p-56,
      -0x1.bf76229d3b917p-56,
      0x1.1a62633145c07p-55,
  };
  return {high[i], low[i]};
}

// atan(a / b) for 0 < a <= b, floats.
REPDL_HD inline DoubleDouble precise_angle(double a, double b) {
  const int i = static_cast<int>(mul(16.0, a) / b + 0.5);
  const DoubleDouble u = DoubleDouble{mul(16.0, a) - mul(i, b), 0.0} / (mul(16.0, b) + mul(i, a));
  const DoubleDouble square = -(u * u);
  DoubleDouble power = u, sum = u;
  for (int k = 3; k < 25; k += 2) {
    power = power * square;
    sum = sum + power / k;
  }
  return i == 0 ? sum : angle_of_sixteenths(i) + sum;
}

// The angle for finite y > 0 and x other than 0.
REPDL_HD inline float precise_angle_of(double y, double x) {
  constexpr DoubleDouble quarter = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54};
  constexpr DoubleDouble half = {0x1.921fb54442d18p+1, 0x1.1a62633145c07p-53};
  const double b = x < 0.0 ? -x : x;
  const DoubleDouble acute = y <= b ? precise_angle(y, b) : quarter + -precise_angle(b, y);
  const DoubleDouble whole = x < 0.0 ? half + -acute : acute;
  return rounded_sum(whole.high, whole.low);
}

// Between which floats the angle of a point (b, a) lies, left of the axis or right of it; a, b >= 0, neither both 0 nor
// both inf.
struct AngleOfSizes {
  float low, high;

  REPDL_HD AngleOfSizes(double a, double b, bool left) {
    const double acute = angle(a, b);
    const double whole = left ? 0x1.921fb54442d18p+1 - (acute - 0x1.1a62633145c07p-53) : acute;
    low = static_cast<float>(mul(whole, 1.0 - 0x1p-49));
    high = static_cast<float>(mul(whole, 1.0 + 0x1p-49));
  }
};

REPDL_HD inline float atan2(float y, float x) {
  if (x != x || y != y) return quiet_nan();
  const bool below = to_bits(y) >> 63 != 0, left = to_bits(x) >> 63 != 0;
  double a = below ? -y : y, b = left ? -x : x;
  if (a == b && (a == 0.0 || a == infinity())) {  // as (0, 1) or (1, 1)
    a = a == 0.0 ? 0.0 : 1.0;
    b = 1.0;
  }
  const AngleOfSizes angle(a, b, left);
  const float size = angle.low == angle.high ? angle.low : precise_angle_of(a, left ? -b : b);
  return below ? -size : size;
}

// Apart, with registers of its own.
REPDL_HD_APART inline float atan2_accurate(float y, float x) { return atan2(y, x); }

// Two paths (see two_paths.hpp): `fast` for nearly all points, `accurate` for every one.
struct Atan2 {
  REPDL_HD float fast(float y, float x, std::uint32_t& uncertain) const {
    const double a = y < 0.0f ? -y : y, b = x < 0.0f ? -x : x;
    const AngleOfSizes angle(a, b, x < 0.0f);
    // Of 0, inf and NaN signs or sizes are others. Masks, not conditions: of those no compiler makes vectors.
    const bool usual = (a > 0.0) & (b > 0.0) & (a - a == 0.0) & (b - b == 0.0);
    uncertain |= !usual | (angle.low != angle.high);
    return y < 0.0f ? -angle.low : angle.low;
  }
  REPDL_HD float accurate(float y, float x) const { return atan2_accurate(y, x); }
};

}  // namespace repdl::exact
