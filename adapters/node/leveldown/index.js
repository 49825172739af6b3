'use strict'

const { inherits } = require('util')
const { AbstractLevelDOWN, AbstractIterator } = require('abstract-leveldown')
const { MinikvLevel } = require('minikv')

const BOUNDS = ['gt', 'gte', 'lt', 'lte']
const ITERATOR = ['keys', 'values', 'fillCache', 'highWaterMarkBytes']
const NOTHING = Buffer.alloc(0)

const kLevel = Symbol('level')

// The interface of leveldown 6, the LevelDB client from before abstract-level. Each method calls
// back with the result of the method of MinikvLevel with the same name.
function LevelDOWN (location) {
  if (!new.target) return new LevelDOWN(location)
  if (typeof location !== 'string') {
    throw new Error('constructor requires a location string argument')
  }

  AbstractLevelDOWN.call(this, {
    bufferKeys: true,
    snapshots: true,
    permanence: true,
    seek: true,
    clear: true,
    getMany: true,
    createIfMissing: true,
    errorIfExists: true,
    additionalMethods: { approximateSize: true, compactRange: true }
  })

  this.location = location
  this[kLevel] = null
}

inherits(LevelDOWN, AbstractLevelDOWN)

Object.assign(LevelDOWN.prototype, {
  _open (options, callback) {
    const encodings = { keyEncoding: 'buffer', valueEncoding: 'buffer' }
    settle(async () => {
      const level = new MinikvLevel(this.location, { ...options, ...encodings })
      await level.open()
      this[kLevel] = level
    }, callback)
  },

  _close (callback) {
    // leveldown closes what was never opened, too.
    settle(() => this[kLevel]?.close(), callback)
  },

  _serializeKey: serialize,
  _serializeValue: serialize,

  _put (key, value, options, callback) {
    settle(() => levelOf(this).put(key, value, { sync: options.sync }), callback)
  },

  _del (key, options, callback) {
    settle(() => levelOf(this).del(key, { sync: options.sync }), callback)
  },

  _batch (operations, options, callback) {
    // To abstract-level, other properties of an operation would mean something.
    const bare = operations.map(({ type, key, value }) => ({ type, key, value }))
    settle(() => levelOf(this).batch(bare, { sync: options.sync }), callback)
  },

  _get (key, options, callback) {
    settle(async () => {
      const value = await levelOf(this).get(key, { fillCache: options.fillCache })
      if (value === undefined) throw new Error('NotFound: ')
      return shown(value, options.asBuffer)
    }, callback)
  },

  _getMany (keys, options, callback) {
    settle(async () => {
      const values = await levelOf(this).getMany(keys, { fillCache: options.fillCache })
      return values.map((value) => shown(value, options.asBuffer))
    }, callback)
  },

  _clear (options, callback) {
    settle(() => levelOf(this).clear(rangeOf(options)), callback)
  },

  _iterator (options) {
    if (this.status !== 'open') throw new Error('cannot call iterator() before open()')
    return new Iterator(this, options)
  },

  approximateSize (start, end, callback) {
    assertRange('approximateSize', start, end, callback)
    settle(() => levelOf(this).approximateSize(serialize(start), serialize(end)), callback)
  },

  compactRange (start, end, callback) {
    assertRange('compactRange', start, end, callback)
    settle(() => levelOf(this).compactRange(serialize(start), serialize(end)), callback)
  },

  getProperty (property) {
    if (typeof property !== 'string') {
      throw new Error('getProperty() requires a valid `property` argument')
    }
    return levelOf(this).getProperty(property)
  }
})

for (const name of ['destroy', 'repair']) {
  LevelDOWN[name] = function (location, callback) {
    if (arguments.length < 2) {
      throw new Error(`${name}() requires \`location\` and \`callback\` arguments`)
    }
    if (typeof location !== 'string') {
      throw new Error(`${name}() requires a location string argument`)
    }
    assertCallback(name, callback)
    settle(async () => { await MinikvLevel[name](location) }, callback)
  }
}

// Shows a snapshot of the entries as they were when the iterator was made.
class Iterator extends AbstractIterator {
  #entries
  #options

  constructor (db, options) {
    super(db)
    this.#options = options
    this.#entries = levelOf(db).iterator({ ...rangeOf(options), ...pick(options, ITERATOR) })
  }

  _next (callback) {
    this.#entries.next().then((entry) => {
      if (entry === undefined) return process.nextTick(callback)
      const key = shown(entry[0] ?? NOTHING, this.#options.keyAsBuffer)
      const value = shown(entry[1] ?? NOTHING, this.#options.valueAsBuffer)
      process.nextTick(callback, null, key, value)
    }, (error) => process.nextTick(callback, error))
    return this
  }

  _seek (target) {
    if (target.length === 0) throw new Error('cannot seek() to an empty target')
    this.#entries.seek(target)
  }

  _end (callback) {
    settle(() => this.#entries.close(), callback)
  }
}

function levelOf (db) {
  if (db[kLevel] === null) throw new Error('Database is not open')
  return db[kLevel]
}

// Calls `callback` with the result or the error of `call`, which returns a promise. An error that
// `callback` itself throws belongs to the program. What made an open fail is the cause of the error
// of abstract-level.
function settle (call, callback) {
  new Promise((resolve) => resolve(call())).then(
    (result) => process.nextTick(callback, null, result),
    (error) => process.nextTick(callback, error.cause ?? error)
  )
}

function serialize (data) {
  return Buffer.isBuffer(data) ? data : String(data)
}

function shown (bytes, asBuffer) {
  return bytes === undefined || asBuffer ? bytes : bytes.toString()
}

// Returns those of the options that have values.
function pick (options, names) {
  return Object.fromEntries(names.map((name) => [name, options[name]])
    .filter(([, value]) => value !== undefined))
}

// Returns the range of the options. To leveldown, an empty bound is none, and a limit is an integer
// of 32 bits; to abstract-level, every bound is a key, and a fraction is no limit.
function rangeOf (options) {
  const { reverse, limit } = options
  const bounds = Object.entries(pick(options, BOUNDS)).filter(([, bound]) => bound.length > 0)
  return {
    ...Object.fromEntries(bounds), reverse, limit: typeof limit === 'number' ? limit | 0 : -1
  }
}

function assertRange (name, start, end, callback) {
  if ([start, end].some((bound) => bound == null || typeof bound === 'function')) {
    throw new Error(`${name}() requires valid \`start\` and \`end\` arguments`)
  }
  assertCallback(name, callback)
}

function assertCallback (name, callback) {
  if (typeof callback !== 'function') throw new Error(`${name}() requires a callback argument`)
}

module.exports = LevelDOWN
