'use strict'

const assert = require('assert')
const path = require('path')
const test = require('node:test')
const { once } = require('events')
const { Worker } = require('worker_threads')
const { MinikvLevel } = require('../..')
const { place, open, fill, start, end, calm } = require('./support')

const NOT_OPEN = ['LEVEL_DATABASE_NOT_OPEN', 'LEVEL_ITERATOR_NOT_OPEN']

test('a close waits for the calls under way, and later ones fail', async (t) => {
  for (let round = 0; round < 20; round++) {
    const location = place(t)
    const db = new MinikvLevel(location, { writeBufferSize: 64 << 10 })
    await db.open()
    await fill(db, 5000)
    const puts = Array.from({ length: 500 }, (_, n) => db.put('put-' + n, '1', { sync: n === 9 }))
    const others = [
      db.compactRange('a', 'z'), db.verify(), db.stats(), db.approximateSize('a', 'z'),
      db.getMany(['key-00001']), db.has('key-00001'), db.clear({ lt: 'key-00001' }), db.sync(),
      db.checkpoint(location + '-copy'), db.batch().put('batch', '1').write()
    ]
    const gets = Array.from({ length: 500 }, () => db.get('key-00007'))
    const iterators = [db.iterator(), db.keys({ reverse: true }), db.values({ limit: 3000 })]
    const scans = iterators.map((iterator) => iterator.all())
    const users = db.keyspace('users')
    const left = db.transaction()
    left.put('never', '1')
    const committed = db.transaction()
    committed.put('committed', '1')
    const changes = db.changes()
    others.push(users.put('ann', '1'), left.get('key-00001'), committed.commit(), changes.next())
    const unclosed = db.iterator()
    await unclosed.next()
    const snapshot = db.snapshot()
    const batch = db.batch().put('never', '1')
    const closed = db.close()

    for (const call of [
      () => db.put('late', '1'), () => db.get('late'), () => db.del('late'), () => db.clear(),
      () => db.batch([{ type: 'del', key: 'late' }]), () => db.getMany(['late']),
      () => db.has('late'), () => db.stats(), () => unclosed.next(),
      async () => db.getSync('late'), async () => db.iterator(), async () => db.snapshot(),
      async () => db.batch()
    ]) {
      await assert.rejects(call, ({ code }) => NOT_OPEN.includes(code))
    }
    await Promise.all(puts)
    await Promise.all(others)
    for (const value of await Promise.all(gets)) assert.strictEqual(value, 'value-7')
    const lengths = (await Promise.all(scans)).map((scan) => scan.length)
    assert.strictEqual(lengths[2], 3000)
    await closed
    for (const resource of [unclosed, snapshot, batch, left, committed, changes, users, db]) {
      await resource.close()
    }

    await db.open()
    assert.strictEqual((await db.keys({ gte: 'put-', lt: 'put.' }).all()).length, 500)
    const found = await db.getMany(['batch', 'committed', 'never', 'late'])
    assert.deepStrictEqual(found, ['1', '1', undefined, undefined])
    await users.open()
    assert.strictEqual(await users.get('ann'), '1')
    await db.close()
  }
})

test('closes and opens without a pause', async (t) => {
  const db = await open(t)
  for (let n = 0; n < 50; n++) {
    const put = db.put('n', String(n))
    await Promise.all([db.close(), put])
    await db.open()
    assert.strictEqual(await db.get('n'), String(n))
  }
})

const work = `
  const db = new MinikvLevel(location, { writeBufferSize: 64 << 10 })
  db.open().then(async () => {
    for (let n = 0; n < 20; n++) {
      await db.batch(Array.from({ length: 100 }, (_, k) => {
        return { type: 'put', key: n + '-' + k, value: 'x'.repeat(100) }
      }))
    }
    const iterator = db.iterator()
    await iterator.next()
    const snapshot = db.snapshot()
    const batch = db.batch().put('never', '1')
    const users = db.keyspace('users')
    const transaction = db.transaction()
    transaction.put('0-never', '1', { keyspace: users })
    transaction.put('0-never', '1')
    const changes = db.changes(db.sequence - 1)
    const calls = Array.from({ length: 100 }, (_, n) => [
      db.put('put-' + n, '1'), db.get('1-1'), db.iterator().all(), users.put('put-' + n, '1'),
      transaction.get('1-1'), changes.next()
    ])
    globalThis.kept = [db, iterator, snapshot, batch, users, transaction, changes, calls]
    process.send?.('working')
    END
  })`

test('a process may end without a close', async (t) => {
  for (const [how, expected] of [
    ['process.disconnect()', calm],
    ['process.exit(0)', calm],
    ['process.exit(3)', { ...calm, code: 3 }],
    ['await Promise.all(calls.flat()); process.exit(0)', calm],
    ['process.reallyExit(0)', calm],
    ['process.kill(process.pid, "SIGKILL"); await new Promise(() => {})',
      { ...calm, code: null, signal: 'SIGKILL' }]
  ]) {
    for (let round = 0; round < 3; round++) {
      const location = place(t)
      assert.deepStrictEqual(await end(start(work.replace('END', how), location)), expected, how)
      const db = await open(t, { createIfMissing: false }, location)
      const numbered = await db.keys({ lt: 'a' }).all()
      assert.strictEqual(numbered.length, 2000, how)
    }
  }
})

test('an error that nobody catches ends a process as any other', async (t) => {
  const child = start(work.replace('END', "throw new Error('on purpose')"), place(t))
  const { code, signal, errors } = await end(child)
  assert.deepStrictEqual([code, signal], [1, null])
  assert.match(errors, /Error: on purpose/)
})

