// A recorded call: the kernels that it ran, to be run again on other tensors.
#pragma once

#include <memory>

#include "repdl/python/autograd_node.hpp"
#include "repdl/python/output_spec.hpp"
#include "repdl/python/overlap.hpp"

#pragma GCC visibility push(hidden)
namespace repdl::python {

// Where there is a node of autograd, the tensors of the call are those of the node.
class Recording {
 public:
  static constexpr std::size_t most = 96;  // new tensors, or constants: they are on the stack of `run`

  // `plan`: a `Plan` (repdl.callcache.plan)
  explicit Recording(PyObject* plan) : Recording(Fields(plan, "Recording")) {}

  int traverse(visitproc visit, void* arg) const {
    for (const Check& check : checks_)
      if (const int stop = check.traverse(visit, arg)) return stop;
    for (const OutputSpec& output : outputs_)
      if (const int stop = output.traverse(visit, arg)) return stop;
    for (const Ref& constant : constants_) Py_VISIT(constant.get());
    for (const Draw& draw : draws_) {
      Py_VISIT(draw.take.get());
      Py_VISIT(draw.count.get());
    }
    return node_ ? node_->traverse(visit, arg) : 0;
  }

  // Throws unless a call has as many tensors and scalars as is recorded.
  void expect(int tensors, std::size_t scalars) const {
    const bool fits = node_ ? tensors >= node_->tensors_of_call()
                            : tensors >= needs_.tensors() && static_cast<std::ptrdiff_t>(scalars) >= needs_.scalars();
    if (!fits)
      raise(PyExc_ValueError, "Recording: a call of %d tensors and %zu scalars is not what was recorded", tensors,
            scalars);
  }

  // The same of a node of autograd.
  const AutogradNode& expect_node(int tensors) const {
    if (!node_) raise(PyExc_ValueError, "Recording: it has no gradient, so no node of autograd runs it");
    if (static_cast<std::size_t>(tensors) != node_->tensors())
      raise(PyExc_ValueError, "Recording: a node of autograd has %d tensors, expected %zu", tensors, node_->tensors());
    return *node_;
  }

  // Runs the kernels. Null, with nothing done and no error of Python, if tensors share memory that is written: the
  // function copies then, or raises.
  Ref run(const CallTensors& call, Span<double> scalars) const {
    for (const Check& check : checks_) check.run(call);
    // The address of each source of memory.
    Buffer<void*, 256> base(static_cast<std::size_t>(call.count) + outputs_.size() + constants_.size());
    void** next = base.data();
    for (int i = 0; i < call.count; ++i)
      *next++ = static_cast<std::byte*>(call.memory[i].data) + call.memory[i].byte_offset;
    if (shares_memory(base.data())) return Ref();
    NewTensors made;
    const std::unique_ptr<std::byte, Scratch> scratch(scratch_bytes_ > 0 ? Scratch::take(scratch_bytes_) : nullptr);
    for (std::size_t i = 0; i < outputs_.size(); ++i, ++next) {
      if (scratch_[i]) *next = scratch.get() + *scratch_[i];
      made.add(scratch_[i] ? Ref() : outputs_[i].make(next));
    }
    double element[most];
    constants(next, element, scalars);
    const int at = leader(call);
    void* stream = stream_at(call.memory[at]);
    for (const Step& step : steps_) step.run(base.data(), scalars, stream, call.objects[at]);
    for (const Copy& copy : copies_) run(copy, base.data(), call, made);
    if (!changed_.empty()) tell_autograd(call.objects);
    return result(call, made);
  }

  std::size_t draws() const { return draws_.size(); }

  // Asks each generator for a position, which advances it.
  std::vector<Ref> positions() const {
    std::vector<Ref> result;
    for (const Draw& draw : draws_) result.push_back(checked(PyObject_CallOneArg(draw.take.get(), draw.count.get())));
    return result;
  }

  // Whether the current stream is the one on which the constants were written. Kernels of another stream would read
  // them too early, or after their memory was given to another tensor.
  bool has_constants(const CallTensors& call) const {
    return constants_.empty() || stream_at(call.memory[leader(call)]) == constants_stream_;
  }

  bool has_node() const { return node_.has_value(); }
  bool returns_tuple() const { return returns_tuple_; }

  // Calls the autograd function, which gets the tensors and this recording.
  Ref differentiate(PyObject* self, const CallTensors& call) const { return node_->apply(call.objects, self); }

