#!/usr/bin/env bash
# Runs unit tests of the library under Miri, the interpreter of Rust, which finds undefined
# behaviour, races of data, and, because its loads of atomics may return old values, orderings that
# are too weak:
#
#   tests/miri.sh
#
# MINIKV_MIRI_SEEDS is the number of schedules of each test with threads (default 1). Needs a
# nightly toolchain with Miri; without it, a note is printed and nothing is run:
#
#   rustup toolchain install nightly --profile minimal --component miri,rust-src
set -euo pipefail
cd "$(dirname "$0")/.."
exec </dev/null

if ! cargo +nightly miri --version >/dev/null 2>&1; then
  printf 'Miri is not installed, so it is skipped: rustup toolchain install nightly %s\n' \
    '--profile minimal --component miri,rust-src'
  exit
fi

seeds="${MINIKV_MIRI_SEEDS:-1}"
export CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=line-tables-only
out=target/miri/output.txt ran=0
mkdir -p target/miri

# Interpreted as a program for macOS, where waiting threads of parking_lot 0.12 call pthreads. Its call
# of Linux' futex passes a pointer to an atomic through C's variable arguments, which Miri refuses
# since September 2026.
target=aarch64-apple-darwin

# miri FLAGS FILTERS...: runs the tests that the filters name, of which there must be some.
miri() {
  local passed
  MIRIFLAGS="$1" cargo +nightly miri test -p minikv --lib --target "$target" \
    --target-dir target/miri -- "${@:2}" 2>&1 | tee "$out"
  passed=$(grep -aoE 'test result: ok\. [0-9]+ passed' "$out" | grep -oE '[0-9]+' | tail -n 1) || true
  if [ "${passed:-0}" = 0 ]; then
    printf 'no test is named so: %s\n' "${*:2}" >&2
    return 1
  fi
  ran=$((ran + passed))
}

# The library's only unsafe code maps files, which Miri cannot. So these are the tests with threads,
# and tests that use unsafe code of others.
miri "-Zmiri-many-seeds=0..$seeds" \
  engine::memtable::entries::tests::appended_entries \
  table::block_cache::tests::slots_may_go \
  table::block_cache::tests::threads_see \
  table::table_cache::tests::many_threads \
  table::table_cache::tests::threads_over
# Without the rules of aliasing: crossbeam-epoch breaks Stacked Borrows when it steps from an element
# of a list to the structure around it, and crossbeam-skiplist breaks Tree Borrows when it frees a
# node. Without leaks: crossbeam-epoch frees what it holds for all threads never, or later than the
# test ends. Races and orderings are checked.
miri "-Zmiri-disable-stacked-borrows -Zmiri-ignore-leaks -Zmiri-many-seeds=0..$seeds" \
  engine::memtable::ordered::tests \
  engine::memtable::tests::readers_and_cursors

printf '%s tests under Miri, with %s seeds, %s s: no failure\n' "$ran" "$seeds" "$SECONDS"
