//! Handles for reads: the database, or a snapshot of it.

use minikv::{Db, Readable, Reader, Snapshot};

pub enum Handle {
    Db(Db),
    Snapshot(Snapshot),
}

impl Readable for Handle {
    fn reader(&self) -> Reader<'_> {
        match self {
            Handle::Db(db) => db.reader(),
            Handle::Snapshot(snapshot) => snapshot.reader(),
        }
    }
}
