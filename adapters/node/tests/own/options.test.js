'use strict'

const assert = require('assert')
const fs = require('fs')
const path = require('path')
const test = require('node:test')
const { MinikvLevel } = require('../..')
const { place, open, fill } = require('./support')

const WRONG = [
  ['createIfMissing', 1, TypeError, /'createIfMissing' must be a boolean, received number/],
  ['errorIfExists', 'no', TypeError, /'errorIfExists' must be a boolean, received string/],
  ['readOnly', 'yes', TypeError, /'readOnly'/],
  ['multithreading', 0, TypeError, /'multithreading'/],
  ['compression', 'snappy', TypeError, /'compression' must be a boolean/],
  ['cacheSize', '8 MiB', TypeError, /'cacheSize' must be a number, received string/],
  ['writeBufferSize', '4', TypeError, /'writeBufferSize' must be a number/],
  ['blockSize', [4096], TypeError, /'blockSize'/],
  ['maxOpenFiles', true, TypeError, /'maxOpenFiles'/],
  ['blockRestartInterval', {}, TypeError, /'blockRestartInterval'/],
  ['keepLogsBytes', -1, RangeError, /'keepLogsBytes' must be an integer from 0 on/],
  ['keepLogsFor', NaN, RangeError, /'keepLogsFor' must be .*received NaN/],
  ['bloomFilterBits', 1.5, RangeError, /'bloomFilterBits' must be .*received 1.5/],
  ['maxFileSize', 2n, TypeError, /'maxFileSize'/],
  ['bloomFilterBits', true, TypeError, /'bloomFilterBits'/],
  ['filterLayout', 'blocks', TypeError, /'filterLayout' must be one of 'block', 'table', 'both'/]
]

test('the constructor names an option that is wrong', (t) => {
  for (const [name, value, type, message] of WRONG) {
    assert.throws(() => new MinikvLevel(place(t), { [name]: value }), (error) => {
      return error instanceof type && message.test(error.message)
    }, name)
  }
})

test('open names an option that is wrong', async (t) => {
  const db = new MinikvLevel(place(t), { passive: true })
  await db.open()
  await db.close()
  // abstract-level converts the values of these two options to booleans.
  const others = WRONG.filter(([name]) => !['createIfMissing', 'errorIfExists'].includes(name))
  for (const [name, value, type, message] of others) {
    await assert.rejects(db.open({ [name]: value }), (error) => {
      const { code, cause } = error
      const isNamed = cause instanceof type && message.test(cause.message)
      return code === 'LEVEL_DATABASE_NOT_OPEN' && isNamed
    }, name)
  }
  await db.open()
  await db.close()
})

test('options of calls are named when they are wrong', async (t) => {
  const db = await open(t)
  await assert.rejects(db.put('a', '1', { sync: 1 }), /'sync' must be a boolean, received number/)
  await assert.rejects(db.del('a', { sync: 'yes' }), /'sync'/)
  await assert.rejects(db.batch([{ type: 'del', key: 'a' }], { sync: 1 }), /'sync'/)
  await assert.rejects(db.batch().del('a').write({ sync: 1 }), /'sync'/)
  await assert.rejects(db.get('a', { fillCache: 1 }), /'fillCache'/)
  await assert.rejects(db.getMany(['a'], { fillCache: 1 }), /'fillCache'/)
  assert.throws(() => db.getSync('a', { fillCache: 1 }), /'fillCache'/)
  assert.throws(() => db.iterator({ fillCache: 1 }), /'fillCache'/)
  assert.throws(() => db.iterator({ highWaterMarkBytes: '1' }), /'highWaterMarkBytes'/)
  await assert.rejects(db.backup('folder', { keep: 0 }), /'keep' must be at least 1/)
  await assert.rejects(MinikvLevel.restore('folder', 'db', { number: 1.5 }), /'number'/)
  await assert.rejects(MinikvLevel.repair(db.location, { dryRun: 1 }), /'dryRun'/)
  for (const location of ['', null, undefined, 7]) {
    assert.throws(() => new MinikvLevel(location), /'location' must be a non-empty string/)
    for (const call of [MinikvLevel.destroy, MinikvLevel.repair, MinikvLevel.verify]) {
      await assert.rejects(call(location), /'location' must be a non-empty string/)
    }
    await assert.rejects(db.checkpoint(location), /'location' must be a non-empty string/)
  }
})

