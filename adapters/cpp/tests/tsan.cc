// Functions that code from LLVM calls and GCC's ThreadSanitizer does not have. It watches the
// functions that these call.
#include <cstring>

extern "C" {

void* __tsan_memcpy(void* to, const void* from, size_t count) { return memcpy(to, from, count); }

void* __tsan_memmove(void* to, const void* from, size_t count) {
  return memmove(to, from, count);
}

void* __tsan_memset(void* to, int byte, size_t count) { return memset(to, byte, count); }

}  // extern "C"
