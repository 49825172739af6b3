//! Several clients that write to one database at a time, and what a loss of power may leave of
//! their commits: a prefix of their order, with every synced commit.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use minikv::{Db, Readable, WriteBatch};
use minikv_support::crash::model::Entries;
use minikv_support::crash::workload::Disk;
use minikv_support::rng::Rng;

/// Number of clients.
pub const CLIENTS: usize = 4;

/// Number of keys of a client.
const KEYS: usize = 40;

/// Clients that write until each has made some commits.
#[derive(Clone, Copy, Debug)]
pub struct Clients {
    pub seed: u64,
    /// Number of commits of each client.
    pub commits: usize,
    /// One of as many commits is synced.
    pub sync_one_in: usize,
}

/// An acknowledged commit. Its times are readings of a counter that all clients share.
#[derive(Clone, Copy, Debug)]
pub struct Commit {
    pub sync: bool,
    began: u64,
    ended: u64,
    /// Number of operations that the disk had done before the commit began.
    begun: u64,
    /// Number of operations that the disk had done when the commit was acknowledged.
    acked: u64,
    /// Time that the commit took.
    pub took: Duration,
}

/// The commits of each client.
pub type Commits = Vec<Vec<Commit>>;

fn counter(client: usize) -> Vec<u8> {
    format!("{client}/count").into_bytes()
}

impl Clients {
    /// Returns what a client's commit puts. The first is number 1.
    fn puts(&self, client: usize, number: usize) -> Entries {
        let mut rng = Rng::new(self.seed ^ ((client as u64) << 48) ^ ((number as u64) << 16));
        let mut puts = Entries::from([(counter(client), number.to_string().into_bytes())]);
        for _ in 0..1 + rng.below(3) {
            let key = format!("{client}/key{:02}", rng.below(KEYS)).into_bytes();
            let length = if rng.one_in(8) { rng.below(900) } else { rng.below(90) };
            puts.insert(key, [&number.to_le_bytes()[..], &rng.bytes(length)].concat());
        }
        puts
    }

    fn state(&self, client: usize, count: usize) -> Entries {
        (1..=count).flat_map(|number| self.puts(client, number)).collect()
    }

    /// Runs the clients, each in a thread of its own. Returns their commits.
    ///
    /// # Errors
    /// A write or a read that failed, or a read that returned something else than was written.
    pub fn run(&self, db: &Db, disk: &(impl Disk + Sync)) -> Result<Commits, String> {
        let clock = AtomicU64::new(0);
        thread::scope(|scope| {
            let start = |client| {
                let clock = &clock;
                scope.spawn(move || self.run_one(db, disk, client, clock))
            };
            let threads: Vec<_> = (0..CLIENTS).map(start).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        })
    }

    fn run_one(
        &self,
        db: &Db,
        disk: &impl Disk,
        client: usize,
        clock: &AtomicU64,
    ) -> Result<Vec<Commit>, String> {
        let mut rng = Rng::new(self.seed + client as u64);
        let (mut state, mut commits) = (Entries::new(), Vec::new());
        for number in 1..=self.commits {
            let sync = rng.one_in(self.sync_one_in);
            let (puts, mut batch) = (self.puts(client, number), WriteBatch::new());
            puts.iter().for_each(|(key, value)| batch.put(key, value));
            let (begun, start) = (disk.op_count(), Instant::now());
            let began = clock.fetch_add(1, SeqCst);
            let options = minikv::WriteOptions::default().sync(sync);
            db.writing(options).write(batch).map_err(|error| format!("put {number}: {error}"))?;
            let (ended, took) = (clock.fetch_add(1, SeqCst), start.elapsed());
            let acked = disk.op_count();
            commits.push(Commit { sync, began, ended, begun, acked, took });
            state.extend(puts);
            if rng.one_in(6) {
                read(db, client, &state)?;
            }
        }
        Ok(commits)
    }

