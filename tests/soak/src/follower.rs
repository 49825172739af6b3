//! Handles beside the writer's: one that follows it, and a database that is made of its changes.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use minikv::follow::Changes;
use minikv::{Bytes, Db, Error, Options, Readable, WriteBatch};

use crate::sessions::SESSIONS;
use crate::views::check_view;
use crate::world::{Checked, World, offer_number};

/// Time after which a follower is opened anew.
const LIFE: Duration = Duration::from_secs(30);

/// Follows the writer: whatever was acknowledged before a refresh is seen after it.
pub fn follow(world: &World) -> Checked {
    while !world.ends() {
        let reader = Db::open_read_only(&world.dir, world.options())?;
        let (opened, mut before) = (Instant::now(), 0);
        while opened.elapsed() < LIFE && world.wait(Duration::from_millis(15)) {
            let least = world.pairs.load(Relaxed);
            let sequence = reader.refresh()?.sequence;
            if sequence < before {
                return Err(format!("sequence number {sequence} after {before}").into());
            }
            before = sequence;
            check_view(world, &reader.snapshot(), least, "the follower")?;
            world.refreshes.fetch_add(1, Relaxed);
        }
    }
    Ok(())
}

/// A database that is made of a checkpoint and the changes since then.
pub struct Replica {
    db: Db,
    changes: Changes,
}

impl Replica {
    fn begin(world: &World, db: &Db) -> Checked<Replica> {
        let dir = world.home.join("replica");
        if dir.exists() {
            std::fs::remove_dir_all(&dir)?;
        }
        db.checkpoint(&dir)?;
        let replica = Db::open(&dir, Options::default())?;
        let changes = db.changes_since(replica.sequence())?;
        Ok(Replica { db: replica, changes })
    }

    /// Makes all changes up to now. Returns false if some are in no log, as those of tables that
    /// came or went at once.
    fn catch_up(&mut self, world: &World) -> Checked<bool> {
        for batch in &mut self.changes {
            match batch {
                Ok(batch) => self.db.write(WriteBatch::from_contents(batch.contents())?)?,
                Err(Error::ChangesLost { .. }) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
            world.replicated.fetch_add(1, Relaxed);
        }
        Ok(true)
    }

    /// Catches up with a database to which nobody writes any more, and checks that it has the same
    /// entries. Begins anew if it must.
    pub fn end(mut self, world: &World, db: &Db) -> Checked {
        if !self.catch_up(world)? {
            drop(self);
            self = Replica::begin(world, db)?;
        }
        check_view(world, &self.db.snapshot(), world.pairs.load(Relaxed), "the replica")?;
        compare(world, "", db, &self.db)?;
        for space in db.keyspaces()? {
            let name = space.name().escape_ascii().to_string();
            let copy = match space.is_expiring() {
                true => self.db.expiring_keyspace(space.name())?,
                false => self.db.keyspace(space.name())?,
            };
            compare(world, &name, &space, &copy)?;
        }
        Ok(self.db.close()?)
    }
}

/// Replicates until the end.
pub fn replicate(world: &World, db: &Db) -> Checked<Replica> {
    let mut replica = Replica::begin(world, db)?;
    while world.wait(Duration::from_millis(10)) {
        if !replica.catch_up(world)? {
            drop(replica);
            replica = Replica::begin(world, db)?;
        }
    }
    Ok(replica)
}

/// Checks that both have the same entries. Those that expire or that the compaction filter may
/// remove can be gone from the first one, which is read last.
fn compare(world: &World, name: &str, db: &impl Readable, replica: &impl Readable) -> Checked {
    // The keys of a keyspace are compared in it: there, nothing that has expired is shown.
    let is_own = |entry: &(Bytes, Bytes)| !name.is_empty() || !entry.0.starts_with(b"\xff");
    let copied: Vec<_> = replica.iter().collect::<Result<_, _>>()?;
    let mut copied = copied.into_iter().filter(is_own).peekable();
    let may_go = |key: &[u8]| {
        name == SESSIONS
            || offer_number(key).is_some_and(|number| number < world.floor.load(Relaxed))
    };
    for entry in db.iter() {
        let entry = entry?;
        if !is_own(&entry) {
            continue;
        }
        while copied.next_if(|copy| copy.0 < entry.0 && may_go(&copy.0)).is_some() {}
        let copy = copied.next();
        if copy.as_ref() != Some(&entry) {
            let key = |entry: &(Bytes, Bytes)| entry.0.escape_ascii().to_string();
            let (found, expected) = (copy.as_ref().map(key), key(&entry));
            return Err(format!("the replica has {found:?} and not {expected} in {name:?}").into());
        }
    }
    match copied.find(|copy| !may_go(&copy.0)) {
        None => Ok(()),
        Some(copy) => Err(format!("only the replica has {}", copy.0.escape_ascii()).into()),
    }
}
