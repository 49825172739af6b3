'use strict'

const ModuleError = require('module-error')

// Refuses an operation that still has the option `sublevel`. abstract-level has put the prefixes of
// sublevels of the database before the keys, and taken the option away; what is left names a
// keyspace, or something within one, where a key without a prefix means another entry.
function refuseOther ({ sublevel }) {
  if (sublevel == null) return
  throw new ModuleError('A batch cannot write to another keyspace: use a transaction', {
    code: 'LEVEL_NOT_SUPPORTED'
  })
}

// Returns whether `level` is `store`, or a sublevel within it.
function isWithin (level, store) {
  for (; level != null; level = level.parent) {
    if (level === store) return true
  }
  return false
}

module.exports = { refuseOther, isWithin }
