'use strict'

const { Store, kNative } = require('./store')
const { dateOf } = require('./expiry')

// A named part of a database with keys of its own.
class Keyspace extends Store {
  #db
  #name
  // Whether entries may expire: what the program asks for, and what the last open has found.
  #asked
  #found

  // If `isExpiring` is undefined, this is the keyspace `name` that has entries, or an ordinary one.
  constructor (db, writer, name, isExpiring, options) {
    const native = db[kNative].keyspace(Buffer.from(name), isExpiring)
    super(native, writer, { additionalMethods: { expiry: true } }, options)
    this.#db = db
    this.#name = name
    this.#asked = isExpiring
  }

  get db () {
    return this.#db
  }

  get name () {
    return this.#name
  }

  // `undefined` while it is not known, because the database is not open yet.
  get expiring () {
    if (this.#asked !== undefined) return this.#asked
    if (this.status === 'open') return this.#found
    return this.#db.status === 'open' ? this[kNative].isExpiring() : undefined
  }

  async _open (options) {
    await this.#db.open({ passive: true })
    // A database that has begun to close meanwhile would not close this keyspace.
    this.#db._assertOpen('Database is not open')
    this.#db.attachResource(this)
    try {
      this.#found = await this[kNative].find()
    } catch (error) {
      this.#db.detachResource(this)
      throw error
    }
  }

  // Stays attached until its calls have ended, because the database waits for what is attached.
  async _close () {
    await super._close()
    this.#db.detachResource(this)
  }

  // Returns when the entry of `key` expires: a Date, `null` for never, or `undefined` if there is
  // no such entry.
  async expiry (key, options) {
    const millis = await this._ofKey('expiry', key, options)
    return millis === undefined ? undefined : dateOf(millis)
  }
}

module.exports = { Keyspace }
