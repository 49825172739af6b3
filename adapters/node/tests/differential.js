'use strict'

// Performs the same random operations with minikv and with classic-level, which uses LevelDB, and
// compares what they return: node differential.js [steps] [seed]
//
// From time to time, both databases are closed, and each library continues with the other's
// directory.

const assert = require('assert')
const fs = require('fs')
const os = require('os')
const path = require('path')
const { ClassicLevel } = require('classic-level')
const { MinikvLevel } = require('..')
const { Random } = require('./random')

const ENCODINGS = ['utf8', 'buffer', 'view']
const MAX_ITERATORS = 6
const MAX_SNAPSHOTS = 4

// Two objects of the same kind: minikv's and classic-level's.
class Pair {
  constructor (ours, theirs) {
    this.both = [ours, theirs]
  }

  map (call) {
    return new Pair(call(this.both[0], 0), call(this.both[1], 1))
  }

  // Calls both objects, and checks that they return the same value or fail with the same code.
  async same (call, what) {
    const outcomes = await Promise.all(this.both.map(async (one, index) => {
      try {
        return { value: plain(await call(one, index)) }
      } catch (error) {
        return { code: error.code ?? error.name }
      }
    }))
    assert.deepStrictEqual(outcomes[0], outcomes[1], what)
    return outcomes[0]
  }
}

// Returns `value` with each Buffer replaced by a text that differs from all strings in the test.
function plain (value) {
  if (value instanceof Uint8Array) return `bytes ${Buffer.from(value).toString('hex')}`
  if (Array.isArray(value)) return value.map(plain)
  return value
}

class Run {
  constructor (random, home) {
    this.random = random
    this.paths = new Pair(path.join(home, 'ours'), path.join(home, 'theirs'))
    this.iterators = []
    this.snapshots = []
    this.done = {}
    this.options = {}
  }

  async open () {
    this.options = {
      compression: !this.random.oneIn(3),
      writeBufferSize: this.random.of([64 << 10, 4 << 20]),
      blockSize: this.random.of([1024, 4096]),
      blockRestartInterval: this.random.of([1, 16]),
      maxFileSize: this.random.of([1 << 20, 2 << 20]),
      cacheSize: this.random.of([0, 8 << 20])
    }
    this.dbs = this.paths.map((location, index) => {
      return new (index === 0 ? MinikvLevel : ClassicLevel)(location, this.options)
    })
    await this.dbs.same((db) => db.open(), 'open')
    await this.putLast()
  }

  // Puts a key so that the database is never empty: with classic-level, a seek in an empty database
  // ends the process.
  async putLast () {
    await this.dbs.same((db) => db.put('zzz', 'the last'), 'put')
  }

  async close () {
    this.iterators = []
    this.snapshots = []
    await this.dbs.same((db) => db.close(), 'close')
  }

  key () {
    const { random } = this
    switch (random.below(12)) {
      case 0: return random.bytes(random.below(4))
      case 1: return ''
      case 2: return 'ключ' + random.below(30)
      case 3: return Buffer.from([0xff, random.below(256)])
      default: return random.of(['a', 'b', 'key-']) + random.below(200)
    }
  }

  value () {
    const { random } = this
    switch (random.below(10)) {
      case 0: return ''
      case 1: return random.bytes(random.below(40))
      case 2: return '\u{1f600} значение'
      case 3: return random.bytes(8).toString('hex').repeat(random.below(2000))
      default: return 'value ' + random.below(1e6)
    }
  }

  // Returns an encoding that leaves `data` unchanged.
  encodingOf (data) {
    return typeof data === 'string' ? 'utf8' : this.random.of(['buffer', 'view'])
  }

  snapshotOption () {
    const snapshot = this.snapshots.length > 0 && this.random.oneIn(4)
      ? this.random.of(this.snapshots)
      : null
    return (index) => snapshot === null ? {} : { snapshot: snapshot.both[index] }
  }

  // Returns a function that maps the index of a library to options.
  readOptions () {
    const snapshot = this.snapshotOption()
    const valueEncoding = this.random.of(ENCODINGS)
    const fill = this.random.oneIn(4) ? { fillCache: this.random.oneIn(2) } : {}
    return (index) => ({ keyEncoding: 'buffer', valueEncoding, ...fill, ...snapshot(index) })
  }

  range () {
    const range = {}
    if (this.random.oneIn(2)) range[this.random.of(['gt', 'gte'])] = Buffer.from(this.key())
    if (this.random.oneIn(2)) range[this.random.of(['lt', 'lte'])] = Buffer.from(this.key())
    if (this.random.oneIn(20)) range.gt = Buffer.from(this.key())
    if (this.random.oneIn(20)) range.lte = Buffer.from(this.key())
    if (this.random.oneIn(2)) range.reverse = true
    if (this.random.oneIn(3)) range.limit = this.random.of([0, 1, 2, 10, 100, -1, Infinity])
    return range
  }

