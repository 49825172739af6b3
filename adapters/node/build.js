'use strict'

// Builds the native module: node build.js [--if-missing]. npm runs it when the package is installed
// from this folder, and when it is packed. A package file contains the module, so installing it
// needs no toolchain.

const fs = require('fs')
const path = require('path')
const { spawnSync } = require('child_process')

const MODULE = path.join(__dirname, 'minikv.node')
const LIBRARY = {
  darwin: 'libminikv_node.dylib',
  win32: 'minikv_node.dll'
}[process.platform] ?? 'libminikv_node.so'

function fail (text) {
  console.error(`minikv: ${text}`)
  process.exit(1)
}

// Runs a program in this folder, and returns its standard output.
function run (program, ...parameters) {
  const ended = spawnSync(program, parameters, {
    cwd: __dirname, encoding: 'utf8', maxBuffer: Infinity, stdio: ['ignore', 'pipe', 'inherit']
  })
  if (ended.error?.code === 'ENOENT' && program === 'cargo') {
    fail('there is no cargo. Building the package needs a Rust toolchain, 1.88 or later (see ' +
      'https://rustup.rs). Without one, install a package file that was built on a machine of ' +
      'the same kind, by `npm pack` in ' + __dirname)
  }
  if (ended.error !== undefined) fail(`${program}: ${ended.error.message}`)
  if (ended.status !== 0) fail(`${program} ${parameters[0]} failed, see above`)
  return ended.stdout
}

// Installs the dependencies if npm does not: it only links to a folder that another package uses.
function addDependencies () {
  const { dependencies } = require('./package.json')
  const isThere = (name) => {
    try {
      return require.resolve(name, { paths: [__dirname] }) !== ''
    } catch {
      return false
    }
  }
  if (Object.keys(dependencies).every(isThere)) return
  run('npm', 'ci', '--omit=dev', '--ignore-scripts', '--no-audit', '--no-fund',
    '--global=false')
}

function build () {
  // Cargo says where the library is, which depends on its configuration.
  const messages = run('cargo', 'build', '--release', '--message-format', 'json-render-diagnostics')
  const files = messages.split('\n').filter((line) => line.startsWith('{')).flatMap((line) => {
    return JSON.parse(line).filenames ?? []
  })
  const built = files.find((file) => path.basename(file) === LIBRARY)
  if (built === undefined) fail(`cargo has built no ${LIBRARY}`)
  // A process that has loaded the old file keeps it.
  fs.copyFileSync(built, MODULE + '.new')
  fs.renameSync(MODULE + '.new', MODULE)
}

if (!process.argv.includes('--if-missing')) {
  build()
} else {
  if (!fs.existsSync(MODULE)) {
    if (!fs.existsSync(path.join(__dirname, 'Cargo.toml'))) {
      fail('the package was made without its native module; make it by `npm pack`')
    }
    build()
  }
  addDependencies()
}
