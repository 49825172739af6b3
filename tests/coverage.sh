#!/usr/bin/env bash
# Counts the lines of code that no test runs, by room of src and by package, and lists them in
# target/coverage/missed.txt:
#
#   tests/coverage.sh
#
# Takes LLVM's tools from Debian, in the version that the compiler has. Only `cargo test` counts,
# without the packages under adapters/ and tests/, and without processes that are killed and
# examples in docs. Unit tests are no code here.
set -euo pipefail
cd "$(dirname "$0")/.."
exec </dev/null

llvm=$(rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
if ! command -v "llvm-cov-$llvm" >/dev/null; then
  as_root() { if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi; }
  as_root apt-get update -q
  as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -q -y --no-install-recommends "llvm-$llvm"
fi

out=$PWD/target/coverage
rm -rf "$out/raw"
export CARGO_TARGET_DIR=$out CARGO_INCREMENTAL=0 RUSTFLAGS='-C instrument-coverage'
export LLVM_PROFILE_FILE=$out/raw/%4m.profraw

# Slow binaries miss deadlines: a test that fails is named, and what it ran is counted.
cargo test --workspace --lib --bins --tests --no-fail-fast || echo 'some tests failed'
"llvm-profdata-$llvm" merge -sparse -failure-mode=all "$out"/raw/*.profraw -o "$out/all.profdata"

objects=()
while read -r binary; do objects+=(-object "$binary"); done < <(
  cargo test --workspace --lib --bins --tests --no-run --message-format json 2>/dev/null |
    sed -n 's/.*"executable":"\([^"]*\)".*/\1/p'
)
"llvm-cov-$llvm" export -format lcov -instr-profile "$out/all.profdata" "${objects[@]}" \
  -ignore-filename-regex '/\.cargo/|/rustc/|/target/' >"$out/all.lcov"

# A record of a file: SF:path, DA:line,count..., end_of_record.
awk -v root="$PWD/" -v missed="$out/missed.txt" '
  function room(path, parts) {
    split(path, parts, "/")
    return parts[1] == "src" ? parts[1] "/" parts[2] : parts[1]
  }
  # The first line of the unit tests of a file.
  function first_test(path, line, number, found) {
    while ((getline line < path) > 0 && !found) {
      number++
      if (previous ~ /^#\[cfg\(.*test.*\)\]/ && line ~ /^(pub )?(pub\(crate\) )?mod [a-z_]+ \{/) found = number
      previous = line
    }
    close(path)
    return found ? found : 1e9
  }
  /^SF:/ {
    path = substr($0, 4 + length(root))
    counts = index($0, root) == 4 && path ~ /^(src|instrument\/src|bin\/src)\// &&
      path !~ /(^|\/)(tests|testing|transcripts)(\/|\.rs$)/
    if (counts) end = first_test(path)
  }
  /^DA:/ && counts {
    split(substr($0, 4), line, ",")
    if (line[1] + 0 >= end) next
    lines[room(path)]++
    if (line[2] == 0) { none[room(path)]++; print path ":" line[1] > missed }
  }
  END {
    for (name in lines) {
      printf "%-22s %6d lines, %5d not run, %5.1f %%\n", name, lines[name], none[name],
        100 * (lines[name] - none[name]) / lines[name] | "sort"
      all += lines[name]; no += none[name]
    }
    close("sort")
    printf "%-22s %6d lines, %5d not run, %5.1f %%\n", "all", all, no, 100 * (all - no) / all
  }' "$out/all.lcov"
