'use strict'

// Options of databases: first classic-level's, with its names and defaults, then minikv's own.
const BOOLEANS = {
  createIfMissing: true,
  errorIfExists: false,
  readOnly: false,
  multithreading: false,
  compression: true
}

const LIMITED = {
  writeBufferSize: 4 << 20,
  blockSize: 4096,
  maxOpenFiles: 1000,
  blockRestartInterval: 16,
  maxFileSize: 2 << 20
}

const NUMBERS = {
  bloomFilterBits: 10,
  keepLogsBytes: 0,
  keepLogsFor: 0
}

const TEXTS = {
  filterLayout: ['block', 'table', 'both']
}

// Returns all options of `open`, from `given` or with their defaults. Other options are left out.
function openOptions (given) {
  const options = {}
  for (const name of Object.keys(BOOLEANS)) {
    options[name] = boolean(given, name, BOOLEANS[name])
  }
  options.cacheSize = uint32(given, 'cacheSize', 8 << 20)
  for (const name of Object.keys(LIMITED)) {
    // LevelDB compares these as 32 bits with a sign, so that -1 is below the minimum.
    const number = uint32(given, name, LIMITED[name])
    options[name] = given[name] < 0 ? Math.max(number | 0, 0) : number
  }
  for (const name of Object.keys(NUMBERS)) {
    options[name] = count(given, name, NUMBERS[name])
  }
  for (const name of Object.keys(TEXTS)) {
    const value = given[name] ?? TEXTS[name][0]
    if (!TEXTS[name].includes(value)) {
      const texts = TEXTS[name].map(text => `'${text}'`).join(', ')
      throw new TypeError(`The option '${name}' must be one of ${texts}`)
    }
    options[name] = value
  }
  return options
}

function boolean (given, name, byDefault) {
  const value = given[name] ?? byDefault
  if (typeof value !== 'boolean') {
    throw new TypeError(`The option '${name}' must be a boolean, received ${typeof value}`)
  }
  return value
}

function number (given, name, byDefault) {
  const value = given[name] ?? byDefault
  if (typeof value !== 'number') {
    throw new TypeError(`The option '${name}' must be a number, received ${typeof value}`)
  }
  return value
}

// Returns a numeric option of classic-level, which takes every number: fractions are dropped, and
// other numbers than integers from 0 on become 32 bits without a sign, so that Infinity and NaN are
// 0, and -1 is the maximum. Integers beyond 32 bits are taken as they are.
function uint32 (given, name, byDefault) {
  const value = Math.trunc(number(given, name, byDefault))
  return Number.isSafeInteger(value) && value >= 0 ? value : value >>> 0
}

// Returns a numeric option that classic-level does not have: an integer from 0 on.
function count (given, name, byDefault) {
  const value = number(given, name, byDefault)
  if (!Number.isSafeInteger(value) || value < 0) {
    throw new RangeError(`The option '${name}' must be an integer from 0 on, received ${value}`)
  }
  return value
}

module.exports = { openOptions, boolean, count, uint32 }
