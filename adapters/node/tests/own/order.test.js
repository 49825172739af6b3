'use strict'

const assert = require('assert')
const test = require('node:test')
const { NativeIterator } = require('../../lib/binding')
const { open, fill } = require('./support')

test('writes take effect in the order of their calls', async (t) => {
  const db = await open(t)
  for (let round = 0; round < 50; round++) {
    const calls = []
    for (let n = 0; n < 100; n++) {
      calls.push(db.put('a', String(n)))
      if (n % 7 === 0) calls.push(db.del('a'))
      if (n % 13 === 0) calls.push(db.batch().put('a', 'batch').write())
      if (n % 17 === 0) calls.push(db.clear())
    }
    calls.push(db.put('a', 'last'))
    await Promise.all(calls)
    assert.strictEqual(await db.get('a'), 'last')
    await Promise.all([db.put('b', '1'), db.clear(), db.put('c', '1')])
    assert.deepStrictEqual(await db.keys().all(), ['c'])
  }
})

test('a read shows the moment of its call', async (t) => {
  const db = await open(t)
  for (let n = 0; n < 200; n++) {
    await db.put('a', String(n))
    // There are more calls than threads, so that some gets have to wait.
    const before = Array.from({ length: 40 }, () => db.get('a'))
    const many = db.getMany(['a'])
    const iterator = db.values()
    const write = db.put('a', 'changed')
    const meanwhile = Array.from({ length: 40 }, () => db.get('a'))
    await write
    const after = Array.from({ length: 40 }, () => db.get('a'))
    for (const value of await Promise.all(before)) assert.strictEqual(value, String(n))
    for (const value of await Promise.all(meanwhile)) {
      assert(value === String(n) || value === 'changed')
    }
    for (const value of await Promise.all(after)) assert.strictEqual(value, 'changed')
    assert.deepStrictEqual(await many, [String(n)])
    assert.deepStrictEqual(await iterator.all(), [String(n)])
  }
})

test('many gets at once, with different options', async (t) => {
  const db = await open(t)
  await fill(db)
  const calls = []
  for (let n = 0; n < 2000; n++) {
    const key = 'key-' + String(n).padStart(5, '0')
    calls.push(n % 3 === 0 ? db.get(key, { valueEncoding: 'buffer' }) : db.get(key))
  }
  const values = await Promise.all(calls)
  values.forEach((value, n) => {
    if (n >= 1000) return assert.strictEqual(value, undefined)
    if (n % 3 === 0) assert(value instanceof Buffer)
    assert.strictEqual(value.toString(), 'value-' + n)
  })
})

test('many writes at once', async (t) => {
  const db = await open(t, { writeBufferSize: 64 << 10 })
  const large = 'x'.repeat(10_000)
  await Promise.all(Array.from({ length: 2000 }, (_, n) => {
    return n % 10 === 0 ? db.put(String(n), large) : db.put(String(n), String(n))
  }))
  for (let n = 0; n < 2000; n++) {
    assert.strictEqual(db.getSync(String(n)), n % 10 === 0 ? large : String(n))
  }
})

test('arguments may change as soon as a call has returned', async (t) => {
  const db = await open(t, { keyEncoding: 'buffer', valueEncoding: 'view' })
  const [key, value] = [Buffer.from('key-0'), new Uint8Array(8)]
  const calls = []
  for (let n = 0; n < 10; n++) {
    key[4] = 0x30 + n
    value.fill(n)
    calls.push(db.put(key, value))
  }
  const operation = { type: 'put', key, value }
  key[4] = 0x61
  calls.push(db.batch([operation]))
  const batch = db.batch().put(key, value).del(key)
  key.fill(0)
  value.fill(0xff)
  calls.push(batch.write())
  await Promise.all(calls)
  const found = await db.iterator().all()
  assert.deepStrictEqual(found.map(([key]) => key.toString()),
    Array.from({ length: 10 }, (_, n) => 'key-' + n))
  found.forEach(([, value], n) => assert.deepStrictEqual([...value], Array(8).fill(n)))

  const asked = Buffer.from('key-7')
  const gets = Array.from({ length: 20 }, () => db.get(asked))
  const iterator = db.iterator({ gte: asked })
  // The clear waits for the put.
  const cleared = Promise.all([db.put(Buffer.from('a'), value), db.clear({ gte: asked })])
  asked.fill(0)
  await db.getMany([Buffer.from('some other key')])
  for (const value of await Promise.all(gets)) assert.strictEqual(value[0], 7)
  await cleared
  assert.strictEqual((await iterator.all()).length, 3)
  assert.strictEqual((await db.keys().all()).length, 8)
})

