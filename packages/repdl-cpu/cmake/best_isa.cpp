// Prints the level that native stands for in REPDL_CPU_ISAS (isas.cmake).
#include <cstdio>

#include "base/isas.hpp"

int main() { std::fputs(repdl::cpu::supported_isas().front().c_str(), stdout); }