    /// Checks what a loss of power after operation `number` of the disk left. Returns the numbers
    /// of acknowledged commits that are missing and of unsynced ones that are there.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(
        &self,
        entries: &Entries,
        commits: &Commits,
        number: u64,
    ) -> Result<(usize, usize), String> {
        let mut counts = Vec::new();
        let mut expected = Entries::new();
        let (mut lost, mut kept) = (0, 0);
        for (client, commits) in commits.iter().enumerate() {
            let count = entries
                .get(&counter(client))
                .map_or("0".into(), |value| String::from_utf8_lossy(value).into_owned());
            let count: usize = count.parse().map_err(|_| format!("{client} counts {count}"))?;
            let is_least = |commit: &Commit| commit.sync && commit.acked <= number;
            let least = commits.iter().rposition(is_least).map_or(0, |at| at + 1);
            let most = commits.partition_point(|commit| commit.begun < number);
            if !(least..=most.max(least)).contains(&count) {
                return Err(format!("{count} commits of {client}, not {least} to {most}"));
            }
            lost += commits.partition_point(|commit| commit.acked <= number).saturating_sub(count);
            kept += count - least;
            expected.extend(self.state(client, count));
            counts.push(count);
        }
        if *entries != expected {
            return Err(format!("not the entries after {counts:?} commits"));
        }
        let last = commits.iter().zip(&counts).filter_map(|(all, count)| all[..*count].last());
        let began = last.map(|commit| commit.began).max().unwrap_or(0);
        for (client, (all, count)) in commits.iter().zip(&counts).enumerate() {
            if all.get(*count).is_some_and(|missing| missing.ended < began) {
                return Err(format!(
                    "{counts:?} commits: one of {client} is missing from the middle"
                ));
            }
        }
        Ok((lost, kept))
    }
}

/// Checks that a client finds all that it wrote.
fn read(db: &Db, client: usize, state: &Entries) -> Result<(), String> {
    let (from, to) = (format!("{client}/"), format!("{client}0"));
    let mut found = BTreeMap::new();
    for entry in db.range(from.as_bytes()..to.as_bytes()) {
        let (key, value) = entry.map_err(|error| format!("iterating: {error}"))?;
        let got = db.get(&key).map_err(|error| format!("get: {error}"))?;
        if got.as_ref() != Some(&value) {
            return Err(format!("get and iteration differ about {}", key.escape_ascii()));
        }
        found.insert(key.to_vec(), value.to_vec());
    }
    match found == *state {
        true => Ok(()),
        false => Err(format!("client {client} finds other entries than it wrote")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use minikv::fs::sim::SimFs;

    fn entries(db: &Db) -> Entries {
        db.iter().map(Result::unwrap).map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
    }

    /// A run on a simulated disk, and all entries after it.
    fn finished() -> (Clients, Commits, Entries, u64) {
        let clients = Clients { seed: 7, commits: 60, sync_one_in: 5 };
        let fs = SimFs::new(7);
        let options = minikv::Options::default().create_if_missing(true).fs(fs.clone());
        let db = Db::open("/db", options.write_buffer_bytes(3000)).unwrap();
        let commits = clients.run(&db, &fs).unwrap();
        (clients, commits, entries(&db), fs.op_count())
    }

    #[test]
    fn all_commits_of_all_clients_are_a_state_after_them() {
        let (clients, commits, entries, number) = finished();
        assert_eq!(clients.check(&entries, &commits, number).unwrap().0, 0);
    }

    #[test]
    fn a_missing_synced_commit_a_hole_and_half_a_commit_are_noticed() {
        let (clients, mut commits, entries, number) = finished();
        let without = |client: usize, count: usize| {
            let mut left = entries.clone();
            left.retain(|key, _| !key.starts_with(format!("{client}/").as_bytes()));
            left.extend(clients.state(client, count));
            left
        };
        let error = clients.check(&without(2, 20), &commits, number).unwrap_err();
        assert!(error.contains("20 commits of 2, not "), "{error}");
        commits[2].iter_mut().for_each(|commit| commit.sync = false);
        let error = clients.check(&without(2, 20), &commits, number).unwrap_err();
        assert!(error.contains("one of 2 is missing from the middle"), "{error}");
        let mut half = entries.clone();
        let key = clients.puts(1, 60).into_keys().find(|key| *key != counter(1)).unwrap();
        half.remove(&key);
        let error = clients.check(&half, &commits, number).unwrap_err();
        assert!(error.contains("not the entries"), "{error}");
    }
}
