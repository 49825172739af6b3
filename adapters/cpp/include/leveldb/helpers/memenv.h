// Files in memory.
#ifndef MINIKV_LEVELDB_HELPERS_MEMENV_H_
#define MINIKV_LEVELDB_HELPERS_MEMENV_H_

#include "leveldb/export.h"

namespace leveldb {

class Env;

// An Env whose files are in memory until it is deleted. `base` does everything that is not a file,
// and outlives it. The caller deletes the Env after the databases that use it.
LEVELDB_EXPORT Env* NewMemEnv(Env* base);

}  // namespace leveldb

#endif
