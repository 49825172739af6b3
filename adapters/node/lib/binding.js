'use strict'

const native = require('../minikv.node')

// Flags that say what a call reads and returns. src/database.rs has the same values.
const flags = {
  HAS_LOWER: 1,
  WITH_LOWER: 2,
  HAS_UPPER: 4,
  WITH_UPPER: 8,
  REVERSE: 16,
  KEYS: 32,
  VALUES: 64,
  FILL_CACHE: 128,
  AS_BUFFER: 256
}

module.exports = { ...native, ...flags }
