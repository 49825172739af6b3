//! Runs the same work on minikv, LevelDB, RocksDB, fjall and redb in the same run.
//!
//! Each group of workloads runs with each engine in a separate child process of the same program,
//! so that peak memory and bytes written are measured for each engine separately. Repetitions are
//! interleaved: every engine runs once before any engine runs again. `README.md` says how to run
//! the benchmark and which options the engines get.

mod amplification;
mod args;
mod by_size;
mod chart;
mod child;
mod colors;
mod engines;
#[cfg(feature = "fjall")]
mod fjall_store;
mod leveldb;
mod parent;
#[cfg(feature = "redb")]
mod redb_store;
mod report;
mod results;
#[cfg(feature = "rocksdb")]
mod rocksdb_store;
mod steady;
mod task;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let args = args::Args::parse();
    let done = match &args.child {
        Some(child) => child::run(&args, child),
        None if args.amplification => amplification::run(&args),
        None if args.steady.is_some() => steady::run(&args),
        None if !args.by_size.is_empty() => by_size::run(&args.by_size, &args.out),
        None => parent::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
