// How the weight gradient of conv2d is computed: which route, and what threads share. No bit depends on it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "conv/padded_nhwc.hpp"
#include "conv/register_grad_weight.hpp"
#include "gemm/split_k.hpp"

namespace repdl::cpu {

enum class GradWeightRoute {
  depthwise,     // one channel and one filter a group: vectors of channels
  pointwise,     // a kernel of one pixel: the images are packed from where they are
  in_registers,  // few columns: all of them in registers, nothing packed
  unpacked,      // columns are read in place, in runs of a padded NHWC image
  packed,        // the same, packed: runs that are much shorter than vectors
};

struct GradWeightPlan {
  GradWeightRoute route;
  RegisterShape runs;   // of the columns (kh, kw, c)
  SplitK split;         // of the terms (n, y, x): threads take groups, and where there are few, the terms too
  std::int64_t slices;  // or slices of the filters of a group

  GradWeightPlan(const Geometry& g, const PaddedNhwc& images, std::int64_t chunk, int threads)
      : runs{columns(g) / images.run_length(g), images.run_length(g)},
        split(terms(g), chunk, g.o * columns(g), threads / g.groups) {
    const std::int64_t filters = g.group_o(), threads_of_group = std::max<std::int64_t>(threads / g.groups, 1);
    slices = split.count > 1 ? 1 : std::clamp<std::int64_t>(filters / 8, 1, threads_of_group);
    route = choose(g, (filters + slices - 1) / slices);
  }

  static std::int64_t columns(const Geometry& g) { return g.group_c() * g.kh * g.kw; }
  static std::int64_t terms(const Geometry& g) { return g.n * g.oh * g.ow; }

  // Whether images are copied to padded NHWC.
  bool pads() const { return route != GradWeightRoute::depthwise && route != GradWeightRoute::pointwise; }

 private:
  GradWeightRoute choose(const Geometry& g, std::int64_t filters) const {
    if (g.group_c() == 1 && g.group_o() == 1 && g.c >= Vec::width && terms(g) > 0) return GradWeightRoute::depthwise;
    if (g.kh == 1 && g.kw == 1 && g.stride_h == 1 && g.stride_w == 1 && g.pad_h == 0 && g.pad_w == 0)
      return GradWeightRoute::pointwise;
    // Cycles a term, about: in place the end of a run's last vector is wasted; packed, every
    // vector of a run is copied.
    const auto vectors = [](std::int64_t n) { return (n + Vec::width - 1) / Vec::width; };
    const std::int64_t pieces = runs.count * vectors(runs.length);
    const std::int64_t packed = vectors(columns(g)) * filters + 3 * pieces;
    const std::int64_t unpacked = pieces * std::max<std::int64_t>(filters, 8);
    if (runs.fits() && runs.vectors() * filters < std::min(packed, unpacked)) return GradWeightRoute::in_registers;
    return unpacked <= packed ? GradWeightRoute::unpacked : GradWeightRoute::packed;
  }
};

}  // namespace repdl::cpu
