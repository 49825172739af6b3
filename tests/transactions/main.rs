//! Tests of transactions: the state that they read, the conflicts that they cause, and the writes
//! that they commit.

mod anomalies;
mod conflicts;
mod groups;
mod history;
mod keyspaces;
mod walks;

use minikv::{Bytes, Db, Error, Options, Result};
use minikv_support::{comparators, rng};
use tempfile::TempDir;

/// Returns options with which a small number of entries fills several tables.
fn small() -> Options {
    Options::default()
        .create_if_missing(true)
        .write_buffer_bytes(64 << 10)
        .max_file_bytes(16 << 10)
        .block_bytes(512)
}

/// A database in a directory of its own.
struct Home {
    db: Db,
    _dir: TempDir,
}

impl Home {
    fn new(options: Options) -> Home {
        let dir = tempfile::tempdir().unwrap();
        Home { db: Db::open(dir.path(), options).unwrap(), _dir: dir }
    }

    fn with<const N: usize>(entries: [(&str, &str); N]) -> Home {
        let home = Home::new(small());
        for (key, value) in entries {
            home.db.put(key, value).unwrap();
        }
        home
    }
}

impl std::ops::Deref for Home {
    type Target = Db;

    fn deref(&self) -> &Db {
        &self.db
    }
}

fn text(value: Option<Bytes>) -> String {
    value.map_or("none".to_owned(), |value| String::from_utf8(value.to_vec()).unwrap())
}

/// Checks that a commit failed because of a write of `key`.
#[track_caller]
fn assert_conflict(result: Result<()>, key: &str) {
    match result {
        Err(Error::Conflict { key: found, .. }) => assert_eq!(found, key),
        other => panic!("{other:?} is no conflict about {key}"),
    }
}
