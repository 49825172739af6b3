'use strict'

const { AbstractLevel, AbstractSnapshot } = require('abstract-level')
const ModuleError = require('module-error')
const binding = require('./binding')
const { ChainedBatch } = require('./chained-batch')
const { expiryOf } = require('./expiry')
const { scratch, values } = require('./frames')
const { Iterator, KeyIterator, ValueIterator } = require('./iterator')
const { boolean, uint32 } = require('./options')
const { framesOf, rangeOf } = require('./range')
const { Reader } = require('./reader')
const { refuseOther, Sublevel } = require('./sublevel')

const kNative = Symbol('native')

// What a database and a keyspace have in common: reads, writes, iterators and snapshots.
class Store extends AbstractLevel {
  #native
  #writer
  #reader
  // The number of running calls, and the function to call when no call is left.
  #calls = 0
  #whenIdle = null

  // `writer` orders the writes of a database, including those to its keyspaces.
  constructor (native, writer, { additionalMethods, ...manifest }, options) {
    super({
      ...manifest,
      encodings: { buffer: true, utf8: true, view: true },
      has: true,
      explicitSnapshots: true,
      getSync: true,
      additionalMethods: {
        approximateSize: true, compactRange: true, explain: true, ...additionalMethods
      },
      signals: { iterators: true }
    }, options)

    this.#native = native
    this.#writer = writer
    this.#reader = new Reader(native)
  }

  get [kNative] () {
    return this.#native
  }

  // Whether entries may expire.
  get expiring () {
    return false
  }

  async _close () {
    if (this.#calls > 0) await new Promise((resolve) => { this.#whenIdle = resolve })
  }

  // Awaits a promise of the native module, and lets close() wait for it.
  async _during (promise) {
    this.#calls++
    try {
      return await promise
    } finally {
      if (--this.#calls === 0 && this.#whenIdle !== null) {
        this.#whenIdle()
        this.#whenIdle = null
      }
    }
  }

  // Runs `call` when the database is open.
  async _whenOpen (name, call) {
    if (this.status === 'opening') return this.deferAsync(() => this._whenOpen(name, call))
    this._assertOpen(`Database is not open: cannot call ${name}()`)
    return this._during(call())
  }

  _assertOpen (text) {
    if (this.status !== 'open') throw new ModuleError(text, { code: 'LEVEL_DATABASE_NOT_OPEN' })
  }

  _get (key, options) {
    const snapshot = options.snapshot?.[kNative]
    const flags = readFlags(options)
    if (snapshot !== undefined) {
      return this._during(this.#native.get(scratch.bare(key), flags, snapshot))
    }
    return this._during(this.#reader.get(key, flags))
  }

  _getSync (key, options) {
    const snapshot = options.snapshot?.[kNative]
    return this.#native.getSync(scratch.bare(key), readFlags(options), snapshot)
  }

  async _getMany (keys, options) {
    const snapshot = options.snapshot?.[kNative]
    const promise = this.#native.getMany(framesOf(keys), readFlags(options), snapshot)
    return values(await this._during(promise), options.valueEncoding === 'utf8')
  }

  async _has (key, options) {
    return (await this._hasMany([key], options))[0]
  }

  async _hasMany (keys, options) {
    const snapshot = options.snapshot?.[kNative]
    const promise = this.#native.hasMany(framesOf(keys), readFlags(options), snapshot)
    return Array.from(await this._during(promise), (byte) => byte === 1)
  }

  _put (key, value, options) {
    const expiry = expiryOf(options, this.expiring)
    return this.#write((frames) => frames.put(key, value, expiry), options)
  }

  _del (key, options) {
    return this.#write((frames) => frames.del(key), options)
  }

  _batch (operations, options) {
    return this.#write((frames) => {
      for (const operation of operations) {
        refuseOther(operation)
        if (operation.type === 'put') {
          const expiry = expiryOf(operation, this.expiring)
          frames.put(operation.key, operation.value, expiry)
        } else {
          frames.del(operation.key)
        }
      }
    }, options)
  }

  _sublevel (name, options) {
    return new Sublevel(this, name, options)
  }

  _chainedBatch () {
    return new ChainedBatch(this, this.expiring, (frames, options) => {
      const sync = boolean(options, 'sync', false)
      return this._during(this.#writer.call(() => this.#native.write(frames, sync)))
    })
  }

  async #write (fill, options) {
    const sync = boolean(options, 'sync', false)
    return this._during(this.#writer.write(this.#native, fill, sync))
  }

  async _clear (options) {
    const [bounds, flags] = rangeOf(options)
    const limit = options.limit >= 0 ? Math.min(options.limit, 0xffffffff) : undefined
    const snapshot = options.snapshot?.[kNative]
    const clear = () => this.#native.clear(bounds, flags, limit, snapshot)
    return this._during(this.#writer.call(clear))
  }

  _iterator (options) {
    const { keys, values } = options
    const flags = (keys ? binding.KEYS : 0) | (values ? binding.VALUES : 0)
    return this.#walk(Iterator, options, flags)
  }

  _keys (options) {
    return this.#walk(KeyIterator, options, binding.KEYS)
  }

  _values (options) {
    return this.#walk(ValueIterator, options, binding.VALUES)
  }

  #walk (Class, options, wanted) {
    if (options.highWaterMarkBytes != null) {
      options = { ...options, highWaterMarkBytes: uint32(options, 'highWaterMarkBytes', 0) }
    }
    const [bounds, flags] = rangeOf(options)
    const fill = boolean(options, 'fillCache', false) ? binding.FILL_CACHE : 0
    const snapshot = options.snapshot?.[kNative]
    const native = this.#native.iterator(bounds, flags | wanted | fill, snapshot)
    return new Class(this, native, options)
  }

  _snapshot (options) {
    return new Snapshot(this.#native.snapshot(), options)
  }

  async approximateSize (start, end, options) {
    if (arguments.length < 2) throw new TypeError("The arguments 'start' and 'end' are required")
    const range = this.#encodedRange(start, end, options)
    return this._whenOpen('approximateSize', () => this.#native.approximateSize(...rangeOf(range)))
  }

  async compactRange (start, end, options) {
    if (arguments.length < 2) throw new TypeError("The arguments 'start' and 'end' are required")
    const range = this.#encodedRange(start, end, options)
    return this._whenOpen('compactRange', () => this.#native.compactRange(...rangeOf(range)))
  }

  #encodedRange (start, end, options) {
    const encoding = this.keyEncoding(options?.keyEncoding)
    return { gte: encoding.encode(start), lt: encoding.encode(end) }
  }

  async explain (key, options) {
    return JSON.parse(await this._ofKey('explain', key, options))
  }

  // Calls the native method `name` with a key and the option `snapshot`.
  async _ofKey (name, key, options) {
    this._assertValidKey(key)
    const encoded = this.keyEncoding(options?.keyEncoding).encode(key)
    const snapshot = options?.snapshot
    snapshot?.ref()
    try {
      return await this._whenOpen(name, () => {
        return this.#native[name](scratch.bare(encoded), snapshot?.[kNative])
      })
    } finally {
      snapshot?.unref()
    }
  }
}

class Snapshot extends AbstractSnapshot {
  constructor (native, options) {
    super(options)
    this[kNative] = native
  }

  async _close () {
    this[kNative].close()
  }
}

function readFlags (options) {
  const fill = boolean(options, 'fillCache', true) ? binding.FILL_CACHE : 0
  return options.valueEncoding === 'utf8' ? fill : fill | binding.AS_BUFFER
}

module.exports = { Store, kNative }
