'use strict'

const assert = require('assert')
const fs = require('fs')
const path = require('path')
const test = require('node:test')
const { ClassicLevel } = require('classic-level')
const { MinikvLevel } = require('../..')
const { place, open, fill, damaged, start, end, calm } = require('./support')

test('reads beside a writer in another process', async (t) => {
  const location = place(t)
  const child = start(`
    const db = new MinikvLevel(location)
    process.on('message', async (message) => {
      if (message === 'close') return db.close().then(() => process.disconnect())
      for (let n = 0; n < 1000; n++) await db.put(message + n, String(n))
      process.send('done')
    })
    db.put('first', '1').then(() => process.send('done'))`, location)
  const ended = end(child)
  const done = () => new Promise((resolve) => child.once('message', resolve))
  await done()

  const reader = await open(t, { readOnly: true }, location)
  assert(reader.readOnly)
  assert.strictEqual(await reader.get('first'), '1')
  const snapshot = reader.snapshot()
  const iterator = reader.keys()
  const written = done()
  child.send('a')
  await written
  assert.strictEqual(await reader.get('a7'), undefined)
  assert.strictEqual(await reader.refresh(), true)
  assert.strictEqual(await reader.refresh(), false)
  assert.strictEqual(await reader.get('a7'), '7')
  assert.strictEqual(reader.getSync('a999'), '999')
  assert.deepStrictEqual(await reader.getMany(['a1', 'none', 'first']), ['1', undefined, '1'])
  assert.strictEqual((await reader.keys().all()).length, 1001)
  assert.strictEqual((await reader.sublevel('none').keys().all()).length, 0)
  // Existing snapshots and iterators still show the earlier state.
  assert.strictEqual(await reader.get('a7', { snapshot }), undefined)
  assert.deepStrictEqual(await iterator.all(), ['first'])

  for (const write of [
    () => reader.put('b', '1'),
    () => reader.del('a7'),
    () => reader.batch([{ type: 'del', key: 'a7' }]),
    () => reader.batch().del('a7').write(),
    () => reader.clear(),
    () => reader.clear({ limit: 1 }),
    () => reader.compactRange('a', 'b'),
    () => reader.checkpoint(location + '-copy'),
    () => reader.sync(),
    () => reader.resume()
  ]) {
    await assert.rejects(write, { code: 'LEVEL_READONLY' })
  }
  assert(await reader.approximateSize('a', 'b') > 0)
  assert.match(reader.getProperty('leveldb.stats'), /Level/)
  assert.strictEqual(await reader.get('a7'), '7')
  child.send('close')
  assert.deepStrictEqual(await ended, calm)
})

test('a database is opened again as a reader, and as a writer', async (t) => {
  const db = await open(t)
  await db.put('a', '1')
  assert.strictEqual(await db.refresh(), false)
  await db.close()
  await db.open({ readOnly: true })
  assert(db.readOnly)
  await assert.rejects(db.put('a', '2'), { code: 'LEVEL_READONLY' })
  await db.close()
  await db.open()
  assert(!db.readOnly)
  await db.put('a', '2')
})

test('checkpoint', async (t) => {
  const db = await open(t)
  await fill(db)
  const copy = db.location + '-copy'
  await db.checkpoint(copy)
  await db.clear()
  const copied = await open(t, { createIfMissing: false }, copy)
  assert.strictEqual((await copied.keys().all()).length, 1000)
  assert.strictEqual((await db.keys().all()).length, 0)
  await assert.rejects(db.checkpoint(copy), /exists/)
})

test('verify', async (t) => {
  const db = await open(t)
  await fill(db)
  await db.compactRange('a', 'z')
  const report = await db.verify()
  assert.strictEqual(report.fault_count, 0)
  assert(report.entries >= 1000)
  await db.close()
  assert.strictEqual((await MinikvLevel.verify(db.location)).fault_count, 0)
})

