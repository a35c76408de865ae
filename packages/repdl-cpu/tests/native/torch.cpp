// What parallel_for knows of torch: a library with this function, which needs an OpenMP runtime. The
// checks in pool.cpp load it in torch's place.
#include <omp.h>

namespace at {

int get_num_threads() { return omp_get_max_threads(); }

}  // namespace at

// function(data) on every thread of torch's team.
extern "C" void on_every_thread(void (*function)(void*), void* data) {
#pragma omp parallel
  function(data);
}
