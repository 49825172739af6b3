'use strict'

// Runs abstract-leveldown's published tests on what the folder FOLDER has installed as leveldown:
// node leveldown.js FOLDER

const fs = require('fs')
const os = require('os')
const path = require('path')
const { createRequire } = require('module')

const installed = createRequire(path.resolve(process.argv[2], 'package.json'))
const LevelDOWN = installed('leveldown')
const suite = installed('abstract-leveldown/test')
const test = require('tape')

const home = fs.mkdtempSync(path.join(os.tmpdir(), 'suite-'))
let count = 0

test.onFinish(() => fs.rmSync(home, { recursive: true }))

suite({
  test,
  factory: () => new LevelDOWN(path.join(home, String(count++))),
  clear: true,
  getMany: true
})
