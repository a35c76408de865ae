// Prints the level that REPDL_CPU_ISAS=native builds (isas.cmake).
#include <cstdio>

#include "base/isas.hpp"

int main() { std::fputs(repdl::cpu::supported_isas().front().c_str(), stdout); }
