//! Makes small mistakes (mutants) in minikv's code, one at a time, and counts the mutants that
//! minikv's tests catch.
//!
//! The program writes a copy of the source in which each drawn mutant is a branch. The branch is
//! taken if an environment variable holds the number of the mutant: `a < b` becomes `if mutated(7)
//! { a <= b } else { a < b }`. The tests therefore have to be built only once for all mutants. They
//! are run once without a mutant, to find out which tests reach which branches. Then, for each
//! mutant, the tests that reach it are run until one fails.
//!
//! cargo-mutants can draw such shards, too (`--sharding round-robin --shard K/N`), but builds the
//! library and its tests for each mutant: over three minutes of one core, or more than six hours of
//! two cores for 250 mutants before a test has run.

mod copy;
mod judge;
mod rewrite;
mod substitutes;

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use judge::Verdict;
use rewrite::Mutant;

const USAGE: &str = "\
usage: cargo run --release --manifest-path tests/mutation/Cargo.toml -- [OPTION]...

  --seed N     draws other mutants (default: 1)
  --shard N    number of mutants to draw (default: 250)
  --only TEXT  draws among the mutants whose line in the list contains the text
  --seconds N  gives a mutant up when tests of so many seconds passed (default: 60)
  --from FILE  draws among the mutants that are lines of the file, such as the survivors of an
               earlier run; line numbers may differ
  --jobs N     number of mutants to judge at once (default: the number of cores)
  --list       prints the drawn mutants and ends";

struct Arguments {
    seed: u64,
    shard: usize,
    only: String,
    from: Option<String>,
    jobs: usize,
    seconds: f64,
    list: bool,
}

impl Arguments {
    /// Returns `None` if an argument is not described by the usage text.
    fn parse(mut words: impl Iterator<Item = String>) -> Option<Arguments> {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let only = String::new();
        let mut arguments = Arguments {
            seed: 1,
            shard: 250,
            only,
            from: None,
            jobs: cores,
            seconds: 60.0,
            list: false,
        };
        while let Some(word) = words.next() {
            match word.as_str() {
                "--seed" => arguments.seed = words.next()?.parse().ok()?,
                "--shard" => arguments.shard = words.next()?.parse().ok()?,
                "--only" => arguments.only = words.next()?,
                "--from" => arguments.from = Some(words.next()?),
                "--jobs" => arguments.jobs = words.next()?.parse().ok()?,
                "--seconds" => arguments.seconds = words.next()?.parse().ok()?,
                "--list" => arguments.list = true,
                _ => return None,
            }
        }
        Some(arguments)
    }
}

/// Returns a number that looks random: the output function of SplitMix64.
fn mixed(number: u64) -> u64 {
    let z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Returns `text` without the line number, which follows the first colon and ends before two
/// spaces.
fn without_line_number(text: &str) -> String {
    match (text.split_once(':'), text.split_once("  ")) {
        (Some((file, _)), Some((_, rest))) => format!("{file}  {rest}"),
        _ => text.to_string(),
    }
}

/// Returns the mutants selected by the arguments. The same code and seed give the same mutants.
fn draw(mut mutants: Vec<Mutant>, arguments: &Arguments) -> Vec<Mutant> {
    mutants.retain(|mutant| mutant.to_string().contains(&arguments.only));
    if let Some(file) = &arguments.from {
        let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{file}: {error}"));
        let lines: HashSet<String> = text.lines().map(without_line_number).collect();
        mutants.retain(|mutant| lines.contains(&without_line_number(&mutant.to_string())));
    }
    mutants.sort_by_key(|mutant| mixed(mixed(arguments.seed) ^ u64::from(mutant.id)));
    mutants.truncate(arguments.shard);
    mutants.sort_by_key(|mutant| mutant.id);
    mutants
}

fn main() -> ExitCode {
    let Some(arguments) = Arguments::parse(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = package.ancestors().nth(2).expect("tests/mutation is in the repository");
    let copy = copy::Copy::new(root, &package.join("target/copy"));
    let all = copy.mutants();
    let of = all.len();
    let drawn = draw(all, &arguments);
    println!("{} mutants of {of}, seed {}", drawn.len(), arguments.seed);
    if arguments.list {
        drawn.iter().for_each(|mutant| println!("{mutant}"));
        return ExitCode::SUCCESS;
    }
    let viable = copy.write_viable(drawn);
    println!("{} compile", viable.len());
    let tests = judge::measure(copy.root(), &copy.build(), arguments.jobs);
    let verdicts = judge::judge(copy.root(), &tests, viable, (arguments.jobs, arguments.seconds));
    report(&verdicts);
    ExitCode::SUCCESS
}

fn report(verdicts: &[(Mutant, Verdict)]) {
    let survivors = verdicts.iter().filter(|(_, verdict)| *verdict == Verdict::Survived);
    println!("\nsurvivors:");
    for (mutant, _) in survivors.clone() {
        println!("{mutant}");
    }
    let (all, caught) = (verdicts.len(), verdicts.len() - survivors.count());
    println!("\n{caught} of {all} caught: {:.1} %", 100.0 * caught as f64 / all.max(1) as f64);
}
