// Sums over windows of images: a window is a list of positions on each side (side_lists.hpp), and its elements are
// in row-major order.
//
//   for p < outer, o < outputs, c < inner:  (outer, sides..., inner) -> (outer, outputs..., inner)
//     out[p, o, c] = the sum of x[p, i, c] over the window of o; divided by by_output[o], if that is given,
//                    or each element by by_input[i] before
//
// With channels inside, terms are rows of channels. Without, they are rows of outputs: of those whose lists on the
// last side have one length, term j of all is read in place where it is a row of x, or gathered once for each row
// of x (`staged`), whatever number of windows have it.
#pragma once

#include <algorithm>
#include <vector>

#include "base/threads.hpp"
#include "base/tuned.hpp"
#include "base/images.hpp"
#include "pool/side_lists.hpp"
#include "reduce/few_terms.hpp"

namespace repdl::cpu {

template <class T>
struct WindowSums {
  Images in, out;
  SideLists lists[most_sides];
  std::vector<T> by_input, by_output;
  const Contract& contract;

  void run(const T* x, T* y, int threads) const {
    if (out.count() == 0) return;
    if (in.inner > 1) {
      REPDL_ROUTE("window sums: channels inside", sizeof(T));
      const Scratch<T> quotients(by_input.empty() ? 0 : in.count());
      if (!by_input.empty()) {
        const std::int64_t positions = in.positions(), grain = std::max<std::int64_t>(1, (1 << 15) / in.inner);
        parallel_for(in.outer * positions, grain, threads, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i)
            divide(x + i * in.inner, in.inner, by_input[i % positions], quotients.data() + i * in.inner);
        });
        x = quotients.data();
      }
      share(threads, [&](std::int64_t begin, std::int64_t end) { channels_inside(x, y, begin, end); });
    } else {
      share(threads, [&](std::int64_t begin, std::int64_t end) { Planes(*this, x, y).run(begin, end); });
    }
  }

 private:
  // Rows of outputs, (p, o0, o1), among threads.
  template <class Body>
  void share(int threads, const Body& body) const {
    const std::int64_t rows = out.outer * out.side[0] * out.side[1];
    const std::int64_t terms = static_cast<std::int64_t>(lists[2].at.size()) * in.inner *
                               std::max<std::int64_t>(1, lists[0].longest() * lists[1].longest());
    parallel_for(rows, std::max<std::int64_t>(1, (1 << 15) / (terms + 1)), threads, body);
  }

  static void divide(const T* x, std::int64_t n, T by, T* to) {
    for (std::int64_t i = 0; i < n; ++i) to[i] = x[i] / by;
  }

  // Where the rows of x of a row of outputs are, as (d, h) in row-major order.
  template <class F>
  void for_rows(std::int64_t row, const F& f) const {
    const std::int64_t o1 = row % out.side[1], o0 = row / out.side[1] % out.side[0];
    for (std::int64_t i = 0; i < lists[0].length(o0); ++i)
      for (std::int64_t j = 0; j < lists[1].length(o1); ++j)
        f(lists[0].list(o0)[i] * in.side[1] + lists[1].list(o1)[j]);
  }

  void channels_inside(const T* x, T* y, std::int64_t begin, std::int64_t end) const {
    const std::int64_t rows = out.side[0] * out.side[1], width = in.side[2], inner = in.inner;
    std::vector<const T*> term;
    for (std::int64_t row = begin; row < end; ++row) {
      const T* image = x + row / rows * in.positions() * inner;
      for (std::int64_t o = 0; o < out.side[2]; ++o) {
        term.clear();
        for_rows(row, [&](std::int64_t r) {
          for (std::int64_t k = 0; k < lists[2].length(o); ++k)
            term.push_back(image + (r * width + lists[2].list(o)[k]) * inner);
        });
        T* to = y + (row * out.side[2] + o) * inner;
        sum_rows(static_cast<std::int64_t>(term.size()), inner, in_list(term), to, contract);
        if (by_output.empty()) continue;
        divide(to, inner, by_output[row % rows * out.side[2] + o], to);
        for (std::int64_t c = 0; c < inner; ++c) to[c] = canonical(to[c]);
      }
    }
  }

  // Outputs of a row whose lists have one length.
  struct Group {
    std::int64_t length = 0, staged = 0;       // and where their terms are in a staged row
    std::vector<std::int64_t> outputs, at;     // at[j * outputs.size() + c]: term j of output c
    bool in_place = true;                      // term j is a row of x that begins at its at[0]
    bool neighbours = true, alternate = true;  // term j is every second element from its at[0] on

    std::int64_t count() const { return static_cast<std::int64_t>(outputs.size()); }
  };

  class Planes {
   public:
    Planes(const WindowSums& sums, const T* x, T* y)
        : of_(sums), x_(x), y_(y), width_(sums.in.side[2]), groups_(grouped(sums.lists[2])),
          staged_width_(sums.by_input.empty() ? 0 : width_) {
      for (Group& group : groups_) {
        group.staged = staged_width_;
        if (!group.in_place) staged_width_ += group.length * group.count();
      }
      const std::int64_t rows = sums.in.side[0] * sums.in.side[1];
      whole_ = rows * staged_width_ <= most_staged;
      const std::int64_t slots = whole_ ? rows : sums.lists[0].longest() * sums.lists[1].longest();
      if (!whole_) REPDL_ROUTE("window sums: rows of a large plane", sizeof(T));
      plane_.assign(static_cast<std::size_t>(slots), -1);
    }

    void run(std::int64_t begin, std::int64_t end) {
      const Scratch<T> staged(static_cast<std::int64_t>(plane_.size()) * staged_width_), scattered(of_.out.side[2]);
      const std::int64_t rows = of_.out.side[0] * of_.out.side[1];
      std::vector<const T*> plain, gathered, term;
      for (std::int64_t row = begin; row < end; ++row) {
        const std::int64_t plane = row / rows;
        const T* from = x_ + plane * of_.in.positions();
        plain.clear();
        gathered.clear();
        of_.for_rows(row, [&](std::int64_t r) {
          const T* source = from + r * width_;
          const std::int64_t slot = whole_ ? r : static_cast<std::int64_t>(plain.size());
          T* to = staged.data() + slot * staged_width_;
          if (staged_width_ > 0 && (!whole_ || plane_[slot] != plane)) stage(source, r, to);
          plane_[slot] = plane;
          plain.push_back(of_.by_input.empty() ? source : to);
          gathered.push_back(to);
        });
        for (const Group& group : groups_) {
          term.clear();
          for (std::size_t i = 0; i < plain.size(); ++i)
            for (std::int64_t j = 0; j < group.length; ++j)
              term.push_back(group.in_place ? plain[i] + group.at[j * group.count()]
                                            : gathered[i] + group.staged + j * group.count());
          T* out = y_ + row * of_.out.side[2];
          T* to = group.neighbours ? out + group.outputs[0] : scattered.data();
          sum_rows(static_cast<std::int64_t>(term.size()), group.count(), in_list(term), to, of_.contract);
          if (!group.neighbours)
            for (std::int64_t c = 0; c < group.count(); ++c) out[group.outputs[c]] = to[c];
        }
        if (of_.by_output.empty()) continue;
        T* out = y_ + row * of_.out.side[2];
        const T* by = of_.by_output.data() + row % rows * of_.out.side[2];
        for (std::int64_t c = 0; c < of_.out.side[2]; ++c) out[c] = canonical(out[c] / by[c]);
      }
    }

   private:
    static constexpr std::int64_t most_staged = tuned(1 << 16, 32);  // elements of a plane, in L2

    static std::vector<Group> grouped(const SideLists& lists) {
      std::vector<Group> groups(static_cast<std::size_t>(lists.longest()) + 1);
      for (std::int64_t o = 0; o < lists.count(); ++o) groups[lists.length(o)].outputs.push_back(o);
      groups.erase(std::remove_if(groups.begin(), groups.end(), [](const Group& g) { return g.outputs.empty(); }),
                   groups.end());
      for (Group& group : groups) {
        group.length = lists.length(group.outputs[0]);
        for (std::int64_t c = 0; c < group.count(); ++c) group.neighbours &= group.outputs[c] == group.outputs[0] + c;
        for (std::int64_t j = 0; j < group.length; ++j)
          for (std::int64_t c = 0; c < group.count(); ++c) {
            group.at.push_back(lists.list(group.outputs[c])[j]);
            group.in_place &= group.at.back() == group.at[j * group.count()] + c;
            group.alternate &= group.at.back() == group.at[j * group.count()] + 2 * c;
          }
      }
      return groups;
    }

    // Row r of a plane: its quotients, and the terms of the groups that are not read in place.
    void stage(const T* source, std::int64_t r, T* to) const {
      if (!of_.by_input.empty()) {
        const T* by = of_.by_input.data() + r * width_;
        for (std::int64_t i = 0; i < width_; ++i) to[i] = source[i] / by[i];
        source = to;
      }
      for (const Group& group : groups_) {
        if (group.in_place) continue;
        REPDL_ROUTE("window sums: staged", sizeof(T));
        T* terms = to + group.staged;
        const auto size = static_cast<std::int64_t>(group.at.size());
        if (group.alternate) {  // which vectors part
          REPDL_ROUTE("window sums: alternate elements", sizeof(T));
          for (std::int64_t first = 0; first < size; first += group.count()) {
            const T* every = source + group.at[first];
            for (std::int64_t c = 0; c < group.count(); ++c) terms[first + c] = every[2 * c];
          }
        } else {
          for (std::int64_t i = 0; i < size; ++i) terms[i] = source[group.at[i]];
        }
      }
    }

    const WindowSums& of_;
    const T* x_;
    T* y_;
    std::int64_t width_;
    std::vector<Group> groups_;
    std::int64_t staged_width_;
    bool whole_ = true;                // a plane is staged once; else rows for each row of outputs
    std::vector<std::int64_t> plane_;  // of which each slot has its row
  };
};

}  // namespace repdl::cpu