test('null and undefined stand for the default', async (t) => {
  const db = await open(t, { cacheSize: null, compression: undefined, filterLayout: null })
  await db.put('a', '1', { sync: null })
  assert.strictEqual(await db.get('a', { fillCache: undefined }), '1')
})

test('options reach the library', async (t) => {
  // Entries that can be compressed. Compactions split them into several tables if tables are small.
  const sizes = {}
  for (const [name, options] of Object.entries({
    plain: { compression: false, maxFileSize: 1 << 20 },
    compressed: { compression: true },
    unfiltered: { compression: false, bloomFilterBits: 0 }
  })) {
    const db = await open(t, options)
    await fill(db, 50_000)
    await db.compactRange('a', 'z')
    const files = fs.readdirSync(db.location).filter((file) => file.endsWith('.ldb'))
    const bytes = files.map((file) => fs.statSync(path.join(db.location, file)).size)
    sizes[name] = { tables: files.length, bytes: bytes.reduce((a, b) => a + b) }
  }
  assert(sizes.compressed.bytes < sizes.plain.bytes)
  assert(sizes.unfiltered.bytes < sizes.plain.bytes)
  assert.strictEqual(sizes.compressed.tables, 1)
  assert.strictEqual(sizes.plain.tables, 2)
})

test('filter layouts', async (t) => {
  for (const filterLayout of ['block', 'table', 'both']) {
    const db = await open(t, { filterLayout, bloomFilterBits: 12 })
    await fill(db)
    await db.compactRange('a', 'z')
    for (let n = 0; n < 500; n++) assert.strictEqual(db.getSync(`key-00${n}-absent`), undefined)
    const { reads } = await db.stats()
    assert.strictEqual(reads.table_filter_negatives > 400, filterLayout !== 'block')
    assert.strictEqual(reads.filter_negatives > 400, filterLayout === 'block')
  }
})

test('sizes outside of the limits are moved into them', async (t) => {
  const zero = Object.fromEntries([
    'cacheSize', 'writeBufferSize', 'blockSize', 'maxOpenFiles', 'blockRestartInterval',
    'maxFileSize'
  ].map((name) => [name, 0]))
  const least = await open(t, zero)
  await fill(least)
  const large = Object.fromEntries(Object.keys(zero).map((name) => [name, 2 ** 40]))
  const most = await open(t, large)
  await fill(most)
  assert.strictEqual((await most.keys().all()).length, 1000)
})

test('open says what is in the way', async (t) => {
  const location = place(t)
  const cause = (text, code) => (error) => {
    assert.strictEqual(error.code, 'LEVEL_DATABASE_NOT_OPEN')
    assert.match(error.cause.message, text)
    assert.strictEqual(error.cause.code, code)
    return true
  }
  const another = () => new MinikvLevel(location)
  const missing = /^Invalid argument: .* does not exist \(createIfMissing is false\)/
  await assert.rejects(another().open({ createIfMissing: false }), cause(missing, undefined))
  await assert.rejects(another().open({ readOnly: true }), cause(/does not exist/, undefined))
  assert(!fs.existsSync(location))
  const db = await open(t, {}, location)
  const locked = /^IO error: lock .*LOCK: already held by this process/
  await assert.rejects(another().open(), cause(locked, 'LEVEL_LOCKED'))
  await db.close()
  const exists = /^Invalid argument: .* exists \(errorIfExists is true\)/
  await assert.rejects(another().open({ errorIfExists: true }), cause(exists, undefined))
  fs.writeFileSync(path.join(location, 'CURRENT'), 'MANIFEST-000999\n')
  await assert.rejects(another().open(), cause(/^Corruption: /, 'LEVEL_CORRUPTION'))
  fs.writeFileSync(location + '-file', '')
  const file = new MinikvLevel(location + '-file')
  await assert.rejects(file.open(), cause(/^IO error: /, 'LEVEL_IO_ERROR'))
})
