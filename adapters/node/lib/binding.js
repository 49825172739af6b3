'use strict'

const fs = require('fs')
const path = require('path')

// Returns the name of the package with the native module for this system and processor.
function packageName () {
  const name = `minikv-${process.platform}-${process.arch}`
  if (process.platform !== 'linux') return name
  // Only glibc tells its version.
  const isGnu = process.report.getReport().header.glibcVersionRuntime !== undefined
  return `${name}-${isGnu ? 'gnu' : 'musl'}`
}

// Returns the native module: the one that was built in this folder, else that of the package that
// npm installs beside this one (see ../../release).
function load () {
  const built = path.join(__dirname, '..', 'minikv.node')
  if (fs.existsSync(built)) return require(built)
  const name = packageName()
  try {
    return require(name)
  } catch (error) {
    if (error.code !== 'MODULE_NOT_FOUND') throw error
    throw new Error(`minikv has no native module here: there is neither ${built} nor the package ` +
      `${name}, which npm leaves out with --omit=optional and on other systems`, { cause: error })
  }
}

// Flags that say what a call reads and returns. src/database.rs has the same values.
const flags = {
  HAS_LOWER: 1,
  WITH_LOWER: 2,
  HAS_UPPER: 4,
  WITH_UPPER: 8,
  REVERSE: 16,
  KEYS: 32,
  VALUES: 64,
  FILL_CACHE: 128,
  AS_BUFFER: 256
}

module.exports = { ...load(), ...flags }