  // Whether a tensor that is written may not be: one of inference mode, outside of that mode.
  bool is_frozen(PyObject* const* tensor) const {
    const TorchState& state = TorchState::get();
    const auto is_inference = [&](std::size_t i) {
      PyObject* target = tensor[node_ ? static_cast<std::size_t>(*node_->tensor_of_call(i)) : i];
      return state.is_inference.is(Py_True, target);
    };
    return std::any_of(changed_.begin(), changed_.end(), is_inference) && !state.is_inference_mode.is(Py_True);
  }

 private:
  // The new tensors of a call; null for one that is scratch memory.
  struct NewTensors {
    PyObject* tensor[most];  // the first `count`
    std::size_t count = 0;

    NewTensors() = default;
    NewTensors(const NewTensors&) = delete;
    NewTensors& operator=(const NewTensors&) = delete;
    ~NewTensors() {
      while (count > 0) Py_XDECREF(tensor[--count]);
    }
    void add(Ref object) { tensor[count++] = object.release(); }
  };

  // Memory of the host for new tensors that are no results, and so small that a tensor would cost more.
  static constexpr std::size_t alignment = 64, most_scratch = std::size_t{1} << 18;
  struct Scratch {
    static std::byte* take(std::size_t bytes) {
      return static_cast<std::byte*>(::operator new(bytes, std::align_val_t{alignment}));
    }
    void operator()(std::byte* memory) const { ::operator delete(memory, std::align_val_t{alignment}); }
  };

  explicit Recording(const Fields& plan)
      : needs_(count(plan, "outputs") + count(plan, "constants")), returns_tuple_(plan.flag("returns_tuple")) {
    plan.each("checks", [&](PyObject* item) {
      checks_.emplace_back(item);
      needs_.tensors(checks_.back().tensors());
    });
    plan.each("steps", [&](PyObject* item) { steps_.emplace_back(item, needs_); });
    plan.each("outputs", [&](PyObject* item) { outputs_.emplace_back(item); });
    plan.each("constants", [&](PyObject* item) { add_constant(item); });
    plan.each("scalar_constants", [&](PyObject* item) { add_scalar_constant(item); });
    plan.each("operands", [&](PyObject* item) { operands_.emplace_back(item, needs_); });
    plan.each("changed", [&](PyObject* item) { changed_.push_back(needs_.tensor(integer(item))); });
    plan.each("copies", [&](PyObject* item) { copies_.emplace_back(item, needs_); });
    plan.each("draws", [&](PyObject* item) { draws_.emplace_back(item); });
    plan.each("results", [&](PyObject* item) { results_.emplace_back(item, outputs_.size(), needs_); });
    if (!returns_tuple_ && results_.size() != 1)
      raise(PyExc_ValueError, "Recording: got %zu results, expected one, or a tuple", results_.size());
    for (std::size_t i = 0; i < outputs_.size(); ++i) place_scratch(i);
    const Ref node = plan.get("node");
    if (node.get() != Py_None) add_node(node.get());
  }

  static std::size_t count(const Fields& plan, const char* name) {
    std::size_t size = 0;
    plan.each(name, [&](PyObject*) { ++size; });
    if (size > most) raise(PyExc_ValueError, "Recording: got %zu %s, expected at most %zu", size, name, most);
    return size;
  }

  void add_constant(PyObject* tensor) {
    constant_addresses_.push_back(Arguments::address_of(tensor));
    constants_.push_back(owned(tensor));
    const DLTensor constant = Torch::get().dltensor(tensor);
    if (constant.device_type != dlpack_cpu) constants_stream_ = stream_at(constant);
  }

  void add_scalar_constant(PyObject* item) { scalar_constants_.emplace_back(item, constants_.size(), needs_); }

  // Where new tensor `i` is in the scratch memory, if it is no result.
  void place_scratch(std::size_t i) {
    const bool is_result = std::any_of(results_.begin(), results_.end(), [&](const Result& result) {
      return result.kind == Result::Kind::new_tensor && result.index == i;
    });
    const std::size_t bytes = (outputs_[i].extent() + alignment - 1) / alignment * alignment;
    const bool is_scratch = !is_result && bytes > 0 && scratch_bytes_ + bytes <= most_scratch;
    scratch_.push_back(is_scratch ? std::optional(scratch_bytes_) : std::nullopt);
    if (is_scratch) scratch_bytes_ += bytes;
  }

