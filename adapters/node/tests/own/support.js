'use strict'

const fs = require('fs')
const os = require('os')
const path = require('path')
const { spawn } = require('child_process')
const { MinikvLevel } = require('../..')

// The databases that a test opened and the directories that it created. After the test, they are
// closed and removed.
const leftovers = new WeakMap()

function leftoversOf (t) {
  if (!leftovers.has(t)) {
    const left = { databases: [], homes: [] }
    leftovers.set(t, left)
    t.after(async () => {
      for (const db of left.databases) await db.close()
      for (const home of left.homes) fs.rmSync(home, { recursive: true })
    })
  }
  return leftovers.get(t)
}

// Returns the path of a directory that does not exist yet.
function place (t) {
  const home = fs.mkdtempSync(path.join(os.tmpdir(), 'minikv-'))
  leftoversOf(t).homes.push(home)
  return path.join(home, 'db')
}

// Returns an open database.
async function open (t, options, location = place(t)) {
  const db = new MinikvLevel(location, options)
  leftoversOf(t).databases.push(db)
  await db.open()
  return db
}

async function fill (db, count = 1000) {
  const key = (n) => 'key-' + String(n).padStart(5, '0')
  const operations = Array.from({ length: count }, (_, n) => {
    return { type: 'put', key: key(n), value: 'value-' + n }
  })
  await db.batch(operations)
}

// Makes a database whose largest table is damaged.
async function damaged (t) {
  const location = place(t)
  const db = new MinikvLevel(location, { compression: false })
  await fill(db)
  await db.compactRange('a', 'z')
  await db.close()
  const tables = fs.readdirSync(location).filter((name) => name.endsWith('.ldb'))
  const paths = tables.map((name) => path.join(location, name))
  const largest = paths.reduce((a, b) => fs.statSync(a).size > fs.statSync(b).size ? a : b)
  const file = fs.openSync(largest, 'r+')
  fs.writeSync(file, Buffer.alloc(100, 0xaa), 0, 100, 8000)
  fs.closeSync(file)
  return location
}

// Runs `source` in a new process, with the variables `MinikvLevel` and `location`.
function start (source, location, ...flags) {
  const index = JSON.stringify(path.join(__dirname, '../..'))
  const head = `const { MinikvLevel } = require(${index}); const location = process.argv[1];`
  return spawn(process.execPath, [...flags, '-e', head + source, location], {
    stdio: ['ignore', 'inherit', 'pipe', 'ipc']
  })
}

// Returns a promise of how a process ends: its exit code, its signal, and its standard error.
function end (child) {
  let errors = ''
  child.stderr.on('data', (data) => { errors += data })
  return new Promise((resolve) => {
    child.on('close', (code, signal) => resolve({ code, signal, errors }))
  })
}

const calm = { code: 0, signal: null, errors: '' }

module.exports = { place, open, fill, damaged, start, end, calm }
