'use strict'

// Options of databases: first classic-level's, with its names and defaults, then minikv's own.
const BOOLEANS = {
  createIfMissing: true,
  errorIfExists: false,
  readOnly: false,
  multithreading: false,
  compression: true
}

const NUMBERS = {
  cacheSize: 8 << 20,
  writeBufferSize: 4 << 20,
  blockSize: 4096,
  maxOpenFiles: 1000,
  blockRestartInterval: 16,
  maxFileSize: 2 << 20,
  bloomFilterBits: 10
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
  for (const name of Object.keys(NUMBERS)) {
    options[name] = number(given, name, NUMBERS[name])
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
  if (!Number.isSafeInteger(value) || value < 0) {
    throw new RangeError(`The option '${name}' must be an integer from 0 on, received ${value}`)
  }
  return value
}

module.exports = { openOptions, boolean, number }
