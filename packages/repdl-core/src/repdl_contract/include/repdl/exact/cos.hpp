// cos(x): shares everything with sin.
#pragma once

#include "repdl/exact/sin.hpp"