test('the garbage collector may take what was not closed', async (t) => {
  const child = start(`
    const collect = async () => {
      for (let n = 0; n < 5; n++) {
        globalThis.gc()
        await new Promise((resolve) => setImmediate(resolve))
      }
    }
    const use = async () => {
      const db = new MinikvLevel(location)
      await db.put('a', '1')
      for (let n = 0; n < 100; n++) {
        await db.iterator().next()
        db.snapshot()
        db.batch().put('b', '1')
        const transaction = db.transaction()
        transaction.put('b', '1', { keyspace: db.keyspace('users') })
        await transaction.get('a')
        await transaction.iterator().next()
        await db.changes().next()
      }
      await collect()
      return db
    }
    const main = async () => {
      let db = await use()
      await db.close()
      db = await use()
      if (await db.get('a') !== '1') throw new Error('lost')
      const collected = new Promise((resolve) => {
        globalThis.registry = new FinalizationRegistry(resolve)
        globalThis.registry.register(db)
      })
      db = null
      const wait = setInterval(() => globalThis.gc(), 10)
      await collected
      clearInterval(wait)
      // Nothing has closed the database, so a thread closes it after the garbage collection.
      for (;;) {
        const again = new MinikvLevel(location)
        try {
          await again.open()
          return again.close()
        } catch (error) {
          if (error.cause.code !== 'LEVEL_LOCKED') throw error
          await new Promise((resolve) => setTimeout(resolve, 10))
        }
      }
    }
    main().then(() => process.disconnect())`, place(t), '--expose-gc')
  assert.deepStrictEqual(await end(child), calm)
})

// Runs `source` in a worker thread, with the variables `MinikvLevel` and `location`.
function inWorker (source, location) {
  const head = `
    const { parentPort, workerData } = require('worker_threads')
    const { MinikvLevel } = require(workerData.index)
    const { location } = workerData
    const process = { send: (message) => parentPort.postMessage(message) };`
  const workerData = { index: path.join(__dirname, '../..'), location }
  return new Worker(head + source, { eval: true, workerData })
}

test('a worker may end, or be ended, without a close', async (t) => {
  for (const how of ['', 'await Promise.all(calls.flat())']) {
    for (const pause of [0, 1, 10, null]) {
      const location = place(t)
      const worker = inWorker(work.replace('END', how), location)
      if (pause === null) {
        await once(worker, 'exit')
      } else {
        await once(worker, 'message')
        await new Promise((resolve) => setTimeout(resolve, pause))
        await worker.terminate()
      }
      // The worker's database was closed when the worker ended.
      const db = await open(t, { createIfMissing: false }, location)
      assert.strictEqual((await db.keys({ lt: 'a' }).all()).length, 2000)
    }
  }
})

test('a worker may be ended while it opens and closes', async (t) => {
  for (let round = 0; round < 10; round++) {
    const location = place(t)
    const worker = inWorker(`
      const db = new MinikvLevel(location)
      const main = async () => {
        for (;;) {
          await db.open()
          process.send('open')
          await db.put('a', '1')
          await db.close()
        }
      }
      main()`, location)
    await once(worker, 'message')
    await new Promise((resolve) => setTimeout(resolve, round))
    await worker.terminate()
    const db = await open(t, {}, location)
    await db.put('a', '1')
  }
})

test('threads share a database with the option multithreading', async (t) => {
  const location = place(t)
  const db = await open(t, { multithreading: true }, location)
  await db.put('main', '1')
  const workers = Array.from({ length: 3 }, (_, id) => inWorker(`
    const db = new MinikvLevel(location, { multithreading: true })
    const main = async () => {
      if (await db.get('main') !== '1') throw new Error('not shared')
      for (let n = 0; n < 200; n++) await db.put('worker-${id}-' + n, '1')
      process.send('done')
      if (${id} !== 0) await db.close()
    }
    main()`, location))
  await Promise.all(workers.map((worker) => once(worker, 'message')))
  assert.strictEqual((await db.keys({ gte: 'worker' }).all()).length, 600)
  await Promise.all(workers.map((worker) => worker.terminate()))
  const unshared = new MinikvLevel(location)
  await assert.rejects(unshared.open(), ({ cause }) => cause.code === 'LEVEL_LOCKED')
  await db.put('main', '2')
  await db.close()
  const alone = await open(t, {}, location)
  assert.strictEqual((await alone.keys().all()).length, 601)
})

test('threads share only what is open for writing', async (t) => {
  const shared = { multithreading: true }
  const location = place(t)
  const writer = await open(t, shared, location)
  await writer.put('a', '1')
  const reader = await open(t, { ...shared, readOnly: true }, location)
  assert.strictEqual(await reader.get('a'), '1')
  await assert.rejects(reader.put('a', '2'), { code: 'LEVEL_READONLY' })
  await writer.close()
  const later = await open(t, shared, location)
  await later.put('a', '3')
  const other = await open(t, shared, location)
  assert.strictEqual(await other.get('a'), '3')
  assert.strictEqual(await reader.get('a'), '1')
  await reader.refresh()
  assert.strictEqual(await reader.get('a'), '3')
})

test('who opens a shared database waits until it is closed', async (t) => {
  const location = place(t)
  for (let n = 0; n < 300; n++) {
    const before = await open(t, { multithreading: true }, location)
    await before.put('round', `${n}`)
    const after = new MinikvLevel(location, { multithreading: true })
    const closing = before.close()
    // The rounds wait for different times, in steps of 20 microseconds: some open the database
    // during the close, others after it.
    const until = process.hrtime.bigint() + BigInt(n % 60) * 20_000n
    while (process.hrtime.bigint() < until) await new Promise((resolve) => setImmediate(resolve))
    await after.open()
    await closing
    assert.strictEqual(await after.get('round'), `${n}`)
    await after.close()
  }
})
