'use strict'

const { AbstractChainedBatch } = require('abstract-level')
const { expiryOf } = require('./expiry')
const { Frames } = require('./frames')
const { refuseOther, refuseOutside } = require('./sublevel')

// A batch that puts its operations into frames one by one.
class ChainedBatch extends AbstractChainedBatch {
  #frames = new Frames()
  #isExpiring
  #write

  // `write` writes frames to the database.
  constructor (db, isExpiring, write) {
    super(db)
    this.#isExpiring = isExpiring
    this.#write = write
  }

  del (key, options) {
    refuseOutside(this.db, options)
    return super.del(key, options)
  }

  _put (key, value, options) {
    refuseOther(options)
    this.#frames.put(key, value, expiryOf(options, this.#isExpiring))
  }

  _del (key, options) {
    refuseOther(options)
    this.#frames.del(key)
  }

  _clear () {
    this.#frames.truncate(0)
  }

  _write (options) {
    return this.#write(this.#frames.bytes(), options)
  }

  async _close () {
    this.#frames = null
  }
}

module.exports = { ChainedBatch }
