#!/usr/bin/env bash
# Counts the lines of code that no test runs, by room of src and by package, and lists them in
# target/coverage/missed.txt. Fails if tests/uncovered.txt gives no reason for the function of one:
#
#   tests/coverage.sh
#
# Takes LLVM's tools from Debian, in the version that the compiler has. Only `cargo test` counts,
# without the packages under adapters/ and tests/, and without examples in docs. Unit tests are no
# code here.
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
export CARGO_TARGET_DIR=$out CARGO_INCREMENTAL=0
# Counters are in the file itself, so that those of a killed process count, too.
export RUSTFLAGS='-C instrument-coverage -C llvm-args=-runtime-counter-relocation'
export LLVM_PROFILE_FILE=$out/raw/%m%c.profraw

cargo build -q --examples
# Slow binaries miss deadlines: a test that fails is named, and what it ran is counted.
cargo test --workspace --lib --bins --tests --no-fail-fast || echo 'some tests failed'
"llvm-profdata-$llvm" merge -sparse -failure-mode=all "$out"/raw/*.profraw -o "$out/all.profdata"

# One binary after the other: of several, llvm-cov takes a function's counters from the first that
# has it, where it may be unused.
cargo test --workspace --lib --bins --tests --no-run --message-format json 2>/dev/null |
  sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' |
  while read -r binary; do
    "llvm-cov-$llvm" export -format lcov -instr-profile "$out/all.profdata" -object "$binary" \
      -ignore-filename-regex '/\.cargo/|/rustc/|/target/' || echo "not counted: $binary" >&2
  done >"$out/all.lcov"

# A record of a file: SF:path, DA:line,count..., end_of_record. A missed line is listed with its
# function.
awk -v root="$PWD/" -v missed="$out/missed.txt" '
  function room(path, parts) {
    split(path, parts, "/")
    return parts[1] == "src" ? parts[1] "/" parts[2] : parts[1]
  }
  # Returns the first line of the unit tests of a file. Notes the function of each line before.
  function first_test(path, line, number, found, name) {
    while ((getline line < path) > 0 && !found) {
      number++
      if (line !~ /^ *\/\// && match(line, /(^|[ (])fn [a-z_0-9]+/)) {
        name = substr(line, RSTART, RLENGTH)
        sub(/.*fn /, "", name)
      }
      of[path, number] = name
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
    if (counts && !(path in ends)) ends[path] = first_test(path)
    end = ends[path]
  }
  /^DA:/ && counts {
    split(substr($0, 4), line, ",")
    if (line[1] + 0 >= end) next
    at = path ":" line[1]
    if (!(at in count)) { order[++all] = at; path_of[at] = path; function_of[at] = of[path, line[1]] }
    count[at] += line[2]
  }
  END {
    for (n = 1; n <= all; n++) {
      at = order[n]
      name = room(path_of[at])
      lines[name]++
      if (count[at] == 0) { none[name]++; print at, function_of[at] | ("sort -t: -k1,1 -k2,2n >" missed) }
    }
    all = 0
    for (name in lines) {
      printf "%-22s %6d lines, %5d not run, %5.1f %%\n", name, lines[name], none[name],
        100 * (lines[name] - none[name]) / lines[name] | "sort"
      all += lines[name]; no += none[name]
    }
    close("sort")
    printf "%-22s %6d lines, %5d not run, %5.1f %%\n", "all", all, no, 100 * (all - no) / all
  }' "$out/all.lcov"

# What is missed beside what is explained.
sed -n 's/^  \([a-z].*\)/\1/p' tests/uncovered.txt | awk '
  NR == FNR { for (i = 2; i <= NF; i++) explained[$1 " " $i] = 1; next }
  { sub(/:[0-9]+$/, "", $1) }
  ($1 " " $2) in explained { missed[$1 " " $2] = 1; next }
  !said[$1 " " $2]++ { print "not run and not explained: " $1 " " $2; failed = 1 }
  END {
    for (entry in explained) if (!(entry in missed)) print "explained, and run this time: " entry
    exit failed
  }' - "$out/missed.txt"
