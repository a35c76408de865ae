// The node of autograd of a recorded call that has a derivative.
#pragma once

#include "repdl/python/plan.hpp"

#pragma GCC visibility push(hidden)
namespace repdl::python {

class AutogradNode {
 public:
  // `results`: how many outputs the node has.
  AutogradNode(PyObject* object, std::size_t results)
      : AutogradNode(Fields(object, "Recording: the node of autograd"), results) {}

  std::size_t tensors() const { return function_.arguments(); }

  // Which tensor of the call tensor `i` of the node is, if it is one.
  std::optional<std::ptrdiff_t> tensor_of_call(std::size_t i) const { return function_.tensor(i); }

  // How many tensors the call has to have.
  std::ptrdiff_t tensors_of_call() const { return function_.tensors(); }

  // Calls the autograd function with the tensors and `recording`, which it runs in its forward function.
  Ref apply(PyObject* const* tensor, PyObject* recording) const {
    Ref output = function_.run(tensor, recording);
    if (!output_) return output;
    const Items items(output.get(), "the output of a node of autograd");
    return owned(items[static_cast<Py_ssize_t>(
        index_below(*output_, static_cast<std::size_t>(items.size()), "an output of a node of autograd"))]);
  }

  // What `setup_context` did with the context of autograd, for the tensors of this call.
  void set_up(PyObject* context, PyObject* const* tensor, PyObject* output, bool returns_tuple) const {
    const auto value = [&](std::size_t i) {
      return i < tensors() ? tensor[i] : returns_tuple ? PyTuple_GET_ITEM(output, i - tensors()) : output;
    };
    const auto set = [&](PyObject* name, const std::vector<Saved>& all) {
      const Ref tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(all.size())));
      for (std::size_t i = 0; i < all.size(); ++i) {
        Ref item = owned(all[i].index ? value(*all[i].index) : Py_None);
        if (all[i].index && all[i].shape.get() != Py_None) item = view_of(item.get(), all[i].shape.get());
        PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), item.release());
      }
      if (PyObject_SetAttr(context, name, tuple.get()) != 0) throw PythonError{};
    };
    const TorchState& state = TorchState::get();
    set(state.to_save, saved_);
    if (!constant_.empty()) set(state.non_differentiable, constant_);
    if (PyObject_SetAttr(context, state.shared, shared_.get()) != 0) throw PythonError{};
    if (!materializes_ && PyObject_SetAttr(context, state.materialize_grads, Py_False) != 0) throw PythonError{};
  }

  int traverse(visitproc visit, void* arg) const {
    Py_VISIT(shared_.get());
    return function_.traverse(visit, arg);
  }

 private:
  // A tensor of the node, or behind them an output; none: None.
  struct Saved {
    std::optional<std::size_t> index;
    Ref shape;  // in which it is saved; None: its own
  };

  AutogradNode(const Fields& node, std::size_t results)
      : function_(node.get("function").get(), node.get("arguments").get()), output_(node.optional_number("output")),
        shared_(node.get("shared")) {
    const Fields shared(shared_.get(), "Recording: what calls share");
    materializes_ = shared.flag("materializes");
    const std::size_t known = tensors() + results;
    for (auto [all, name] : {std::pair{&saved_, "saved"}, {&constant_, "constant"}})
      shared.each(name, [&, all = all](PyObject* item) {
        const auto index = Fields::optional_integer(item);
        Saved saved{std::nullopt, owned(Py_None)};
        if (index) saved.index = index_below(*index, known, "what autograd saves");
        all->push_back(std::move(saved));
      });
    std::size_t shapes = 0;
    shared.each("views", [&](PyObject* item) {
      if (shapes < saved_.size()) saved_[shapes].shape = owned(item);
      ++shapes;
    });
    if (shapes != saved_.size())
      raise(PyExc_ValueError, "Recording: got shapes for %zu tensors that are saved, expected %zu", shapes,
            saved_.size());
  }

  // A tensor in another shape. Autograd follows it, though it runs a node's forward function without gradients.
  static Ref view_of(PyObject* tensor, PyObject* shape) {
    const TorchState& state = TorchState::get();
    checked(PyObject_CallOneArg(state.set_grad_enabled, Py_True));
    Ref view(PyObject_CallMethodOneArg(tensor, state.view, shape));
    if (!view) throw PythonError{};  // autograd sets its mode again after a node's forward
    checked(PyObject_CallOneArg(state.set_grad_enabled, Py_False));
    return view;
  }

  PythonCall function_;
  std::optional<std::ptrdiff_t> output_;
  Ref shared_;
  std::vector<Saved> saved_, constant_;
  bool materializes_;  // whether an output without a gradient has one of zeros
};

}  // namespace repdl::python
#pragma GCC visibility pop
