'use strict'

const path = require('path')
const binding = require('./lib/binding')
const { Changes, nameOf } = require('./lib/changes')
const { values } = require('./lib/frames')
const { Keyspace } = require('./lib/keyspace')
const { openOptions, boolean, count } = require('./lib/options')
const { Store, kNative } = require('./lib/store')
const { Transaction } = require('./lib/transaction')
const { Writer } = require('./lib/writer')

// Longest pause before a transaction is run again after a conflict, in milliseconds.
const PAUSE_MILLIS = 10

class MinikvLevel extends Store {
  #location
  // The absolute location, which does not depend on later changes of the working directory.
  #path
  #writer
  #readOnly = false

  constructor (location, options) {
    assertLocation(location)
    if (typeof options === 'object' && options !== null) openOptions(options)

    const writer = new Writer()
    super(new binding.NativeDatabase(), writer, {
      createIfMissing: true,
      errorIfExists: true,
      additionalMethods: {
        backup: true,
        changes: true,
        checkpoint: true,
        filterAdvice: true,
        keyspace: true,
        keyspaces: true,
        refresh: true,
        resume: true,
        stats: true,
        sync: true,
        transact: true,
        transaction: true,
        verify: true
      }
    }, options)

    this.#writer = writer
    this.#location = location
    this.#path = path.resolve(location)
  }

  get location () {
    return this.#location
  }

  // Whether the database was opened with the option `readOnly`.
  get readOnly () {
    return this.#readOnly
  }

  async _open (options) {
    const checked = openOptions(options)
    await this[kNative].open(this.#path, checked)
    this.#readOnly = checked.readOnly
  }

  async _close () {
    await super._close()
    await this[kNative].close()
  }

  // Returns a property of LevelDB, or an empty string if the name is unknown.
  getProperty (property) {
    if (typeof property !== 'string') {
      throw new TypeError("The first argument 'property' must be a string")
    }
    this._assertOpen('Database is not open')
    return this[kNative].property(property) ?? ''
  }

  async checkpoint (location) {
    assertLocation(location)
    return this._whenOpen('checkpoint', () => this[kNative].checkpoint(path.resolve(location)))
  }

  // Adds a backup to a folder of backups, and removes all of them except the latest `keep`.
  async backup (folder, options) {
    assertLocation(folder, 'folder')
    const keep = count(options ?? {}, 'keep', 0)
    const given = options?.keep == null ? undefined : keep
    if (given === 0) throw new RangeError("The option 'keep' must be at least 1")
    return JSON.parse(await this._whenOpen('backup', () => {
      return this[kNative].backup(path.resolve(folder), given)
    }))
  }

  async sync () {
    return this._whenOpen('sync', () => this.#writer.call(() => this[kNative].sync()))
  }

  async resume () {
    return this._whenOpen('resume', () => this[kNative].resume())
  }

  async refresh () {
    return this._whenOpen('refresh', () => this[kNative].refresh())
  }

  async stats () {
    return JSON.parse(await this._whenOpen('stats', () => this[kNative].stats()))
  }

  async filterAdvice () {
    return JSON.parse(await this._whenOpen('filterAdvice', () => this[kNative].filterAdvice()))
  }

  // Returns the keyspace `name`, a database of its own within this one: the one that has entries,
  // unless the option `expiring` says which.
  keyspace (name, options) {
    const isText = typeof name === 'string'
    const bytes = isText ? Buffer.from(name) : name
    if (!(bytes instanceof Uint8Array) || bytes.length < 1 || bytes.length > 255) {
      throw new TypeError("The first argument 'name' must have 1 to 255 bytes")
    }
    const { expiring, ...forward } = options ?? {}
    const isExpiring = expiring == null ? undefined : boolean({ expiring }, 'expiring', false)
    return new Keyspace(this, this.#writer, isText ? name : bytes.slice(), isExpiring, forward)
  }

  // Returns the keyspaces that have entries.
  async keyspaces () {
    const listed = []
    for (const expiring of [false, true]) {
      const names = await this._whenOpen('keyspaces', () => this[kNative].keyspaces(expiring))
      for (const name of values(names, false)) listed.push({ name: nameOf(name), expiring })
    }
    return listed
  }

  // Begins a transaction.
  transaction () {
    this._assertOpen('Database is not open: cannot call transaction()')
    return new Transaction(this, (call) => this._during(this.#writer.call(call)))
  }

  // Runs `body` in a transaction and commits it, and does so again after a conflict. Returns the
  // result of `body`.
  async transact (body, options) {
    if (typeof body !== 'function') {
      throw new TypeError("The first argument 'body' must be a function")
    }
    if (this.status === 'opening') return this.deferAsync(() => this.transact(body, options))
    for (;;) {
      const transaction = this.transaction()
      let result
      try {
        result = await body(transaction)
        await transaction.commit(options)
        return result
      } catch (error) {
        if (!transaction.hasConflict) throw error
      } finally {
        await transaction.close()
      }
      await new Promise((resolve) => setTimeout(resolve, Math.random() * PAUSE_MILLIS))
    }
  }

  // The number of the last write that reads show.
  get sequence () {
    this._assertOpen('Database is not open')
    return this[kNative].sequence()
  }

  // Returns the changes that were committed after the sequence number `since`.
  changes (since, options) {
    const sequence = since === undefined ? this.sequence : count({ since }, 'since', 0)
    this._assertOpen('Database is not open: cannot call changes()')
    const native = this[kNative].changes(sequence)
    return new Changes(this, native, sequence, (promise) => this._during(promise), options)
  }

  // Reads the whole database, which need not be open, and returns a report of every fault.
  async verify () {
    return MinikvLevel.verify(this.#path)
  }

  static async destroy (location) {
    assertLocation(location)
    return binding.destroy(path.resolve(location))
  }

  static async repair (location, options) {
    assertLocation(location)
    const dryRun = boolean(options ?? {}, 'dryRun', false)
    return JSON.parse(await binding.repair(path.resolve(location), dryRun))
  }

  static async verify (location) {
    assertLocation(location)
    return JSON.parse(await binding.verify(path.resolve(location)))
  }

  // Returns the backups in a folder, oldest first.
  static async backups (folder) {
    assertLocation(folder, 'folder')
    return JSON.parse(await binding.listBackups(path.resolve(folder)))
  }

  // Reads all backups in a folder, and returns the faults.
  static async verifyBackups (folder) {
    assertLocation(folder, 'folder')
    return JSON.parse(await binding.verifyBackups(path.resolve(folder)))
  }

  // Copies a backup to a new directory.
  static async restore (folder, location, options) {
    assertLocation(folder, 'folder')
    if (typeof location !== 'string' || location === '') {
      throw new TypeError("The second argument 'location' must be a non-empty string")
    }
    const number = count(options ?? {}, 'number', 0)
    const given = options?.number == null ? undefined : number
    const restored = binding.restore(path.resolve(folder), path.resolve(location), given)
    return JSON.parse(await restored)
  }
}

function assertLocation (location, name = 'location') {
  if (typeof location !== 'string' || location === '') {
    throw new TypeError(`The first argument '${name}' must be a non-empty string`)
  }
}

exports.MinikvLevel = MinikvLevel
// For programs in which npm puts this package in the place of classic-level.
exports.ClassicLevel = MinikvLevel