test('damage is an error with a code, and not a missing key', async (t) => {
  const location = await damaged(t)
  const report = await MinikvLevel.verify(location)
  assert(report.fault_count > 0)
  assert(report.faults[0].file.endsWith('.ldb'))

  const db = await open(t, {}, location)
  const corruption = { code: 'LEVEL_CORRUPTION', message: /^Corruption: .*\.ldb.*checksum/ }
  const keys = Array.from({ length: 1000 }, (_, n) => 'key-' + String(n).padStart(5, '0'))
  const gets = await Promise.allSettled(keys.map((key) => db.get(key)))
  const bad = keys.filter((_, n) => gets[n].status === 'rejected')
  assert(bad.length > 0 && bad.length < 500, 'gets of one call fail one by one')
  assert(gets.every(({ value, reason }) => (value === undefined) === (reason !== undefined)))
  await assert.rejects(db.get(bad[0]), corruption)
  assert.throws(() => db.getSync(bad[0]), corruption)
  await assert.rejects(db.getMany([keys[0], bad[0]]), corruption)
  await assert.rejects(db.has(bad[0]), corruption)
  await assert.rejects(db.iterator().all(), corruption)
  await assert.rejects(db.clear({ limit: 1000 }), corruption)

  // An iterator returns all entries before the damage.
  for (const reverse of [false, true]) {
    const iterator = db.keys({ reverse })
    const found = []
    await assert.rejects(async () => {
      for (let key; (key = await iterator.next()) !== undefined;) found.push(key)
    }, corruption)
    await assert.rejects(iterator.next(), corruption)
    // Backwards, an entry is returned only after the entry before it in the file was read.
    const sound = reverse
      ? keys.slice(keys.indexOf(bad.at(-1)) + 2).reverse()
      : keys.slice(0, keys.indexOf(bad[0]))
    assert(sound.length > 0)
    assert.deepStrictEqual(found, sound)
    iterator.seek(found[0])
    assert.strictEqual(await iterator.next(), found[0])
    await iterator.close()
  }
})

test('repair', async (t) => {
  const location = await damaged(t)
  const before = fs.readdirSync(location).sort()
  const plan = await MinikvLevel.repair(location, { dryRun: true })
  assert(plan.dry_run && !plan.healthy)
  assert.deepStrictEqual(fs.readdirSync(location).sort(), before)
  const report = await MinikvLevel.repair(location)
  assert(!report.dry_run)
  assert.strictEqual((await MinikvLevel.verify(location)).fault_count, 0)
  const db = await open(t, {}, location)
  const left = await db.keys().all()
  assert(left.length > 0 && left.length < 1000)
  await assert.rejects(MinikvLevel.repair(location), { code: 'LEVEL_LOCKED' })
})

test('repair and verify of a place without a database are I/O errors', async (t) => {
  const location = place(t)
  const within = (name) => path.join(location, name)
  const error = (text) => ({ code: 'LEVEL_IO_ERROR', message: text })
  for (const call of ['repair', 'verify']) {
    for (const missing of [location, within('none'), '/1/2/3/4']) {
      await assert.rejects(MinikvLevel[call](missing), error(/^IO error: .*no such file or dir/i))
      assert(!fs.existsSync(missing))
    }
    fs.mkdirSync(location)
    await assert.rejects(MinikvLevel[call](location), error(/^IO error: .*there is no database/))
    assert.deepStrictEqual(fs.readdirSync(location), [])
    fs.writeFileSync(within('file'), '')
    await assert.rejects(MinikvLevel[call](within('file')), error(/^IO error: .*not a directory/i))
    await assert.rejects(MinikvLevel[call](within('file/x')), error(/not a directory/i))
    fs.rmSync(location, { recursive: true })
  }
  // Wherever both packages fail, they have the same code. LevelDB's repair creates an empty
  // database in an existing directory.
  for (const place of ['/1/2/3/4', __filename, path.join(__filename, 'x')]) {
    for (const { repair } of [ClassicLevel, MinikvLevel]) {
      await assert.rejects(repair(place), error(/^IO error: /))
    }
  }
})

