"""The C++ side of the contract: headers in `include/`, a CMake package in `cmake/`.

This package imports nothing, so that a native backend can be built without torch.
"""
