// Readable listings of a database's files.
#ifndef MINIKV_LEVELDB_DUMPFILE_H_
#define MINIKV_LEVELDB_DUMPFILE_H_

#include <string>

#include "leveldb/env.h"
#include "leveldb/export.h"
#include "leveldb/status.h"

namespace leveldb {

// Appends a listing of a log, a MANIFEST or a table to `out`.
LEVELDB_EXPORT Status DumpFile(Env* env, const std::string& name, WritableFile* out);

}  // namespace leveldb

#endif
