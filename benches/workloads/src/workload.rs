//! The list of workloads. Each workload names the state of the database from which it starts, so
//! the workloads can run alone or in any order.

/// The state of a database when a workload starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Start {
    /// A new, empty database.
    Empty,
    /// All entries, immediately after they were put in random order. Background work may still be
    /// running.
    Filled,
    /// All entries, after background work has finished.
    Rested,
    /// All entries, after a full compaction.
    Compacted,
}

/// A group of workloads with the same data and options. The benchmark `peers` runs a group in one
/// process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Single puts in key order.
    Seq,
    /// Puts in random order, in batches of a hundred.
    Batch,
    /// Synced puts.
    Sync,
    /// Puts in random order, then reads, then workloads that change the entries.
    Random,
    /// Workloads with a block cache of 8 MiB.
    SmallCache,
    /// Workloads with 4 KiB values, and a twentieth of the number of entries.
    LargeValues,
    /// Workloads with a write buffer of 4 MiB.
    SmallBuffer,
    /// Bulk load.
    Load,
    /// Requests that are distributed like those of published traces. The group loads its own
    /// entries.
    Requests,
    /// Transactions, in a database opened for transactions.
    Transactions,
    /// Several keyspaces.
    Keyspaces,
    /// Backups.
    Backup,
    /// A database with a write buffer of 4 MiB, followed by a second handle.
    Follow,
    /// Compaction with a compaction filter.
    Filtered,
    /// Several databases that share a memory budget of 64 MiB, each with a write buffer of 8 MiB.
    Shared,
    /// Opening a database whose log is nearly full.
    Open,
}

impl Group {
    /// Returns whether the workloads of this group need a feature that some engines lack.
    pub fn is_optional(self) -> bool {
        match self {
            Group::Transactions
            | Group::Keyspaces
            | Group::Backup
            | Group::Follow
            | Group::Filtered
            | Group::Shared => true,
            Group::Seq
            | Group::Batch
            | Group::Sync
            | Group::Random
            | Group::SmallCache
            | Group::LargeValues
            | Group::SmallBuffer
            | Group::Load
            | Group::Requests
            | Group::Open => false,
        }
    }
}

/// One workload.
#[derive(Debug)]
pub struct Workload {
    /// Name of the workload, as typed on the command line.
    pub name: &'static str,
    /// A description, for help and tables.
    pub about: &'static str,
    /// Group to which the workload belongs.
    pub group: Group,
    /// The state of the database from which the workload starts.
    pub start: Start,
}

const fn workload(name: &'static str, group: Group, start: Start, about: &'static str) -> Workload {
    Workload { name, about, group, start }
}

/// All workloads, in an order in which little preparation is needed between them.
pub const WORKLOADS: &[Workload] = &[
    workload("fillseq", Group::Seq, Start::Empty, "put in the order of keys"),
    workload("fillbatch", Group::Batch, Start::Empty, "put in random order, 100 a batch"),
    workload("fillsync", Group::Sync, Start::Empty, "put in random order, each synced"),
    workload("fillsync8", Group::Sync, Start::Empty, "the same by 8 threads"),
    workload("sync", Group::Sync, Start::Empty, "100 puts, then one sync; then by 4 threads"),
    workload("fillrandom", Group::Random, Start::Empty, "put in random order"),
    workload("readrandom-filled", Group::Random, Start::Filled, "get, right after fillrandom"),
    workload("readrandom-rested", Group::Random, Start::Rested, "get, background at rest"),
    workload("compact", Group::Random, Start::Rested, "compact everything"),
    workload("readrandom", Group::Random, Start::Compacted, "get in random order, compacted"),
    workload("readmissing", Group::Random, Start::Compacted, "get missing keys"),
    workload("readhot", Group::Random, Start::Compacted, "get from 1 % of the entries"),
    workload("readthreads", Group::Random, Start::Compacted, "get by 2 threads"),
    workload("readseq", Group::Random, Start::Compacted, "scan everything forward, warm"),
    workload("readreverse", Group::Random, Start::Compacted, "scan everything backward"),
    workload("seekrandom", Group::Random, Start::Compacted, "seek and 10 next"),
    workload("scan100", Group::Random, Start::Compacted, "seek and 100 entries"),
    workload("ycsb-b", Group::Random, Start::Compacted, "95 % get, 5 % put, zipfian"),
    workload("ycsb-a", Group::Random, Start::Compacted, "half get, half put, zipfian"),
    workload("readwhilewriting", Group::Random, Start::Compacted, "one thread gets, one puts"),
    workload("overwrite", Group::Random, Start::Compacted, "put existing keys again"),
    workload("deleterandom", Group::Random, Start::Compacted, "delete in random order"),
    workload("deleterange", Group::Random, Start::Compacted, "delete nine tenths at once"),
    workload("readrandom-cache8m", Group::SmallCache, Start::Compacted, "8 MiB cache: get"),
    workload("readmissing-cache8m", Group::SmallCache, Start::Compacted, "the same, missing keys"),
    workload("fillrandom-4k", Group::LargeValues, Start::Empty, "4 KiB values: put"),
    workload("readrandom-4k", Group::LargeValues, Start::Compacted, "4 KiB values: get"),
    workload("fillrandom-buffer4m", Group::SmallBuffer, Start::Empty, "4 MiB write buffer: put"),
    workload("overwrite-compacting", Group::SmallBuffer, Start::Rested, "put beside compactions"),
    workload("loadsorted", Group::Load, Start::Empty, "bulk load in the order of keys"),
    workload("mixgraph", Group::Requests, Start::Empty, "get, put and scan as in RocksDB's model"),
    workload(
        "cachetrace",
        Group::Requests,
        Start::Empty,
        "get and put as in a cache, half missing",
    ),
    workload("transact", Group::Transactions, Start::Filled, "4 threads, transactions on 2 of 100"),
    workload("keyspaces", Group::Keyspaces, Start::Empty, "put, then get, in 16 keyspaces"),
    workload("backup", Group::Backup, Start::Compacted, "a backup, and one after 1 % more puts"),
    workload("follow", Group::Follow, Start::Rested, "a follower catches up with 1,000 puts"),
    workload("filtered", Group::Filtered, Start::Rested, "compact, a filter removes one half"),
    workload("shared", Group::Shared, Start::Empty, "put, then get, 4 databases in 64 MiB"),
    workload("open", Group::Open, Start::Empty, "open with a full log"),
];

/// Returns the workload named `name`.
pub fn find(name: &str) -> Option<&'static Workload> {
    WORKLOADS.iter().find(|workload| workload.name == name)
}
