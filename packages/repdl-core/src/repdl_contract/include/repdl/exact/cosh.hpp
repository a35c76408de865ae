// cosh(x): shares everything with sinh.
#pragma once

#include "repdl/exact/sinh.hpp"
