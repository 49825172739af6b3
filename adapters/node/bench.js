'use strict'

// Measures minikv and classic-level alternately: node bench.js [entries] [rounds]
//
// Prints the median time of each operation with each library, in microseconds, and how many times
// faster minikv is.

const fs = require('fs')
const os = require('os')
const path = require('path')
const { ClassicLevel } = require('classic-level')
const { MinikvLevel } = require('.')
const { Random } = require('./tests/random')

const STORES = { 'classic-level': ClassicLevel, minikv: MinikvLevel }
const TOGETHER = 100
const VALUE_BYTES = 100

// Calls `work` with groups of `TOGETHER` keys, one group after the other, and returns the number of
// keys.
async function inGroups (keys, work) {
  for (let start = 0; start < keys.length; start += TOGETHER) {
    await work(keys.slice(start, start + TOGETHER))
  }
  return keys.length
}

async function count (iterator) {
  let entries = 0
  // eslint-disable-next-line no-unused-vars
  for await (const _ of iterator) entries++
  return entries
}

const MEASURED = {
  async batch ({ db, keys, value }) {
    return inGroups(keys, (some) => db.batch(some.map((key) => ({ type: 'put', key, value }))))
  },
  async put ({ db, keys, value }) {
    const some = keys.slice(0, keys.length / 5)
    for (const key of some) await db.put(key, value)
    return some.length
  },
  async put_together ({ db, keys, value }) {
    return inGroups(keys, (some) => Promise.all(some.map((key) => db.put(key, value))))
  },
  async get ({ db, keys }) {
    const some = keys.slice(0, keys.length / 5)
    for (const key of some) await db.get(key)
    return some.length
  },
  async get_together ({ db, keys }) {
    return inGroups(keys, (some) => Promise.all(some.map((key) => db.get(key))))
  },
  async get_sync ({ db, keys }) {
    for (const key of keys) db.getSync(key)
    return keys.length
  },
  async get_many ({ db, keys }) {
    return inGroups(keys, (some) => db.getMany(some))
  },
  async iterate ({ db }) {
    return count(db.iterator())
  },
  async iterate_back ({ db }) {
    return count(db.iterator({ reverse: true }))
  },
  async iterate_keys ({ db }) {
    return count(db.keys())
  },
  async iterate_buffers ({ db }) {
    return count(db.iterator({ keyEncoding: 'buffer', valueEncoding: 'buffer' }))
  },
  async nextv ({ db }) {
    const iterator = db.iterator()
    let entries = 0
    for (let some; (some = await iterator.nextv(1000)).length > 0;) entries += some.length
    await iterator.close()
    return entries
  },
  async ranges_of_ten ({ db, keys }) {
    const some = keys.slice(0, keys.length / 50)
    for (const gte of some) await db.iterator({ gte, limit: 10 }).all()
    return some.length
  }
}

async function measure (Level, entries, seed) {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'bench-'))
  const random = new Random(seed)
  const keys = Array.from({ length: entries }, () => String(random.below(1e9)).padStart(16, '0'))
  // Half of the value can be compressed.
  const value = random.bytes(VALUE_BYTES / 4).toString('hex') + '-'.repeat(VALUE_BYTES / 2)
  const db = new Level(path.join(directory, 'db'))
  await db.open()
  const times = {}
  for (const [name, work] of Object.entries(MEASURED)) {
    const start = process.hrtime.bigint()
    const done = await work({ db, keys, value })
    times[name] = Number(process.hrtime.bigint() - start) / 1e3 / done
    // Moves all entries into tables; this is not measured.
    if (name === 'put_together') await db.compactRange('0', ':')
  }
  await db.close()
  fs.rmSync(directory, { recursive: true })
  return times
}

function median (numbers) {
  const sorted = [...numbers].sort((a, b) => a - b)
  return (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2
}

async function main () {
  const entries = Number(process.argv[2] ?? 100_000)
  const rounds = Number(process.argv[3] ?? 5)
  const all = { 'classic-level': [], minikv: [] }
  for (let round = 0; round < rounds; round++) {
    // Each store comes first in every other round.
    const names = Object.keys(STORES)
    if (round % 2 === 1) names.reverse()
    for (const name of names) all[name].push(await measure(STORES[name], entries, round))
  }
  console.log(`${entries} entries, medians of ${rounds} rounds, µs per operation`)
  console.log(' '.repeat(16) + ' classic-level  minikv  faster')
  for (const what of Object.keys(MEASURED)) {
    const [theirs, ours] = Object.keys(STORES).map((name) => median(all[name].map((t) => t[what])))
    const cells = [theirs.toFixed(2).padStart(14), ours.toFixed(2).padStart(8)]
    console.log(what.padEnd(16) + cells.join('') + (theirs / ours).toFixed(2).padStart(8))
  }
}

main()
