// The one option the C API has no setter for. A leveldb_options_t begins with its Options.
#include <leveldb/options.h>

extern "C" void interop_set_reuse_logs(leveldb::Options* options, unsigned char on) {
  options->reuse_logs = on != 0;
}
