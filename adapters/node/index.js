'use strict'

const { AbstractLevel, AbstractSnapshot } = require('abstract-level')
const ModuleError = require('module-error')
const path = require('path')
const binding = require('./lib/binding')
const { ChainedBatch } = require('./lib/chained-batch')
const { scratch, values } = require('./lib/frames')
const { Iterator, KeyIterator, ValueIterator } = require('./lib/iterator')
const { openOptions, number, boolean } = require('./lib/options')
const { Reader } = require('./lib/reader')
const { Writer } = require('./lib/writer')

const kNative = Symbol('native')

class MinikvLevel extends AbstractLevel {
  #location
  // The absolute location, which does not depend on later changes of the working directory.
  #path
  #native = new binding.NativeDatabase()
  #writer = new Writer(this.#native)
  #reader = new Reader(this.#native)
  #readOnly = false
  // The number of running calls, and the function to call when no call is left.
  #calls = 0
  #whenIdle = null

  constructor (location, options) {
    assertLocation(location)
    if (typeof options === 'object' && options !== null) openOptions(options)

    super({
      encodings: { buffer: true, utf8: true, view: true },
      has: true,
      createIfMissing: true,
      errorIfExists: true,
      explicitSnapshots: true,
      getSync: true,
      additionalMethods: {
        approximateSize: true,
        checkpoint: true,
        compactRange: true,
        explain: true,
        filterAdvice: true,
        refresh: true,
        resume: true,
        stats: true,
        sync: true,
        verify: true
      },
      signals: { iterators: true }
    }, options)

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
    await this.#native.open(this.#path, checked)
    this.#readOnly = checked.readOnly
  }

  async _close () {
    if (this.#calls > 0) await new Promise((resolve) => { this.#whenIdle = resolve })
    await this.#native.close()
  }

  // Awaits a promise of the native module, and lets close() wait for it.
  async #during (promise) {
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

  _get (key, options) {
    const snapshot = options.snapshot?.[kNative]
    const flags = readFlags(options)
    if (snapshot !== undefined) {
      return this.#during(this.#native.get(scratch.bare(key), flags, snapshot))
    }
    return this.#during(this.#reader.get(key, flags))
  }

  _getSync (key, options) {
    const snapshot = options.snapshot?.[kNative]
    return this.#native.getSync(scratch.bare(key), readFlags(options), snapshot)
  }

  async _getMany (keys, options) {
    const snapshot = options.snapshot?.[kNative]
    const promise = this.#native.getMany(framesOf(keys), readFlags(options), snapshot)
    return values(await this.#during(promise), options.valueEncoding === 'utf8')
  }

  async _has (key, options) {
    return (await this._hasMany([key], options))[0]
  }

  async _hasMany (keys, options) {
    const snapshot = options.snapshot?.[kNative]
    const promise = this.#native.hasMany(framesOf(keys), readFlags(options), snapshot)
    return Array.from(await this.#during(promise), (byte) => byte === 1)
  }

  _put (key, value, options) {
    return this.#write((frames) => frames.put(key, value), options)
  }

  _del (key, options) {
    return this.#write((frames) => frames.del(key), options)
  }

  _batch (operations, options) {
    return this.#write((frames) => {
      for (const operation of operations) {
        if (operation.type === 'put') frames.put(operation.key, operation.value)
        else frames.del(operation.key)
      }
    }, options)
  }

  _chainedBatch () {
    return new ChainedBatch(this, (frames, options) => {
      const sync = boolean(options, 'sync', false)
      return this.#during(this.#writer.call(() => this.#native.write(frames, sync)))
    })
  }

  async #write (fill, options) {
    return this.#during(this.#writer.write(fill, boolean(options, 'sync', false)))
  }

  async _clear (options) {
    const [bounds, flags] = rangeOf(options)
    const limit = options.limit >= 0 ? Math.min(options.limit, 0xffffffff) : undefined
    const snapshot = options.snapshot?.[kNative]
    const clear = () => this.#native.clear(bounds, flags, limit, snapshot)
    return this.#during(this.#writer.call(clear))
  }

