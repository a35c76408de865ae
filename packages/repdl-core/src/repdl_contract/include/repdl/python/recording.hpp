// A recorded call: the kernels that it ran, one after the other, on which memory, to be run again on other tensors.
#pragma once

#include <memory>

#include "repdl/python/fresh.hpp"
#include "repdl/python/parts.hpp"
#include "repdl/python/signature.hpp"

#pragma GCC visibility push(hidden)
namespace repdl::python {

// Sources of memory are numbered: the tensors of the call, the positions of its draws the last of them, then new ones,
// then constants. Where there is a gradient, the tensors are those of its node of autograd.
class Recording {
 public:
  static constexpr std::size_t most = 96;  // new tensors, or constants

  // What `repdl.replay` found out about a call, as it passes it to `Recording(...)`: tuples, all but two.
  struct Given {
    PyObject *checks, *steps, *fresh, *constants, *free, *results, *gradient, *spans, *changed, *copies, *draws;
  };

  explicit Recording(const Given& given)
      : needs_(count(given.fresh, "new tensors") + count(given.constants, "constants")) {
    each(given.checks, "checks", [&](PyObject* item) {
      const Items check(item, "Recording: a check", 3);
      checks_.push_back({Callee(check[0], check[1]), Range(check[2])});
      needs_.tensors(std::max(checks_.back().first.tensors(), checks_.back().second.tensors()));
    });
    each(given.steps, "steps", [&](PyObject* item) { steps_.emplace_back(item, needs_); });
    each(given.fresh, "new tensors", [&](PyObject* item) { fresh_.emplace_back(item); });
    each(given.constants, "constants", [&](PyObject* item) { add_constant(item); });
    each(given.free, "constants that are numbers",
         [&](PyObject* item) { free_.emplace_back(item, constants_.size(), needs_); });
    each(given.spans, "memory of tensors", [&](PyObject* item) { spans_.emplace_back(item, needs_); });
    if (spans_.size() > Step::most_addresses)
      raise(PyExc_ValueError, "Recording: got memory of %zu tensors, expected at most %zu", spans_.size(),
            Step::most_addresses);
    each(given.changed, "changed tensors", [&](PyObject* item) { changed_.push_back(needs_.tensor(integer(item))); });
    each(given.copies, "copies", [&](PyObject* item) { copies_.emplace_back(item, needs_); });
    if (given.draws != nullptr)
      each(given.draws, "draws", [&](PyObject* item) {
        const Items draw(item, "Recording: a draw", 2);
        draws_.emplace_back(owned(draw[0]), owned(draw[1]));
      });
    several_ = PyTuple_Check(given.results);
    if (several_)
      each(given.results, "results", [&](PyObject* item) { add_result(integer(item)); });
    else
      add_result(integer(given.results));
    for (std::size_t i = 0; i < fresh_.size(); ++i) place_scratch(i);
    if (given.gradient != Py_None) add_gradient(given.gradient);
  }

  int traverse(visitproc visit, void* arg) const {
    for (const auto& [check, range] : checks_)
      if (const int stop = check.traverse(visit, arg)) return stop;
    for (const Fresh& fresh : fresh_)
      if (const int stop = fresh.traverse(visit, arg)) return stop;
    for (const Ref& constant : constants_) Py_VISIT(constant.get());
    for (const auto& [take, count] : draws_) {
      Py_VISIT(take.get());
      Py_VISIT(count.get());
    }
    for (const Callee& gradient : gradient_)
      if (const int stop = gradient.traverse(visit, arg)) return stop;
    Py_VISIT(shared_.get());
    return 0;
  }

  // Throws unless a call has the tensors and numbers that are recorded.
  void expect(int tensors, std::size_t numbers) const {
    const bool known = has_gradient()
                           ? tensors >= gradient_[0].tensors()
                           : tensors >= needs_.tensors() && static_cast<std::ptrdiff_t>(numbers) >= needs_.numbers();
    if (!known)
      raise(PyExc_ValueError, "Recording: a call of %d tensors and %zu numbers is not what was recorded", tensors,
            numbers);
  }

