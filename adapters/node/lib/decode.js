'use strict'

const ModuleError = require('module-error')

// Decodes data, which has the format of the encoding. `what` is 'key' or 'value'.
function decode (encoding, data, what) {
  try {
    return encoding.decode(data)
  } catch (cause) {
    throw new ModuleError(`Could not decode ${what}`, { code: 'LEVEL_DECODE_ERROR', cause })
  }
}

// Decodes bytes, with an encoding of any format.
function decodeBytes (encoding, bytes, what) {
  return decode(encoding, encoding.format === 'utf8' ? bytes.toString() : bytes, what)
}

module.exports = { decode, decodeBytes }
