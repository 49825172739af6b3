'use strict'

// Makes calls of leveldown's interface where it differs from abstract-level's, and prints what they
// do, a line each: node leveldown-calls.js FOLDER
//
// The calls are those of what the folder FOLDER has installed as leveldown.

const fs = require('fs')
const os = require('os')
const path = require('path')
const { createRequire } = require('module')

const LevelDOWN = createRequire(path.resolve(process.argv[2], 'package.json'))('leveldown')

const home = fs.mkdtempSync(path.join(os.tmpdir(), 'calls-'))

// Returns a promise of what a call calls back.
function called (db, name, ...given) {
  return new Promise((resolve, reject) => {
    db[name](...given, (error, result) => error ? reject(error) : resolve(result))
  })
}

// Prints the result of a call, or the message of its error.
async function show (what, call) {
  let result
  try {
    result = await call()
  } catch (error) {
    result = `error: ${error.message.replaceAll(home, '')}`
  }
  console.log(`${what}: ${JSON.stringify(result)}`)
}

async function entriesOf (db, options) {
  const entries = []
  for await (const entry of db.iterator({ keyAsBuffer: false, valueAsBuffer: false, ...options })) {
    entries.push(entry.join('='))
  }
  return entries
}

const letters = ['a', 'b', 'c', 'd', 'e'].map((key) => ({ type: 'put', key, value: key }))
const empty = [['an empty string', ''], ['an empty buffer', Buffer.alloc(0)]]
const bounds = [...empty, ['b', 'b'], ['d', Buffer.from('d')], ['null', null]]

// Every pair of bounds, in both directions, by an iterator and by clear().
async function ranges (db) {
  const lower = [['', {}]]
  const upper = [['', {}]]
  for (const [text, bound] of bounds) {
    for (const name of ['gt', 'gte']) lower.push([`${name} ${text}`, { [name]: bound }])
    for (const name of ['lt', 'lte']) upper.push([`${name} ${text}`, { [name]: bound }])
  }
  lower.push(['gte empty, gt b', { gte: '', gt: 'b' }], ['gte b, gt empty', { gte: 'b', gt: '' }])
  upper.push(['lte empty, lt b', { lte: '', lt: 'b' }], ['lte b, lt empty', { lte: 'b', lt: '' }])
  for (const [from, above] of lower) {
    for (const [to, below] of upper) {
      for (const reverse of [false, true]) {
        const options = { ...above, ...below, reverse }
        const text = `${from} ${to} ${reverse ? 'reverse' : ''}`
        await show(`iterator ${text}`, () => entriesOf(db, options))
        await called(db, 'clear', { ...options, limit: 2 })
        await show(`left by clear ${text}`, () => entriesOf(db))
        await called(db, 'batch', letters)
      }
    }
  }
  for (const limit of [-1, 0, 1, 2.7, -3, 2 ** 32 + 1, Infinity, NaN]) {
    await show(`limit ${limit}`, () => entriesOf(db, { limit }))
    await called(db, 'clear', { limit })
    await show(`left by clear limit ${limit}`, () => entriesOf(db))
    await called(db, 'batch', letters)
  }
}

// What options and properties change nothing that is stored.
async function ignored (db) {
  const past = new Date(1000)
  const others = [
    { valueEncoding: 'json' }, { keyEncoding: 'hex' }, { ttl: 1 }, { expires: past },
    { sublevel: {} }, { valueEncoding: 'none' }, { prefix: 'x' }, { snapshot: {} }
  ]
  for (const other of others) {
    const text = Object.keys(other)[0]
    await show(`batch ${text}`, () => called(db, 'batch', [
      { type: 'put', key: 'ab', value: 'batch', ...other }, { type: 'del', key: 'b', ...other }
    ], { ...other }))
    await show(`chained ${text}`, () => {
      const batch = db.batch().put('cd', 'chained', { ...other }).del('d', { ...other })
      return called(batch, 'write', { ...other })
    })
    await show(`put ${text}`, () => called(db, 'put', 'ef', 'put', { ...other }))
    await show(`del ${text}`, () => called(db, 'del', 'e', { ...other }))
    await show(`get ${text}`, () => called(db, 'get', 'ab', { asBuffer: false, ...other }))
    await show(`getMany ${text}`, () => {
      return called(db, 'getMany', ['ab', 'zz'], { asBuffer: false, ...other })
    })
    await show(`entries ${text}`, () => entriesOf(db, other))
    await show(`clear ${text}`, () => called(db, 'clear', { ...other }))
    await show(`nothing ${text}`, () => entriesOf(db))
    await called(db, 'batch', letters)
  }
}

async function main () {
  const db = new LevelDOWN(path.join(home, 'db'))
  await show('close before open', () => called(db, 'close'))
  await show('status', () => db.status)
  await show('iterator before open', () => db.iterator())
  await show('open', () => called(db, 'open', {}))
  await called(db, 'batch', letters)
  await ranges(db)
  await ignored(db)
  await show('close', () => called(db, 'close'))
  await show('close again', () => called(db, 'close'))
  await show('iterator after close', () => db.iterator())
  await show('open again', () => called(db, 'open', {}))
  await show('entries', () => entriesOf(db))
  await called(db, 'close')

  const none = new LevelDOWN(path.join(home, 'none'))
  await called(none, 'open', { createIfMissing: false }).catch(() => {})
  await show('close after a failed open', () => called(none, 'close'))
  await show('status', () => none.status)
}

main().finally(() => fs.rmSync(home, { recursive: true }))
