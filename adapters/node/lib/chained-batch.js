'use strict'

const { AbstractChainedBatch } = require('abstract-level')
const { Frames } = require('./frames')

// A batch that puts its operations into frames one by one.
class ChainedBatch extends AbstractChainedBatch {
  #frames = new Frames()
  #write

  // `write` writes frames to the database.
  constructor (db, write) {
    super(db)
    this.#write = write
  }

  _put (key, value) {
    this.#frames.put(key, value)
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
