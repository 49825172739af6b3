'use strict'

// Where the native module comes from, in a copy of the loader without a module beside it.

const assert = require('node:assert')
const fs = require('node:fs')
const os = require('node:os')
const path = require('node:path')
const { test } = require('node:test')

const LOADER = path.join(__dirname, '..', '..', 'lib', 'binding.js')

// Returns the loader's copy in a new folder.
function copy (t) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'minikv-binding-'))
  t.after(() => fs.rmSync(folder, { recursive: true }))
  fs.mkdirSync(path.join(folder, 'lib'))
  fs.copyFileSync(LOADER, path.join(folder, 'lib', 'binding.js'))
  return folder
}

// Puts a package that exports `text` beside the loader.
function install (folder, name, text) {
  const at = path.join(folder, 'node_modules', name)
  fs.mkdirSync(at, { recursive: true })
  fs.writeFileSync(path.join(at, 'index.js'), text)
}

test('without a module, the error names the package for this system', (t) => {
  const folder = copy(t)
  assert.throws(() => require(path.join(folder, 'lib', 'binding')), (error) => {
    const name = `minikv-${process.platform}-${process.arch}`
    return error.message.startsWith('minikv has no native module here') &&
      error.message.includes(name) && error.cause.code === 'MODULE_NOT_FOUND'
  })
})

test('the package for this system is used, and its own errors are shown', (t) => {
  const name = (() => {
    try {
      require(path.join(copy(t), 'lib', 'binding'))
    } catch (error) {
      return /minikv-[a-z0-9]+-[a-z0-9]+(-[a-z]+)?/.exec(error.cause.message)[0]
    }
  })()
  const good = copy(t)
  install(good, name, 'exports.marker = 7')
  const binding = require(path.join(good, 'lib', 'binding'))
  assert.strictEqual(binding.marker, 7)
  assert.strictEqual(binding.HAS_LOWER, 1)

  const bad = copy(t)
  install(bad, name, 'throw new Error("wrong ELF class")')
  assert.throws(() => require(path.join(bad, 'lib', 'binding')), { message: 'wrong ELF class' })
})
