'use strict'

const { AbstractSublevel } = require('abstract-level')
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

// Refuses a del of a chained batch of `level` that names a level outside of it. abstract-level would
// delete the key within `level`.
function refuseOutside (level, options) {
  if (!isWithin(options?.sublevel ?? level, level)) refuseOther(options)
}

// A sublevel whose chained batches refuse what a store's refuse.
class Sublevel extends AbstractSublevel {
  _sublevel (name, options) {
    return new Sublevel(this, name, options)
  }

  _chainedBatch () {
    const batch = super._chainedBatch()
    const del = batch.del
    batch.del = (key, options) => {
      refuseOutside(this, options)
      return del.call(batch, key, options)
    }
    return batch
  }
}

module.exports = { refuseOther, refuseOutside, Sublevel }
