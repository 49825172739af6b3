'use strict'

const { AbstractChainedBatch } = require('abstract-level')
const { expiryOf } = require('./expiry')
const { Frames } = require('./frames')

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

  _put (key, value, options) {
    this.#frames.put(key, value, expiryOf(options, this.#isExpiring))
  }

  _del (key) {
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
