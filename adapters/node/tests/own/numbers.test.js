'use strict'

// classic-level takes every number for its numeric options. Each value here is given to both
// packages, which must then do the same.

const assert = require('assert')
const fs = require('fs')
const path = require('path')
const test = require('node:test')
const { ClassicLevel } = require('classic-level')
const { MinikvLevel } = require('../..')
const { place, fill } = require('./support')

const NUMBERS = [
  0, -0, 1, 1.5, 15.9, -1, -1.5, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1, -(2 ** 31), -(2 ** 40),
  NaN, Infinity, -Infinity, 1e300
]

const CLASSES = [ClassicLevel, MinikvLevel]

// Returns the names of the tables of a database that are compacted, with their sizes.
async function tablesWith (Level, location, options) {
  const db = new Level(location, { compression: false, ...options })
  await db.open()
  await fill(db, 2500)
  assert.strictEqual(await db.get('key-00001'), 'value-1')
  await db.compactRange('a', 'z')
  await db.close()
  const files = fs.readdirSync(location).filter((name) => name.endsWith('.ldb'))
  return files.map((name) => fs.statSync(path.join(location, name)).size)
}

test('numbers of open make the same tables as in classic-level', async (t) => {
  const names = [
    'cacheSize', 'writeBufferSize', 'blockSize', 'maxOpenFiles', 'blockRestartInterval',
    'maxFileSize'
  ]
  const home = place(t)
  fs.mkdirSync(home)
  const sizes = new Set()
  for (const name of names) {
    for (const [at, number] of NUMBERS.entries()) {
      // In LevelDB the sizes that it limits wrap around below 0, so that it takes the minimum.
      if (name !== 'cacheSize' && number >= 2 ** 31 && number < 2 ** 32) continue
      // For such a size LevelDB multiplies in 32 bits, and makes one table for each entry.
      if (name === 'maxFileSize' && number === 2 ** 31 - 1) continue
      // An interval below 1 ends the process with classic-level.
      if (name === 'blockRestartInterval' && !(number >= 1 && number < 2 ** 31)) continue
      const tables = []
      for (const Level of CLASSES) {
        const location = path.join(home, `${name}-${at}-${Level.name}`)
        tables.push(await tablesWith(Level, location, { [name]: number }))
        fs.rmSync(location, { recursive: true })
      }
      assert.deepStrictEqual(tables[1], tables[0], `${name}: ${number}`)
      sizes.add(String(tables[0]))
    }
  }
  // The options have an effect: not all tables are of one size.
  assert(sizes.size > 3, [...sizes].join(' '))
})

test('highWaterMarkBytes ends reads where it does in classic-level', async (t) => {
  const databases = CLASSES.map((Level) => new Level(place(t)))
  for (const db of databases) await fill(db, 100)
  for (const number of NUMBERS) {
    const lengths = []
    for (const db of databases) {
      for (const kind of ['iterator', 'keys', 'values']) {
        const iterator = db[kind]({ highWaterMarkBytes: number })
        const first = await iterator.nextv(50)
        const second = await iterator.nextv(50)
        await iterator.close()
        const all = await db[kind]({ highWaterMarkBytes: number }).all()
        lengths.push([kind, first.length, second.length, all.length])
      }
    }
    assert.deepStrictEqual(lengths.slice(3), lengths.slice(0, 3), String(number))
  }
  for (const db of databases) await db.close()
})

test('limits and sizes of reads are those of classic-level', async (t) => {
  const databases = CLASSES.map((Level) => new Level(place(t)))
  for (const db of databases) await fill(db, 100)
  // classic-level keeps the lowest 32 bits of a limit, so that 2 ** 32 entries are none.
  const limits = NUMBERS.filter((number) => !(number >= 2 ** 31 && number < Infinity))
  for (const number of [...limits, -2, 99, 100, 101]) {
    const results = []
    for (const db of databases) {
      const limited = await db.keys({ limit: number }).all()
      const iterator = db.keys()
      // classic-level reserves memory for the entries.
      const size = Number.isInteger(number) && number < 1000 ? number : 7
      const read = await iterator.nextv(size)
      await iterator.close()
      await db.clear({ limit: number, gte: 'key-00050' })
      const left = await db.keys().all()
      await fill(db, 100)
      results.push([limited, read, left].map((keys) => [keys.length, keys.at(-1)]))
    }
    assert.deepStrictEqual(results[1], results[0], String(number))
  }
  for (const db of databases) await db.close()
})

test('cached is the number of entries that were read ahead', async (t) => {
  const db = new MinikvLevel(place(t))
  await fill(db, 100)
  for (const kind of ['iterator', 'keys', 'values']) {
    const iterator = db[kind]()
    assert.strictEqual(iterator.cached, 0)
    for (let read = 1; read <= 16; read++) {
      await iterator.next()
      assert.strictEqual(iterator.cached, 16 - read)
    }
    await iterator.next()
    assert.strictEqual(iterator.cached, 83)
    assert.strictEqual((await iterator.nextv(3)).length, 3)
    assert.strictEqual(iterator.cached, 80)
    iterator.seek('key-00098')
    assert.strictEqual(iterator.cached, 0)
    await iterator.next()
    assert.strictEqual(iterator.cached, 1)
    await iterator.close()
    assert.strictEqual(iterator.cached, 0)
  }
  await db.close()
})
