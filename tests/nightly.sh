#!/usr/bin/env bash
# Runs all long searches for violations in one command, and prints a table of their results:
#
#   tests/nightly.sh          all of it: hours, on two fast cores that do nothing else
#   tests/nightly.sh 2        half the attempts of what has no end; what ends by itself is whole
#   tests/nightly.sh 50       a fiftieth of it, to see that it works
#
# MINIKV_SEED is the first seed; if it is not set, the number of the day is used. MINIKV_JOBS
# searches run at a time, one per core unless it is set. The output of all searches, with the
# commands that replay failures, is in target/nightly. With MINIKV_EVIDENCE=write, the table of a
# run without failures goes into docs/evidence.md.
set -uo pipefail
cd "$(dirname "$0")/.."
scale="${1:-1}"
out=target/nightly
mkdir -p "$out"
export MINIKV_SEED="${MINIKV_SEED:-$(($(date +%s) / 86400))}"
jobs="${MINIKV_JOBS:-$(nproc)}"
# With all assertions, but a quarter more attempts in the same time than at the level of the tests.
export CARGO_PROFILE_DEV_OPT_LEVEL=3

long=$((scale <= 2)) # whether the searches that end by themselves are whole
names=() running=0

# search NAME PATTERN COMMAND...: runs the command; the last line of output that matches is its
# result.
search() {
  local name="$1" pattern="$2" began=$SECONDS line=
  shift 2
  if "$@" >"$out/$name.txt" 2>&1 </dev/null; then
    line=$(grep -aE "$pattern" "$out/$name.txt" | tail -n 1 | sed -E -e 's/[;,]? ?(from )?seed [0-9]+//' \
      -e 's/, MINIKV_SEED=[0-9]+//' -e 's/; 0 failed.*//' -e 's/^\.*(test result: )?//' \
      -e 's/; \{.*\}$//' -e 's/, \{.*\}//' -e 's/(: 0 violations); .* lost commits.*/\1/' \
      -e 's/(,| in) [0-9.]+ ?s$//')
  fi
  printf '%-16s %6s s  %s\n' "$name" "$((SECONDS - began))" \
    "${line:-FAILED: see $out/$name.txt}" | tee "$out/$name.row"
}

# row NAME PATTERN COMMAND...: the same in the background, as soon as there is a core for it.
row() {
  if [ "$running" -ge "$jobs" ]; then
    wait -n
    running=$((running - 1))
  fi
  names+=("$1")
  rm -f "$out/$1.row"
  printf '== %s: %s\n' "$1" "${*:3}"
  search "$@" &
  running=$((running + 1))
}

crash=(cargo test -q -p minikv --test crash -- --nocapture)
MINIKV_CRASH_IMAGES=$((1500000 / scale)) row crashes 'crash images' "${crash[@]}" sweep_of_crash_points
MINIKV_CRASH_FAULTS=$((600000 / scale)) row faults 'faults .*violations' "${crash[@]}" sweep_of_faults
MINIKV_CRASH_WINDOWS=$((300000 / scale)) row windows 'images, at one' "${crash[@]}" windows::crashes
MINIKV_KILLS=$((1500 / scale)) row kills 'kills of a process' "${crash[@]}" a_killed_process
MINIKV_ALLOCATIONS=$((1000000 / scale / scale)) row allocations 'allocations failed' \
  cargo test -q -p minikv --test allocation -- --nocapture
MINIKV_OUTSIDE=$((400 / scale)) row outside 'beside .* all right' "${crash[@]}" outside
MINIKV_KILLED_ROUNDS=$((300 / scale)) row continued 'killed logs continued' \
  cargo test -q --manifest-path tests/interop/Cargo.toml --test killed -- --nocapture
MINIKV_CRASH_STRIDE=$scale row others 'finds a prefix' \
  cargo test -q --manifest-path tests/interop/Cargo.toml --test crashes -- --nocapture
MINIKV_KERNEL_IMAGES=$((10000 / scale)) row kernel 'losses of power at' \
  cargo test -q --manifest-path tests/kernel/Cargo.toml -- --nocapture
MINIKV_FLIPS=$((10000 / scale)) MINIKV_FLIPS_ENGINES=minikv,leveldb row flips '^minikv compact' \
  cargo test -q --manifest-path tests/flips/Cargo.toml -- --nocapture
MINIKV_PROTOCOL_LONG=$long row protocol 'states explored' \
  cargo test -q --manifest-path tests/protocol/Cargo.toml --test exploration -- --nocapture every_order
MINIKV_PROTOCOL_LONG=$long row node 'states explored' \
  cargo test -q --manifest-path tests/protocol/Cargo.toml --test raft -- --nocapture every_order