  void add_node(PyObject* object) {
    node_.emplace(object, results_.size());
    const auto tensors = static_cast<std::ptrdiff_t>(node_->tensors());
    if (needs_.tensors() > tensors || needs_.scalars() > 0)
      raise(PyExc_ValueError, "Recording: a node of autograd has %zd tensors and no scalars, expected %zd and %zd",
            tensors, needs_.tensors(), needs_.scalars());
    if (!operands_.empty()) raise(PyExc_ValueError, "Recording: a call with a node of autograd has operands");
    for (const std::size_t i : changed_)
      if (!node_->tensor_of_call(i)) raise(PyExc_ValueError, "Recording: a constant of a node of autograd is changed");
  }

  // The index of the tensor on whose device kernels run: the first that is not on the host, if there is one.
  static int leader(const CallTensors& call) {
    for (int i = 0; i < call.count; ++i)
      if (call.memory[i].device_type != dlpack_cpu) return i;
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

  bool shares_memory(void* const* base) const {
    if (operands_.empty()) return false;
    Buffer<MemoryRange, 96> ranges(operands_.size());
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      const Operand& operand = operands_[i];
      const auto* begin = static_cast<const std::byte*>(base[operand.tensor]);
      ranges[i] = {begin, begin + operand.bytes, operand.is_written};
    }
    return overlap(ranges.data(), ranges.data() + ranges.size());
  }

  // The addresses of constants. Those that are scalars of the call are written to `element`, as doubles or floats.
  void constants(void** address, double* element, Span<double> scalars) const {
    std::copy(constant_addresses_.begin(), constant_addresses_.end(), address);
    for (const ScalarConstant& constant : scalar_constants_) {
      address[constant.constant()] = &element[constant.constant()];
      constant.write(scalars, &element[constant.constant()]);
    }
  }

  void run(const Copy& copy, void* const* base, const CallTensors& call, const NewTensors& made) const {
    const std::size_t index =
        copy.source - static_cast<std::size_t>(call.count);  // of a tensor of the call: beyond all
    if (index >= outputs_.size()) throw std::logic_error("Recording: what is copied is no new tensor");
    if (call.memory[copy.target].device_type != dlpack_cpu) {  // torch copies
      if (made.tensor[index] == nullptr) throw std::logic_error("Recording: what is copied is on another device");
      checked(PyObject_CallMethodOneArg(call.objects[copy.target], TorchState::get().copy, made.tensor[index]));
      return;
    }
    if (copy.bytes > outputs_[index].extent()) throw std::logic_error("Recording: more is copied than there is");
    std::copy_n(static_cast<const std::byte*>(base[copy.source]), copy.bytes,
                static_cast<std::byte*>(base[copy.target]));
  }

  // Kernels write to addresses, which autograd does not see.
  void tell_autograd(PyObject* const* tensor) const {
    const Ref all = checked(PyTuple_New(static_cast<Py_ssize_t>(changed_.size())));
    for (std::size_t i = 0; i < changed_.size(); ++i)
      PyTuple_SET_ITEM(all.get(), static_cast<Py_ssize_t>(i), owned(tensor[changed_[i]]).release());
    checked(PyObject_CallOneArg(TorchState::get().increment_version, all.get()));
  }

  Ref result(const CallTensors& call, const NewTensors& made) const {
    const auto item = [&](const Result& result) {
      const bool is_none = result.kind == Result::Kind::none, is_new = result.kind == Result::Kind::new_tensor;
      return owned(is_none ? Py_None : is_new ? made.tensor[result.index] : call.objects[result.index]);
    };
    if (!returns_tuple_) return item(results_[0]);
    Ref tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(results_.size())));
    for (std::size_t i = 0; i < results_.size(); ++i)
      PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), item(results_[i]).release());
    return tuple;
  }

  Requirements needs_;  // of a call, or of its node of autograd
  std::vector<Check> checks_;
  std::vector<Draw> draws_;
  std::vector<Step> steps_;
  std::vector<OutputSpec> outputs_;                  // of new tensors
  std::vector<std::optional<std::size_t>> scratch_;  // where each of them is in the scratch memory; none: a tensor
  std::size_t scratch_bytes_ = 0;
  std::vector<Ref> constants_;
  std::vector<void*> constant_addresses_;
  void* constants_stream_ = nullptr;
  std::vector<ScalarConstant> scalar_constants_;
  std::vector<Result> results_;
  bool returns_tuple_;
  std::optional<AutogradNode> node_;
  std::vector<Operand> operands_;
  std::vector<std::size_t> changed_;
  std::vector<Copy> copies_;  // after the kernels
};

}  // namespace repdl::python
#pragma GCC visibility pop
