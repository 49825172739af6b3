#!/usr/bin/env bash
# Puts small mistakes into the code, one at a time, and counts how many the quick tests catch:
#
#   tests/mutation.sh              40 mutants, drawn with the seed 1
#   tests/mutation.sh SEED COUNT
#
# Needs cargo-mutants (`cargo install cargo-mutants --locked`), GNU sort, and a minute or two for
# each mutant: a build of the library, a run of its unit tests and of the tests `golden` and
# `engine`, given up after two minutes. The mutants are drawn from all mutants that cargo-mutants
# makes of the folders below; for the same code, the same seed draws the same mutants. The work is
# done in a copy of the source. The outcome of each mutant is in target/mutation/mutants.out.
set -euo pipefail
cd "$(dirname "$0")/.."
seed="${1:-1}"
count="${2:-40}"

if ! cargo mutants --version >/dev/null 2>&1; then
  echo "needs cargo-mutants: cargo install cargo-mutants --locked" >&2
  exit 2
fi

# `Debug` output and code that only tests use are left out.
of=(--package minikv --features zstd --exclude '**/*test*.rs' --exclude '**/transcripts.rs')
of+=(--exclude-re 'Debug for')
for folder in format log filter table block engine; do
  of+=(--file "src/$folder/**/*.rs")
done

# Prints names in the order of a hash of the seed and the name.
drawn() {
  cargo mutants --list "${of[@]}" | sed "s/^/$seed /" |
    LC_ALL=C sort --random-sort --random-source=/dev/zero | head -n "$count" |
    sed -e "s/^$seed //" -e 's/[][\.*^$+?(){}|]/\\&/g'
}
only=()
while read -r name; do
  only+=(--re "^$name\$")
done < <(drawn)
echo "${#only[@]} mutants, seed $seed"

# Unoptimised, because most of the time goes into builds.
export CARGO_PROFILE_DEV_OPT_LEVEL=0 CARGO_PROFILE_DEV_DEBUG=0
mkdir -p target/mutation
exec cargo mutants "${of[@]}" "${only[@]}" --output target/mutation --jobs 1 --timeout 120 \
  --cargo-arg=--lib --cargo-arg=--test=golden --cargo-arg=--test=engine
