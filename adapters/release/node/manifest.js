'use strict'

// Prints the package.json of a package that ../build makes: node manifest.js NAME. The one of
// ../../node is for programs that build the native module themselves.

const source = require('../../node/package.json')

const LIBC = { gnu: 'glibc', musl: 'musl' }
const PLATFORMS = [
  'linux-x64-gnu', 'linux-arm64-gnu', 'linux-x64-musl', 'linux-arm64-musl',
  'win32-x64', 'darwin-x64', 'darwin-arm64'
].map((platform) => `minikv-${platform}`)

const name = process.argv[2]
const { version, description, license, engines, main, types, dependencies } = source
let made
if (name === 'minikv') {
  // npm installs those of them whose `os`, `cpu` and `libc` fit, and no other.
  const optionalDependencies = Object.fromEntries(PLATFORMS.map((name) => [name, version]))
  made = { name, version, description, license, engines, main, types, dependencies,
    optionalDependencies }
} else if (PLATFORMS.includes(name)) {
  const [os, cpu, libc] = name.split('-').slice(1)
  made = {
    name,
    version,
    description: `The native module of minikv for ${name.slice('minikv-'.length)}`,
    license,
    engines,
    main: 'minikv.node',
    os: [os],
    cpu: [cpu],
    libc: libc && [LIBC[libc]]
  }
} else {
  console.error(`no such package: ${name}`)
  process.exit(2)
}
console.log(JSON.stringify(made, null, 2))