test('repair of a sound database changes nothing', async (t) => {
  const db = await open(t)
  await db.put('a', '1')
  await db.close()
  const files = () => fs.readdirSync(db.location).sort()
  const before = files()
  assert(before.some((name) => name.endsWith('.log')))
  assert((await MinikvLevel.repair(db.location)).healthy)
  assert.deepStrictEqual(files(), before)
})

test('destroy', async (t) => {
  const db = await open(t)
  await db.put('a', '1')
  await assert.rejects(MinikvLevel.destroy(db.location), { code: 'LEVEL_LOCKED' })
  await db.close()
  await MinikvLevel.destroy(db.location)
  assert(!fs.existsSync(db.location))
  await MinikvLevel.destroy(db.location)
})

test('explain', async (t) => {
  const db = await open(t)
  await db.put('a', '1')
  const snapshot = db.snapshot()
  await db.put('a', '2')
  const now = await db.explain('a')
  assert(now.found)
  assert.strictEqual(now.steps[0].step, 'memtable')
  assert((await db.explain('a', { snapshot })).sequence < now.sequence)
  const bytes = await db.explain(Buffer.from([0xff]), { keyEncoding: 'buffer' })
  assert.deepStrictEqual(bytes.key, { base64: '/w==' })
  await snapshot.close()
  await assert.rejects(db.explain('a', { snapshot }), { code: 'LEVEL_SNAPSHOT_NOT_OPEN' })
  await assert.rejects(db.explain(null), { code: 'LEVEL_INVALID_KEY' })
})

test('stats and filterAdvice', async (t) => {
  const db = await open(t)
  await fill(db)
  await db.compactRange('a', 'z')
  const { gets, levels } = await db.stats()
  assert.strictEqual(levels.length, 7)
  for (let n = 0; n < 1000; n++) db.getSync('absent-' + n)
  assert.strictEqual((await db.stats()).gets, gets + 1000)
  assert((await db.filterAdvice()).gets >= 1000)
})

test('sync, resume and getProperty', async (t) => {
  const db = await open(t)
  const syncs = async () => (await db.stats()).wal_syncs
  const before = await syncs()
  await db.put('a', '1')
  assert.strictEqual(await syncs(), before)
  await db.sync()
  assert.strictEqual(await syncs(), before + 1)
  await db.put('b', '1', { sync: true })
  await db.batch([{ type: 'put', key: 'c', value: '1' }], { sync: true })
  await db.batch().del('c').write({ sync: true })
  await db.del('b', { sync: true })
  assert.strictEqual(await syncs(), before + 5)
  await db.resume()
  assert.strictEqual(db.getProperty('leveldb.num-files-at-level0'), '0')
  assert.strictEqual(db.getProperty('leveldb.unknown'), '')
})

test('methods of a database that is not open', async (t) => {
  const db = new MinikvLevel(place(t))
  // Calls wait while the database opens.
  await Promise.all([db.compactRange('a', 'z'), db.stats(), db.explain('a'), db.sync()])
  assert.strictEqual(await db.approximateSize('a', 'z'), 0)
  await db.close()
  for (const call of [
    () => db.approximateSize('a', 'z'), () => db.compactRange('a', 'z'), () => db.stats(),
    () => db.checkpoint(db.location + '-copy'), () => db.sync(), () => db.resume(),
    () => db.refresh(), () => db.explain('a'), () => db.filterAdvice()
  ]) {
    await assert.rejects(call, { code: 'LEVEL_DATABASE_NOT_OPEN' })
  }
  assert.throws(() => db.getProperty('leveldb.stats'), { code: 'LEVEL_DATABASE_NOT_OPEN' })
  assert.throws(() => db.getSync('a'), { code: 'LEVEL_DATABASE_NOT_OPEN' })
})