  // Returns a function that maps the index of a library to options, and the method that takes the
  // options.
  iteration () {
    const mode = this.random.of(['iterator', 'iterator', 'keys', 'values'])
    const range = this.range()
    const snapshot = this.snapshotOption()
    const more = { valueEncoding: this.random.of(ENCODINGS) }
    // With neither keys nor values, classic-level returns no entry at all.
    if (this.random.oneIn(4)) more[this.random.of(['keys', 'values'])] = false
    if (this.random.oneIn(4)) more.highWaterMarkBytes = this.random.of([0, 1, 100, 1 << 20])
    // Sometimes, keys are decoded as text; bounds that are bytes are then converted to text.
    const keyEncoding = this.random.oneIn(2) ? 'buffer' : 'utf8'
    const bounds = Object.fromEntries(Object.entries(range).map(([name, bound]) => {
      const isText = keyEncoding === 'utf8' && bound instanceof Buffer
      return [name, isText ? bound.toString() : bound]
    }))
    return { mode, options: (index) => ({ ...bounds, ...more, keyEncoding, ...snapshot(index) }) }
  }

  async put () {
    const [key, value] = [this.key(), this.value()]
    const options = { keyEncoding: this.encodingOf(key), valueEncoding: this.encodingOf(value) }
    if (this.random.oneIn(50)) options.sync = true
    await this.dbs.same((db) => db.put(key, value, options), 'put')
  }

  async del () {
    const key = this.key()
    await this.dbs.same((db) => db.del(key, { keyEncoding: this.encodingOf(key) }), 'del')
  }

  operations () {
    return Array.from({ length: this.random.below(20) }, () => {
      const [key, value] = [this.key(), this.value()]
      const keyEncoding = this.encodingOf(key)
      if (this.random.oneIn(3)) return { type: 'del', key, keyEncoding }
      return { type: 'put', key, value, keyEncoding, valueEncoding: this.encodingOf(value) }
    })
  }

  async batch () {
    const operations = this.operations()
    await this.dbs.same((db) => db.batch(operations), 'batch')
  }

  async chainedBatch () {
    const operations = this.operations()
    const clears = this.random.oneIn(8)
    await this.dbs.same(async (db) => {
      const batch = db.batch()
      operations.forEach((operation, index) => {
        if (operation.type === 'put') batch.put(operation.key, operation.value, operation)
        else batch.del(operation.key, operation)
        if (clears && index === 3) batch.clear()
      })
      const { length } = batch
      await batch.write()
      return length
    }, 'chained batch')
  }

  // Puts many entries, so that there are several tables.
  async load () {
    if (!this.random.oneIn(20)) return
    const operations = Array.from({ length: 400 }, () => {
      const key = 'key-' + this.random.below(3000)
      return { type: 'put', key, value: this.random.bytes(50).toString('hex').repeat(4) }
    })
    await this.dbs.same((db) => db.batch(operations), 'load')
  }

  async clear () {
    if (!this.random.oneIn(20)) return
    const range = this.range()
    const snapshot = this.snapshotOption()
    // classic-level's clear does not delete the empty key if it is the only key of the range.
    await this.dbs.same((db) => db.del(''), 'del')
    await this.dbs.same((db, index) => {
      return db.clear({ ...range, keyEncoding: 'buffer', ...snapshot(index) })
    }, 'clear')
    await this.putLast()
  }

  async get () {
    const [key, options] = [Buffer.from(this.key()), this.readOptions()]
    const method = this.random.of(['get', 'getSync', 'has'])
    await this.dbs.same((db, index) => db[method](key, options(index)), method)
  }

  async getMany () {
    const keys = Array.from({ length: this.random.below(50) }, () => Buffer.from(this.key()))
    const options = this.readOptions()
    const method = this.random.of(['getMany', 'hasMany'])
    await this.dbs.same((db, index) => db[method](keys, options(index)), method)
  }

  // Makes many calls at once. Their keys differ, because classic-level does not order its calls.
  async burst () {
    const named = this.operations().map((one) => [Buffer.from(one.key).toString('hex'), one])
    const writes = new Map(named)
    const reads = Array.from({ length: 50 }, () => Buffer.from(this.key()))
      .filter((key) => !writes.has(key.toString('hex')))
    const options = this.readOptions()
    await this.dbs.same(async (db, index) => {
      const calls = reads.map((key) => db.get(key, options(index)))
      for (const one of writes.values()) {
        calls.push(one.type === 'put' ? db.put(one.key, one.value, one) : db.del(one.key, one))
        calls.push(db.get(reads[0] ?? 'none', options(index)))
      }
      return Promise.all(calls)
    }, 'burst')
  }

  async scan () {
    const { mode, options } = this.iteration()
    await this.dbs.same((db, index) => db[mode](options(index)).all(), mode)
  }

  async loop () {
    const { mode, options } = this.iteration()
    const stop = this.random.of([1, 30, Infinity])
    await this.dbs.same(async (db, index) => {
      const found = []
      for await (const one of db[mode](options(index))) {
        found.push(one)
        if (found.length === stop) break
      }
      return found
    }, mode)
  }