test('views of other kinds, and large entries', async (t) => {
  const db = await open(t, { valueEncoding: 'view' })
  const words = new Uint16Array([1, 2, 3])
  await db.put('words', words)
  assert.deepStrictEqual([...await db.get('words')], [1, 0, 2, 0, 3, 0])
  await db.put('part', new DataView(words.buffer, 2, 2))
  assert.deepStrictEqual([...await db.get('part')], [2, 0])
  const large = Buffer.alloc(20 << 20, 'large')
  await db.batch([{ type: 'put', key: 'large', value: large }])
  assert(large.equals(await db.get('large')))
  assert(large.equals(db.getSync('large')))
  const text = 'ж'.repeat(1 << 20)
  await db.put(text, text, { valueEncoding: 'utf8' })
  assert.strictEqual(await db.get(text, { valueEncoding: 'utf8' }), text)
  const [[key, value]] = await db.iterator({ gte: 'ж', valueEncoding: 'utf8' }).all()
  assert(key === text && value === text)
})

test('what is read keeps only itself in memory', async (t) => {
  const db = await open(t, { valueEncoding: 'buffer' })
  await fill(db)
  const values = await db.values().all()
  // The values are slices of Node's buffer pool, not of the buffer with the whole read.
  for (const value of values) assert(value.buffer.byteLength <= Buffer.poolSize)
})

test('readings of an iterator', async (t) => {
  const db = await open(t)
  await fill(db, 5000)
  const all = await db.keys().all()
  assert.strictEqual(all.length, 5000)
  for (const highWaterMarkBytes of [0, 1, 1000, 1 << 20]) {
    const found = []
    for await (const key of db.keys({ highWaterMarkBytes })) found.push(key)
    assert.deepStrictEqual(found, all)
    const iterator = db.iterator({ highWaterMarkBytes })
    const some = await iterator.nextv(100)
    if (highWaterMarkBytes < 2) assert.strictEqual(some.length, 1)
    if (highWaterMarkBytes > 2000) assert.strictEqual(some.length, 100)
    assert.deepStrictEqual((await iterator.all()).length, 5000 - some.length)
  }
  const limited = db.keys({ limit: 100 })
  assert.strictEqual(await limited.next(), all[0])
  limited.seek(all[2000])
  assert.deepStrictEqual(await limited.all(), all.slice(2000, 2099))

  for (const size of [2 ** 32, Number.MAX_SAFE_INTEGER]) {
    const iterator = db.keys()
    assert.strictEqual((await iterator.nextv(size)).length, 5000)
    await iterator.close()
  }

  const iterator = db.keys({ gte: all[4000], lt: all[4500] })
  assert.strictEqual((await iterator.nextv(1000)).length, 500)
  assert.strictEqual(await iterator.next(), undefined)
  for (const [target, found] of [[4499, 4499], [4000, 4000], [4500, -1], [3999, -1], [4100, 4100]]) {
    iterator.seek(all[target])
    assert.strictEqual(await iterator.next(), all[found])
  }
  assert.deepStrictEqual(await iterator.nextv(2), all.slice(4101, 4103))
  await iterator.close()
})

test('an abort ends a reading that is under way', async (t) => {
  const db = await open(t)
  await fill(db, 200_000)
  const abort = t.mock.method(NativeIterator.prototype, 'abort')
  const controller = new AbortController()
  const iterator = db.iterator({ signal: controller.signal })
  const start = process.hrtime.bigint()
  const all = iterator.nextv(1_000_000, {})
  controller.abort()
  await assert.rejects(all, { code: 'LEVEL_ABORTED', name: 'AbortError' })
  assert(process.hrtime.bigint() - start < 1e9)
  assert.strictEqual(abort.mock.callCount(), 1)
  await assert.rejects(iterator.next(), { code: 'LEVEL_ABORTED' })
  await iterator.close()
})
