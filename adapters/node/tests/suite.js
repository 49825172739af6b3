'use strict'

// Runs abstract-level's published tests: node suite.js minikv|classic-level

const fs = require('fs')
const os = require('os')
const path = require('path')
const suite = require('abstract-level/test')
const test = require('tape')

const classes = {
  minikv: () => require('..').MinikvLevel,
  'classic-level': () => require('classic-level').ClassicLevel
}

const Level = classes[process.argv[2]]()
const home = fs.mkdtempSync(path.join(os.tmpdir(), 'suite-'))
let count = 0

test.onFinish(() => fs.rmSync(home, { recursive: true }))

suite({
  test,
  factory: (options) => new Level(path.join(home, String(count++)), options)
})
