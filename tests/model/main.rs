//! Compares every result of minikv with that of a `BTreeMap`, in long random runs.
//!
//! Each run prints its seed, and `MINIKV_SEED=N` repeats it. `MINIKV_OPS=N` is the number of
//! operations of each run.

mod copies;
mod crash;
mod cursors;
mod found;
mod home;
mod keys;
mod keyspaces;
mod large;
mod linear;
mod order;
mod reads;
mod removals;
mod run;
mod tables;
mod threads;
mod transactions;

use home::Home;
use keys::KeySpace;
use minikv::Compression;
use minikv::fs::sim::SimFs;
use minikv_support::comparators::{self, Order};
use minikv_support::rng;
use run::{Config, run};

fn operations(default: u64) -> u64 {
    match std::env::var("MINIKV_OPS") {
        Ok(text) => text.parse().expect("MINIKV_OPS is a number"),
        Err(_) => default,
    }
}

const PLAIN: Config = Config {
    name: "",
    keys: KeySpace::Prefixed,
    order: Order::Bytewise,
    bloom_bits: Some(10),
    compression: Compression::Snappy,
    reuse_logs: false,
    cache_bytes: 8 << 20,
    change_options: false,
};

/// Runs most operations in memory, because operations on a disk mostly wait for the disk.
fn check(config: Config) {
    let operations = operations(40_000);
    run(config.clone(), Home::in_memory(), rng::seed(), operations);
    run(config, Home::on_disk(), rng::seed(), operations / 8);
}

#[test]
fn few_keys_overwritten_again_and_again() {
    check(Config { name: "tiny", keys: KeySpace::Tiny, ..PLAIN });
}

#[test]
fn prefixed_keys() {
    check(Config { name: "prefixed", ..PLAIN });
}

#[test]
fn binary_keys_without_filter_or_compression() {
    let compression = Compression::None;
    check(Config {
        name: "binary",
        keys: KeySpace::Binary,
        bloom_bits: None,
        compression,
        ..PLAIN
    });
}

#[test]
fn logs_reused_and_no_cache() {
    let keys = KeySpace::Binary;
    check(Config { name: "reuse_logs", keys, reuse_logs: true, cache_bytes: 0, ..PLAIN });
}

#[test]
fn options_that_change_at_every_open() {
    check(Config { name: "changing", change_options: true, ..PLAIN });
}

#[test]
fn keys_in_reverse_order() {
    check(Config { name: "reverse", order: Order::Reverse, ..PLAIN });
}

#[test]
fn keys_in_alphabetical_order() {
    check(Config { name: "alphabetical", order: Order::Alphabetical, ..PLAIN });
}

#[test]
fn keys_that_are_equal_to_the_comparator_follow_the_model() {
    let keys = KeySpace::Binary;
    let order = Order::CaseBlind;
    check(Config { name: "case-blind", keys, order, bloom_bits: None, ..PLAIN });
}

/// Simulates a crash of the process or of the machine about every 150 operations.
#[test]
fn crashes_leave_a_prefix_of_the_history() {
    for reuse_logs in [false, true] {
        let seed = rng::seed();
        let config = Config { name: "crashes", reuse_logs, ..PLAIN };
        run(config, Home::simulated(SimFs::new(seed)), seed, operations(40_000));
    }
}

#[test]
fn many_keys_on_many_levels() {
    let config = Config { name: "wide", keys: KeySpace::Wide, ..PLAIN };
    let levels = run(config, Home::in_memory(), rng::seed(), operations(60_000));
    println!("levels with tables: {levels:?}");
    assert!(levels.iter().filter(|used| **used).count() >= 3, "{levels:?}");
}

#[test]
fn readers_see_whole_batches_while_tables_change() {
    let home = Home::on_disk();
    let options = home.options().write_buffer_bytes(64 << 10).max_file_bytes(8 << 10);
    threads::run(&home, options.block_bytes(256), rng::seed(), operations(10_000));
}

#[test]
fn cursors_both_ways_beside_a_writer_miss_and_tear_nothing() {
    cursors::run(&Home::in_memory(), rng::seed());
}

#[test]
fn histories_of_many_threads_are_linearizable() {
    let home = Home::in_memory();
    linear::run(home.dir(), home.options(), rng::seed(), operations(3_000));
}

#[test]
fn every_table_that_a_view_names_is_there() {
    tables::run(&Home::in_fast_files(), rng::seed(), operations(4_000));
}
