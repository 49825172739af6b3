//! The model of a database: all commits in order, and the state after each.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::entries::settled;

pub type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

/// One operation of a commit: a key and its value, or `None` if the key is deleted.
pub type Op = (Vec<u8>, Option<Vec<u8>>);

/// A commit, and the numbers of the last filesystem operations before it began and before it
/// returned.
#[derive(Clone, Debug)]
pub struct Commit {
    pub ops: Vec<Op>,
    pub sync: bool,
    /// Number of the last operation before the commit began.
    pub begun: u64,
    /// Number of the last operation before the commit returned.
    pub acked: u64,
}

/// All commits of one run, none of which failed.
#[derive(Debug, Default)]
pub struct Model {
    pub commits: Vec<Commit>,
    /// Hashes of the states. `states[n]` is the hash of the state after `n` commits.
    states: Vec<u64>,
    /// Points in time at which all commits so far, even unsynced ones, were durable. Each point
    /// consists of the number of the last filesystem operation and the number of commits.
    barriers: Vec<(u64, usize)>,
    pub entries: Entries,
}

impl Model {
    pub fn new() -> Model {
        Model { states: vec![0], ..Model::default() }
    }

    pub fn push(&mut self, commit: Commit) {
        let mut state = self.states[self.commits.len()];
        for (key, value) in &commit.ops {
            if let Some(old) = self.entries.remove(key) {
                state ^= hash_entry(key, &old);
            }
            if let Some(value) = value {
                state ^= hash_entry(key, value);
                self.entries.insert(key.clone(), value.clone());
            }
        }
        self.commits.push(commit);
        self.states.push(state);
    }

    /// Records that all commits so far are durable once operation `number` is done.
    pub fn barrier(&mut self, number: u64) {
        self.barriers.push((number, self.commits.len()));
    }

    /// Returns the smallest number of commits that a crash right after operation `number` may
    /// leave. Without a loss of power, no acknowledged commit is lost.
    pub fn least(&self, number: u64, power_loss: bool) -> usize {
        let acked = |commit: &&Commit| commit.acked <= number && (commit.sync || !power_loss);
        let by_ack = self.commits.iter().rposition(|commit| acked(&commit)).map_or(0, |at| at + 1);
        let passed = self.barriers.iter().filter(|(at, _)| *at <= number);
        passed.map(|(_, count)| *count).max().unwrap_or(0).max(by_ack)
    }

    /// Returns the largest number of commits that a crash right after operation `number` may leave:
    /// the number of all commits that had begun. A commit that found nothing to write has no
    /// operation of its own, and had ended as soon as it began.
    pub fn most(&self, number: u64) -> usize {
        self.commits.partition_point(|commit| commit.begun < number || commit.acked <= number)
    }

    /// Returns the largest number of commits, from `least` to `most`, after which the hash of the
    /// entries was `state`.
    pub fn find(&self, state: u64, least: usize, most: usize) -> Option<usize> {
        (least..=most).rev().find(|&count| self.states[count] == state)
    }
}

/// Returns the hash of an entry with the value that [`settled`] returns, or 0 if it returns `None`.
fn hash_entry(key: &[u8], value: &[u8]) -> u64 {
    let Some(value) = settled(key, value) else { return 0 };
    let mut hasher = DefaultHasher::new();
    (key, value).hash(&mut hasher);
    hasher.finish()
}

/// Returns the hash of a state, as [`Model`] computes it. Entries that compactions may have removed
/// do not count.
pub fn hash_of(entries: &Entries) -> u64 {
    entries.iter().fold(0, |state, (key, value)| state ^ hash_entry(key, value))
}
