// The version of what modules of several projects have in common: how a call of a kernel is bound, and what
// `Recording`, `Call` and their like take of repdl.callcache, which reads the number here. It goes up when either
// changes.
#pragma once

#define REPDL_CALL_ABI 8
#define REPDL_TEXT_OF(number) #number
#define REPDL_TEXT(number) REPDL_TEXT_OF(number)