  async newIterator () {
    const { mode, options } = this.iteration()
    if (this.iterators.length === MAX_ITERATORS) {
      const [old] = this.iterators.splice(this.random.below(MAX_ITERATORS), 1)
      await old.same((iterator) => iterator.close(), 'close of an iterator')
    }
    this.iterators.push(this.dbs.map((db, index) => db[mode](options(index))))
  }

  async step () {
    if (this.iterators.length === 0) return
    const iterators = this.random.of(this.iterators)
    const target = this.key()
    // classic-level counts entries that it has read ahead against the limit, and so may end too
    // early after a seek.
    const mayNotSeek = iterators.both[0].limit < Infinity
    const options = { keyEncoding: this.encodingOf(target) }
    const size = 1 + this.random.below(40)
    switch (this.random.below(4)) {
      case 0:
        if (mayNotSeek) return
        return iterators.same((iterator) => iterator.seek(target, options), 'seek')
      case 1:
        // The number of entries of one call depends on what was read ahead.
        return iterators.same(async (iterator) => {
          const found = []
          while (found.length < size) {
            const some = await iterator.nextv(size - found.length)
            if (some.length === 0) break
            found.push(...some)
          }
          return [found, iterator.count]
        }, 'nextv')
      default:
        return iterators.same((iterator) => iterator.next(), 'next')
    }
  }

  async newSnapshot () {
    if (this.snapshots.length === MAX_SNAPSHOTS) {
      const [old] = this.snapshots.splice(this.random.below(MAX_SNAPSHOTS), 1)
      await old.same((snapshot) => snapshot.close(), 'close of a snapshot')
    }
    this.snapshots.push(this.dbs.map((db) => db.snapshot()))
  }

  async wrong () {
    const wrong = this.random.of([
      (db) => db.put(null, 'value'),
      (db) => db.put('key', undefined),
      (db) => db.del(undefined),
      (db) => db.get(null),
      (db) => db.batch([{ type: 'other', key: 'key' }]),
      (db) => db.getMany('key'),
      (db) => db.approximateSize('key'),
      (db) => db.getProperty(1)
    ])
    await this.dbs.same(wrong, 'wrong usage')
  }

  async maintenance () {
    if (!this.random.oneIn(10)) return
    const [start, end] = [Buffer.from(this.key()), Buffer.from(this.key())]
    const options = { keyEncoding: 'buffer' }
    await this.dbs.same((db) => db.compactRange(start, end, options), 'compactRange')
    await this.dbs.same(async (db) => typeof await db.approximateSize('a', 'z'), 'size')
    await this.dbs.same((db) => typeof db.getProperty('leveldb.stats'), 'getProperty')
    await this.dbs.same((db) => db.getProperty('no such property'), 'getProperty')
  }

  async sublevel () {
    const name = this.random.of(['one', 'two'])
    const [key, value, range] = [this.key(), this.value(), this.range()]
    const options = { keyEncoding: this.encodingOf(key), valueEncoding: this.encodingOf(value) }
    await this.dbs.same(async (db) => {
      const sublevel = db.sublevel(name)
      await sublevel.put(key, value, options)
      return sublevel.iterator({ ...range, keyEncoding: 'buffer' }).all()
    }, 'sublevel')
  }

  // Reopens both databases. Sometimes each library opens the other's directory.
  async reopen () {
    if (!this.random.oneIn(20)) return
    await this.close()
    if (this.random.oneIn(2)) {
      this.paths = new Pair(this.paths.both[1], this.paths.both[0])
      this.count('exchange')
    }
    await this.open()
    await this.compare()
  }

  async compare () {
    const options = { keyEncoding: 'buffer', valueEncoding: 'buffer' }
    return this.dbs.same((db) => db.iterator(options).all(), 'all entries')
  }

  count (name) {
    this.done[name] = (this.done[name] ?? 0) + 1
  }
}

const OPERATIONS = [
  'put', 'put', 'put', 'put', 'del', 'batch', 'chainedBatch', 'clear', 'get', 'get', 'getMany',
  'burst', 'scan', 'loop', 'newIterator', 'step', 'step', 'step', 'newSnapshot', 'wrong',
  'maintenance', 'sublevel', 'load', 'reopen'
]

async function main () {
  const steps = Number(process.argv[2] ?? 20_000)
  const seed = Number(process.argv[3] ?? 1)
  const home = fs.mkdtempSync(path.join(os.tmpdir(), 'differential-'))
  const run = new Run(new Random(seed), home)
  await run.open()
  for (let step = 0; step < steps; step++) {
    const name = run.random.of(OPERATIONS)
    try {
      await run[name]()
    } catch (error) {
      error.message = `step ${step} of seed ${seed}, ${name}: ${error.message}`
      throw error
    }
    run.count(name)
  }
  const entries = (await run.compare()).value.length
  await run.close()
  run.paths = new Pair(run.paths.both[1], run.paths.both[0])
  await run.open()
  assert.strictEqual((await run.compare()).value.length, entries)
  await run.close()
  fs.rmSync(home, { recursive: true })
  const exchanges = (run.done.exchange ?? 0) + 1
  console.log(`${steps} random operations (seed ${seed}) agree, over ${exchanges} exchanges of ` +
    `directories; ${entries} entries at the end`)
}

main()
