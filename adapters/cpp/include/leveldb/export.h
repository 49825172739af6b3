// The macro in front of every name that the shared library exports.
#ifndef MINIKV_LEVELDB_EXPORT_H_
#define MINIKV_LEVELDB_EXPORT_H_

#ifndef LEVELDB_EXPORT
#ifdef LEVELDB_COMPILE_LIBRARY
#define LEVELDB_EXPORT __attribute__((visibility("default")))
#else
#define LEVELDB_EXPORT
#endif
#endif

#endif