  _iterator (options) {
    const { keys, values } = options
    const flags = (keys ? binding.KEYS : 0) | (values ? binding.VALUES : 0)
    return new Iterator(this, this.#walk(options, flags), options)
  }

  _keys (options) {
    return new KeyIterator(this, this.#walk(options, binding.KEYS), options)
  }

  _values (options) {
    return new ValueIterator(this, this.#walk(options, binding.VALUES), options)
  }

  #walk (options, wanted) {
    number(options, 'highWaterMarkBytes', 0)
    const [bounds, flags] = rangeOf(options)
    const fill = boolean(options, 'fillCache', false) ? binding.FILL_CACHE : 0
    const snapshot = options.snapshot?.[kNative]
    return this.#native.iterator(bounds, flags | wanted | fill, snapshot)
  }

  _snapshot (options) {
    return new Snapshot(this.#native.snapshot(), options)
  }

  // Runs `call` when the database is open.
  async #whenOpen (name, call) {
    if (this.status === 'opening') return this.deferAsync(() => this.#whenOpen(name, call))
    if (this.status !== 'open') {
      throw new ModuleError(`Database is not open: cannot call ${name}()`, {
        code: 'LEVEL_DATABASE_NOT_OPEN'
      })
    }
    return this.#during(call())
  }

  async approximateSize (start, end, options) {
    if (arguments.length < 2) throw new TypeError("The arguments 'start' and 'end' are required")
    const range = this.#encodedRange(start, end, options)
    return this.#whenOpen('approximateSize', () => this.#native.approximateSize(...rangeOf(range)))
  }

  async compactRange (start, end, options) {
    if (arguments.length < 2) throw new TypeError("The arguments 'start' and 'end' are required")
    const range = this.#encodedRange(start, end, options)
    return this.#whenOpen('compactRange', () => this.#native.compactRange(...rangeOf(range)))
  }

  #encodedRange (start, end, options) {
    const encoding = this.keyEncoding(options?.keyEncoding)
    return { gte: encoding.encode(start), lt: encoding.encode(end) }
  }

  // Returns a property of LevelDB, or an empty string if the name is unknown.
  getProperty (property) {
    if (typeof property !== 'string') {
      throw new TypeError("The first argument 'property' must be a string")
    }
    if (this.status !== 'open') {
      throw new ModuleError('Database is not open', { code: 'LEVEL_DATABASE_NOT_OPEN' })
    }
    return this.#native.property(property) ?? ''
  }

  async checkpoint (location) {
    assertLocation(location)
    return this.#whenOpen('checkpoint', () => this.#native.checkpoint(path.resolve(location)))
  }

  async sync () {
    return this.#whenOpen('sync', () => this.#writer.call(() => this.#native.sync()))
  }

  async resume () {
    return this.#whenOpen('resume', () => this.#native.resume())
  }

  async refresh () {
    return this.#whenOpen('refresh', () => this.#native.refresh())
  }

  async stats () {
    return JSON.parse(await this.#whenOpen('stats', () => this.#native.stats()))
  }

  async filterAdvice () {
    return JSON.parse(await this.#whenOpen('filterAdvice', () => this.#native.filterAdvice()))
  }

  async explain (key, options) {
    this._assertValidKey(key)
    const encoded = this.keyEncoding(options?.keyEncoding).encode(key)
    const snapshot = options?.snapshot
    snapshot?.ref()
    try {
      return JSON.parse(await this.#whenOpen('explain', () => {
        return this.#native.explain(scratch.bare(encoded), snapshot?.[kNative])
      }))
    } finally {
      snapshot?.unref()
    }
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

function assertLocation (location) {
  if (typeof location !== 'string' || location === '') {
    throw new TypeError("The first argument 'location' must be a non-empty string")
  }
}

function readFlags (options) {
  const fill = boolean(options, 'fillCache', true) ? binding.FILL_CACHE : 0
  return options.valueEncoding === 'utf8' ? fill : fill | binding.AS_BUFFER
}

function framesOf (keys) {
  scratch.truncate(0)
  for (const key of keys) scratch.key(key)
  return scratch.bytes()
}

// Returns the bounds of a range, as separate frames, and flags. `gte` and `lte` take precedence
// over `gt` and `lt`.
function rangeOf (options) {
  const bounds = []
  let flags = options.reverse ? binding.REVERSE : 0
  const lower = options.gte ?? options.gt
  const upper = options.lte ?? options.lt
  if (lower !== undefined) {
    bounds.push(lower)
    flags |= binding.HAS_LOWER | (options.gte !== undefined ? binding.WITH_LOWER : 0)
  }
  if (upper !== undefined) {
    bounds.push(upper)
    flags |= binding.HAS_UPPER | (options.lte !== undefined ? binding.WITH_UPPER : 0)
  }
  return [Buffer.from(framesOf(bounds)), flags]
}

exports.MinikvLevel = MinikvLevel
