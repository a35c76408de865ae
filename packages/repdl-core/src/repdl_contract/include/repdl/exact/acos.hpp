// acos(x): shares everything with asin.
#pragma once

#include "repdl/exact/asin.hpp"