  // The same of a node of autograd.
  void expect_node(int tensors) const {
    if (!has_gradient()) raise(PyExc_ValueError, "Recording: it has no gradient, so no node of autograd runs it");
    if (static_cast<std::size_t>(tensors) != gradient_[0].arguments())
      raise(PyExc_ValueError, "Recording: a node of autograd has %d tensors, expected %zu", tensors,
            gradient_[0].arguments());
  }

  // Runs the kernels. `tensor` and `seen` are the tensors of the call, `numbers` of the signature. Null, with nothing
  // done and no error of Python, where the function itself has something to say about where the tensors lie.
  Ref run(PyObject* const* tensor, const DLTensor* seen, int count, Span<double> numbers) const {
    for (const auto& [check, range] : checks_)
      if (!range.holds(seen)) check.call(tensor, nullptr);
    void* base[Signature::most_tensors + 2 * most];
    std::size_t bases = 0;
    for (int i = 0; i < count; ++i) base[bases++] = static_cast<std::byte*>(seen[i].data) + seen[i].byte_offset;
    if (is_shared(base)) return Ref();
    Made made;
    const std::unique_ptr<std::byte, Scratch> scratch(scratch_bytes_ > 0 ? Scratch::take(scratch_bytes_) : nullptr);
    for (std::size_t i = 0; i < fresh_.size(); ++i, ++bases) {
      base[bases] = scratch.get() + std::max<std::ptrdiff_t>(scratch_[i], 0);
      made.add(scratch_[i] < 0 ? fresh_[i].make(&base[bases]) : Ref());
    }
    double element[most];  // or a float in its place
    for (const FreeConstant& constant : free_) constant.put(numbers[constant.number], &element[constant.index]);
    std::size_t next = 0;
    for (std::size_t i = 0; i < constant_addresses_.size(); ++i) {
      const bool is_free = next < free_.size() && free_[next].index == i;
      base[bases++] = is_free ? &element[i] : constant_addresses_[i];
      next += is_free;
    }
    const int at = leader(seen, count);
    void* stream = stream_at(seen[at]);
    for (const Step& step : steps_) {
      void* addresses[Step::most_addresses];
      for (std::size_t k = 0; k < step.places.size(); ++k)
        addresses[k] = static_cast<std::byte*>(base[step.places[k].first]) + step.places[k].second;
      double given[Kept::most];
      for (std::size_t k = 0; k < step.numbers.size(); ++k) {
        const auto& [index, value] = step.numbers[k];
        given[k] = index < 0 ? value : numbers[static_cast<std::size_t>(index)];
      }
      if (step.functions->run(step.kept, addresses, step.numbers.empty() ? nullptr : given, step.threads, step.device,
                              stream, tensor[at]) != 0)
        throw PythonError{};
    }
    for (const Copy& copy : copies_) store(copy, base, tensor[copy.target], seen[copy.target], made, count);
    if (!changed_.empty()) tell_autograd(tensor);
    if (!several_) return result(tensor, made, results_[0]);
    Ref tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(results_.size())));
    for (std::size_t i = 0; i < results_.size(); ++i)
      PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), result(tensor, made, results_[i]).release());
    return tuple;
  }

  std::size_t draws() const { return draws_.size(); }

  // The position of each draw, as generators say it, which then go on.
  std::vector<Ref> positions() const {
    std::vector<Ref> result;
    for (const auto& [take, count] : draws_) result.push_back(checked(PyObject_CallOneArg(take.get(), count.get())));
    return result;
  }

  // Whether the current stream is the one on which the constants were written: the kernels of another one would read
  // them too early, or when their memory is somebody else's. On the host any is.
  bool has_constants(const DLTensor* seen, int count) const {
    return constants_.empty() || stream_at(seen[leader(seen, count)]) == constants_stream_;
  }

  // Runs them below an autograd function, which gets the arguments of the op and this recording.
  Ref differentiate(PyObject* self, PyObject* const* tensor) const {
    Ref output = gradient_[0].call(tensor, self);
    if (item_ < 0) return output;
    const Items items(output.get(), "the output of a node of autograd");
    return owned(items[static_cast<Py_ssize_t>(
        index_below(item_, static_cast<std::size_t>(items.size()), "an output of a node of autograd"))]);
  }

  // What `setup_context` did with the context of autograd, for other tensors.
  void set_up(PyObject* context, PyObject* const* tensor, int count, PyObject* output) const {
    const auto set = [&](PyObject* name, const std::vector<std::ptrdiff_t>& numbers, const std::vector<Ref>* views) {
      const Ref tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(numbers.size())));
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        const std::ptrdiff_t n = numbers[i];
        PyObject* value = n < 0       ? Py_None
                          : n < count ? tensor[n]
                          : !several_ ? output
                                      : PyTuple_GET_ITEM(output, n - count);
        const bool is_view = views != nullptr && n >= 0 && (*views)[i].get() != Py_None;
        Ref kept = is_view ? view_of(value, (*views)[i].get()) : owned(value);
        PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), kept.release());
      }
      if (PyObject_SetAttr(context, name, tuple.get()) != 0) throw PythonError{};
    };
    const TorchState& state = TorchState::get();
    set(state.to_save, saved_, &views_);
    if (!constant_.empty()) set(state.non_differentiable, constant_, nullptr);
    if (PyObject_SetAttr(context, state.shared, shared_.get()) != 0) throw PythonError{};
  }

  bool has_gradient() const { return !gradient_.empty(); }

  // Whether torch lets nobody write into one of the call's tensors that is written: one of inference mode, after it.
  bool is_frozen(PyObject* const* tensor) const {
    const TorchState& state = TorchState::get();
    const auto is_inference = [&](std::size_t i) {
      PyObject* target = tensor[has_gradient() ? static_cast<std::size_t>(gradient_[0].source(i)) : i];
      return state.is_inference.is(Py_True, target);
    };
    return std::any_of(changed_.begin(), changed_.end(), is_inference) && !state.is_inference_mode.is(Py_True);
  }

 private:
  // The new tensors of a call; null for one that is scratch memory.
  struct Made {
    PyObject* tensor[most];  // the first `count`
    std::size_t count = 0;

    Made() = default;
    Made(const Made&) = delete;
    Made& operator=(const Made&) = delete;
    ~Made() {
      while (count > 0) Py_XDECREF(tensor[--count]);
    }
    void add(Ref object) { tensor[count++] = object.release(); }
  };

  // Memory of the host for what is neither argument nor result, small enough that a tensor would cost more.
  static constexpr std::size_t alignment = 64, most_scratch = std::size_t{1} << 18;
  struct Scratch {
    static std::byte* take(std::size_t bytes) {
      return static_cast<std::byte*>(::operator new(bytes, std::align_val_t{alignment}));
    }
    void operator()(std::byte* memory) const { ::operator delete(memory, std::align_val_t{alignment}); }
  };

  // The tensor on whose device kernels run: the first that is not on the host, if there is one.
  static int leader(const DLTensor* seen, int count) {
    for (int i = 0; i < count; ++i)
      if (seen[i].device_type != dlpack_cpu) return i;
    return 0;
  }

  // The stream that is current on the device of a tensor; null on the host.
  static void* stream_at(const DLTensor& tensor) {
    void* stream = nullptr;
    if (tensor.device_type != dlpack_cpu &&
        Torch::get().exchange->current_stream(tensor.device_type, tensor.device_id, &stream) != 0)
      throw PythonError{};
    return stream;
  }

  static Ref result(PyObject* const* tensor, const Made& made, std::ptrdiff_t index) {
    return owned(index >= 0 ? made.tensor[index] : index == -1 ? Py_None : tensor[-2 - index]);
  }

  // A tensor in another shape, which autograd follows though it runs a node's forward without gradients.
  static Ref view_of(PyObject* tensor, PyObject* shape) {
    const TorchState& state = TorchState::get();
    checked(PyObject_CallOneArg(state.set_grad_enabled, Py_True));
    Ref view(PyObject_CallMethodOneArg(tensor, state.view, shape));
    if (!view) throw PythonError{};  // autograd sets its mode again after a node's forward
    checked(PyObject_CallOneArg(state.set_grad_enabled, Py_False));
    return view;
  }

  // Whether a tensor that is written shares memory with another one (repdl.ops._step.check_memory).
  bool is_shared(void* const* base) const {
    struct Place {
      const std::byte *begin, *end;
      bool written;
    };
    Place places[Step::most_addresses];
    std::size_t count = 0;
    for (const Extent& span : spans_) {
      const auto* begin = static_cast<const std::byte*>(base[span.tensor]);
      if (span.bytes > 0) places[count++] = {begin, begin + span.bytes, span.written};
    }
    std::sort(places, places + count, [](const Place& a, const Place& b) { return a.begin < b.begin; });
    const std::byte *end = nullptr, *end_written = nullptr;
    for (std::size_t i = 0; i < count; ++i) {
      const Place& place = places[i];
      if (place.begin < (place.written ? end : end_written)) return true;
      end = std::max(end, place.end);
      if (place.written) end_written = std::max(end_written, place.end);
    }
    return false;
  }

  // A new tensor into one of the call; on a device by torch.
  void store(const Copy& copy, void* const* base, PyObject* target, const DLTensor& into, const Made& made,
             int count) const {
    const std::size_t index = copy.source - static_cast<std::size_t>(count);  // of one of the call's: beyond all
    if (index >= fresh_.size()) throw std::logic_error("Recording: what is copied is no new tensor");
    if (into.device_type != dlpack_cpu) {
      if (made.tensor[index] == nullptr) throw std::logic_error("Recording: what is copied is on another device");
      checked(PyObject_CallMethodOneArg(target, TorchState::get().copy, made.tensor[index]));
      return;
    }
    if (copy.bytes > fresh_[index].extent()) throw std::logic_error("Recording: more is copied than there is");
    std::copy_n(static_cast<const std::byte*>(base[copy.source]), copy.bytes,
                static_cast<std::byte*>(base[copy.target]));
  }

  // Kernels write through addresses, which autograd does not see.
  void tell_autograd(PyObject* const* tensor) const {
    const Ref all = checked(PyTuple_New(static_cast<Py_ssize_t>(changed_.size())));
    for (std::size_t i = 0; i < changed_.size(); ++i)
      PyTuple_SET_ITEM(all.get(), static_cast<Py_ssize_t>(i), owned(tensor[changed_[i]]).release());
    checked(PyObject_CallOneArg(TorchState::get().increment_version, all.get()));
  }

  template <class Add>
  static void each(PyObject* tuple, const char* what, const Add& add) {
    const Items items(tuple, what);
    for (Py_ssize_t i = 0; i < items.size(); ++i) add(items[i]);
  }

  static std::size_t count(PyObject* tuple, const char* what) {
    const auto size = static_cast<std::size_t>(Items(tuple, what).size());
    if (size > most) raise(PyExc_ValueError, "Recording: got %zu %s, expected at most %zu", size, what, most);
    return size;
  }

  void add_constant(PyObject* tensor) {
    constant_addresses_.push_back(Arguments::tensor_of(tensor));
    constants_.push_back(owned(tensor));
    const DLTensor constant = Torch::get().seen(tensor);
    if (constant.device_type != dlpack_cpu) constants_stream_ = stream_at(constant);
  }

  // The index of a new tensor; -1: None; -2, -3, ...: tensors of the call.
  void add_result(std::ptrdiff_t index) {
    if (index >= 0) index_below(index, fresh_.size(), "a result");
    if (index < -1) needs_.tensor(-2 - index);
    results_.push_back(index);
  }

  // Where new tensor `i` is that no result is.
  void place_scratch(std::size_t i) {
    const bool is_result =
        std::find(results_.begin(), results_.end(), static_cast<std::ptrdiff_t>(i)) != results_.end();
    const std::size_t bytes = (fresh_[i].extent() + alignment - 1) / alignment * alignment;
    const bool is_scratch = !is_result && bytes > 0 && scratch_bytes_ + bytes <= most_scratch;
    scratch_.push_back(is_scratch ? static_cast<std::ptrdiff_t>(scratch_bytes_) : -1);
    if (is_scratch) scratch_bytes_ += bytes;
  }

  // (autograd function, its arguments, which of its outputs is the result, what calls share)
  void add_gradient(PyObject* tuple) {
    const Items items(tuple, "Recording: the gradient", 4);
    gradient_.emplace_back(items[0], items[1]);
    item_ = items.number(2);
    shared_ = owned(items[3]);
    const Callee& node = gradient_[0];
    const auto arguments = static_cast<std::ptrdiff_t>(node.arguments());
    if (needs_.tensors() > arguments || needs_.numbers() > 0)
      raise(PyExc_ValueError, "Recording: a node of autograd has %zd tensors and no numbers, expected %zd and %zd",
            arguments, needs_.tensors(), needs_.numbers());
    if (!spans_.empty()) raise(PyExc_ValueError, "Recording: what has a gradient asks for no memory of its own");
    for (const std::size_t i : changed_)
      if (node.source(i) < 0) raise(PyExc_ValueError, "Recording: a constant of a node of autograd is changed");
    const auto known = static_cast<std::size_t>(arguments) + results_.size();
    for (auto [numbers, name] : {std::pair{&saved_, "saved"}, {&constant_, "constant"}}) {
      const Ref given = checked(PyObject_GetAttrString(shared_.get(), name));
      each(given.get(), name, [&, numbers = numbers](PyObject* item) {
        const std::ptrdiff_t index = integer(item);
        if (index >= 0) index_below(index, known, "what autograd saves");
        numbers->push_back(index);
      });
    }
    const Ref views = checked(PyObject_GetAttrString(shared_.get(), "views"));
    each(views.get(), "the shapes of what is saved", [&](PyObject* item) { views_.push_back(owned(item)); });
    if (views_.size() != saved_.size())
      raise(PyExc_ValueError, "Recording: got shapes for %zu tensors that are saved, expected %zu", views_.size(),
            saved_.size());
  }

  Needs needs_;  // of a call, or of its node of autograd
  std::vector<Step> steps_;
  std::vector<Fresh> fresh_;
  std::vector<std::ptrdiff_t> scratch_;  // where each of them is in the scratch memory; -1: a tensor
  std::size_t scratch_bytes_ = 0;
  std::vector<Ref> constants_;
  std::vector<void*> constant_addresses_;
  void* constants_stream_ = nullptr;
  std::vector<FreeConstant> free_;       // in their order
  std::vector<std::ptrdiff_t> results_;  // as add_result says
  bool several_ = false;
  std::vector<std::ptrdiff_t> saved_, constant_;  // of autograd: tensors of the node, then outputs; -1: None
  std::vector<Ref> views_;                        // shapes in which they are saved, or None
  Ref shared_;                                    // what the derivative needs
  std::vector<Extent> spans_;                     // what may share no memory
  std::vector<std::size_t> changed_;              // tensors of the call, or of its node of autograd
  std::vector<Copy> copies_;                      // after the kernels
  std::vector<std::pair<Ref, Ref>> draws_;        // functions that give positions, and of how many elements
  std::vector<std::pair<Callee, Range>> checks_;  // of the values of tensors
  std::vector<Callee> gradient_;                  // the autograd function, if there is one
  std::ptrdiff_t item_ = -1;                      // of its output which is the result; -1: all
};

}  // namespace repdl::python
#pragma GCC visibility pop
