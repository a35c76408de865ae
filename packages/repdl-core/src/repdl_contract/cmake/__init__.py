"""Where `find_package(repdl_contract)` looks, through scikit-build-core's `cmake.root`."""
