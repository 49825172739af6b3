'use strict'

const ModuleError = require('module-error')
const binding = require('./binding')
const { decode } = require('./decode')
const { expiryOf } = require('./expiry')
const { Frames, values } = require('./frames')
const { Entries, pickEntry } = require('./iterator')
const { boolean, count } = require('./options')
const { framesOf, rangeOf } = require('./range')
const { kNative } = require('./store')

// Size of the writes that are passed to the native module at the latest, in bytes.
const WRITE_BYTES = 1 << 20

// A transaction of a database. Its calls take effect in their order, and its reads show its writes.
class Transaction {
  #db
  #native
  #commit
  // Settled when the last call of the native module has ended. The next one starts then.
  #last = Promise.resolve()
  // The error of a write, which is thrown by all calls that follow.
  #fault = null
  // Writes to one store that the native module does not know yet.
  #frames = new Frames()
  #store = null
  // Whether entries of that store may expire, which the frames depend on.
  #isExpiring = false
  #isOpen = true
  #hasConflict = false

  // `commit` runs the commit in the order of the database's other writes.
  constructor (db, commit) {
    this.#db = db
    this.#native = binding.beginTransaction(db[kNative])
    this.#commit = commit
    db.attachResource(this)
  }

  get db () {
    return this.#db
  }

  // Whether the commit failed because of another write, so that the transaction may be run again.
  get hasConflict () {
    return this.#hasConflict
  }

  async get (key, options) {
    return (await this.getMany([key], options))[0]
  }

  async has (key, options) {
    const found = await this.#read([key], options)
    return found[0] !== undefined
  }

  async getMany (keys, options) {
    const encoding = this.#storeOf(options).valueEncoding(options?.valueEncoding)
    const found = await this.#read(keys, options, encoding.format === 'utf8')
    return found.map((value) => value === undefined ? undefined : decode(encoding, value, 'value'))
  }

  async #read (keys, options, asText = false) {
    const store = this.#storeOf(options)
    const encoding = store.keyEncoding(options?.keyEncoding)
    for (const key of keys) store._assertValidKey(key)
    const encoded = Buffer.from(framesOf(keys.map((key) => encoding.encode(key))))
    return values(await this.#run(() => this.#native.getMany(encoded, store[kNative])), asText)
  }

  put (key, value, options) {
    const store = this.#storeOf(options)
    store._assertValidKey(key)
    store._assertValidValue(value)
    const encodedKey = store.keyEncoding(options?.keyEncoding).encode(key)
    const encodedValue = store.valueEncoding(options?.valueEncoding).encode(value)
    const expiry = expiryOf(options ?? {}, store.expiring)
    this.#framesFor(store).put(encodedKey, encodedValue, expiry)
  }

  del (key, options) {
    const store = this.#storeOf(options)
    store._assertValidKey(key)
    const encodedKey = store.keyEncoding(options?.keyEncoding).encode(key)
    this.#framesFor(store).del(encodedKey)
  }

  // Returns the entries of a range, which are read while the iteration goes on.
  iterator (options) {
    const store = this.#storeOf(options)
    const keyEncoding = store.keyEncoding(options?.keyEncoding)
    const valueEncoding = store.valueEncoding(options?.valueEncoding)
    const limit = limitOf(options)
    const range = { reverse: boolean(options ?? {}, 'reverse', false) }
    for (const name of ['gte', 'gt', 'lte', 'lt']) {
      if (options?.[name] != null) range[name] = keyEncoding.encode(options[name])
    }
    const [bounds, flags] = rangeOf(range)
    const wanted = flags | binding.KEYS | binding.VALUES
    const native = this.#native.iterator(bounds, wanted, store[kNative])
    const entries = new Entries({
      read: (...limits) => this.#run(() => native.read(...limits)),
      close: () => native.close()
    }, {
      keyEncoding: keyEncoding.format,
      valueEncoding: valueEncoding.format
    }, pickEntry({ keys: true, values: true }))
    return decoded(entries, limit, keyEncoding, valueEncoding)
  }

  async commit (options) {
    const sync = boolean(options ?? {}, 'sync', false)
    this.#flush()
    this.#assertOpen()
    this.#isOpen = false
    try {
      await this.#chain(() => this.#commit(() => this.#native.commit(sync)))
    } catch (error) {
      this.#hasConflict = error.code === 'LEVEL_CONFLICT'
      throw error
    } finally {
      // A commit that an earlier error prevents has left the native transaction open.
      this.#native.close()
      this.#db.detachResource(this)
    }
  }

  // Ends the transaction. Its writes are forgotten, unless it was committed.
  async close () {
    this.#isOpen = false
    await this.#last
    this.#native.close()
    this.#db.detachResource(this)
  }

  #assertOpen () {
    if (this.#isOpen) return
    throw new ModuleError('Transaction is not open', { code: 'LEVEL_TRANSACTION_NOT_OPEN' })
  }

  // Returns the keyspace of a call, or the database.
  #storeOf (options) {
    this.#assertOpen()
    const store = options?.keyspace ?? this.#db
    // The database of a sublevel is this one, too.
    if (store !== this.#db && (store.db !== this.#db || store[kNative] === undefined)) {
      throw new TypeError("The option 'keyspace' must be a keyspace of the transaction's database")
    }
    return store
  }

  #framesFor (store) {
    const isExpiring = store.expiring === true
    const isSame = this.#store === store && this.#isExpiring === isExpiring
    if (!isSame || this.#frames.length > WRITE_BYTES) this.#flush()
    this.#store = store
    this.#isExpiring = isExpiring
    return this.#frames
  }

  // Passes the writes to the native module.
  #flush () {
    if (this.#frames.length === 0) return
    const frames = this.#frames.bytes()
    const native = this.#store[kNative]
    const isExpiring = this.#isExpiring
    this.#frames = new Frames()
    this.#chain(() => this.#native.write(frames, native, isExpiring)).catch((error) => {
      this.#fault = error
    })
  }

  // Makes the call `call`, which sees all writes before it.
  async #run (call) {
    this.#flush()
    this.#assertOpen()
    return this.#chain(call)
  }

  #chain (call) {
    const promise = this.#last.then(() => {
      if (this.#fault !== null) throw this.#fault
      return call()
    })
    this.#last = promise.catch(() => {})
    return promise
  }
}

async function * decoded (entries, limit, keyEncoding, valueEncoding) {
  try {
    for (; limit > 0; limit--) {
      const entry = await entries.next(limit)
      if (entry === undefined) return
      yield [decode(keyEncoding, entry[0], 'key'), decode(valueEncoding, entry[1], 'value')]
    }
  } finally {
    entries.close()
  }
}

function limitOf (options) {
  const limit = options?.limit ?? Infinity
  return limit === Infinity || limit === -1 ? Infinity : count(options, 'limit', Infinity)
}

module.exports = { Transaction }