MINIKV_TRACES=$((4000 / scale)) row traces 'are allowed' \
  cargo test -q --manifest-path tests/protocol/Cargo.toml --test traces -- --nocapture every_trace
row soak 'nothing wrong' \
  cargo run -q --manifest-path tests/soak/Cargo.toml -- $((3600 / scale))
row full 'a full filesystem|skipped' "${crash[@]}" a_really_full
MINIKV_SWEEP_STRIDE=$scale row damage 'no wrong answer' \
  cargo test -q -p minikv --test damage -- --nocapture a_changed_byte
MINIKV_OPS=$((250000 / scale)) row model 'test result' \
  cargo test -q -p minikv --test model -- --nocapture histories readers_see keys crashes
MINIKV_CURSOR_SECONDS=$((120 / scale > 0 ? 120 / scale : 1)) row cursors 'nothing missing' \
  cargo test -q -p minikv --test model -- --nocapture cursors_both_ways
MINIKV_OPS=$((60000 / scale)) row tables 'test result' \
  cargo test -q -p minikv --test model -- --nocapture every_table
MINIKV_EXHAUSTIVE=$long row exhaustive 'test result' \
  cargo test -q -p minikv --test exhaustive -- --nocapture
RUSTFLAGS="--cfg shuttle" MINIKV_SCHEDULES=$((20000 / scale)) row schedules 'schedules of' \
  cargo test -q -p minikv --test shuttle --target-dir target/shuttle -- --nocapture
RUSTFLAGS="--cfg minikv_loom" LOOM_MAX_PREEMPTIONS=$((long ? 3 : 2)) row loom 'tidy.*executions' \
  cargo test -q -p minikv --lib --target-dir target/loom -- --nocapture weak_orders
MINIKV_MIRI_SEEDS=$((8 / scale > 0 ? 8 / scale : 1)) row miri 'under Miri|skipped' tests/miri.sh
MINIKV_PAGES=1 row pages 'test result' cargo test -q -p minikv-cli --test pages
flips=$((2000 / scale > 60 ? 2000 / scale : 60))
MINIKV_RAFT_LINKS=1 MINIKV_RAFT_FLIPS=$flips MINIKV_RAFT_TRACES=$((400 / scale)) \
  MINIKV_RAFT_SECONDS=7200 MINIKV_RAFT_SEEDS=0..$((100 / scale > 0 ? 100 / scale : 1)) row replication 'tests of replication' \
  adapters/raft/test
mutants=''
# A short run tries only one of the mutants.
[ "$long" = 0 ] && mutants='the log is not synced'
MINIKV_MUTANT=$mutants row mutants 'mutants caught' \
  cargo test -q -p minikv --test mutants -- --ignored --nocapture

[ "$long" = 0 ] || row wine '^all of them' tests/windows
# Counts the lines that no test runs; fails if the reason of one is not known.
[ "$long" = 0 ] || row coverage '^all ' tests/coverage.sh

seconds=$((60 / scale > 0 ? 60 / scale : 1))
if cargo +nightly fuzz --version >/dev/null 2>&1; then
  for target in log edit block table batch directory operations repair indexed_db; do
    # New inputs are kept apart from the corpus.
    mkdir -p "$out/corpus/$target"
    row "fuzz-$target" 'number_of_executed_units' \
      cargo +nightly fuzz run --features libfuzzer -s none "$target" \
      "$out/corpus/$target" "fuzz/corpus/$target" -- \
      -max_total_time="$seconds" -rss_limit_mb=512 -timeout=10 -print_final_stats=1
  done
else
  MINIKV_FUZZ_SECONDS=$seconds row fuzz 'result: ok. [1-9]' \
    cargo test -q --manifest-path fuzz/Cargo.toml -- --nocapture
fi

wait
failed=0
{
  printf '%s, seed %s, scale %s, %s minutes\n' "$(git log -1 --format='commit %h of %cs')" \
    "$MINIKV_SEED" "$scale" "$((SECONDS / 60))"
  for name in "${names[@]}"; do cat "$out/$name.row"; done
} >"$out/table"
printf '\n'
cat "$out/table"
for name in "${names[@]}"; do
  if ! [ -e "$out/$name.row" ] || grep -q ' s  FAILED' "$out/$name.row"; then failed=1; fi
done
if [ "$failed" = 0 ] && [ "${MINIKV_EVIDENCE:-}" = write ]; then
  sed -i -e '/^```text nightly$/,/^```$/{//!d}' \
    -e '/^```text nightly$/r '"$out/table" docs/evidence.md
fi
exit "$failed"
