//! Handles beside the writer's: one that follows it, and a database that is made of its changes.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use minikv::{Db, Error, Options, Readable, WriteBatch};

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

/// Makes another database of a checkpoint and the changes since then. In the end it has the same
/// entries.
pub fn replicate(world: &World, db: &Db) -> Checked {
    let dir = world.home.join("replica");
    loop {
        if dir.exists() {
            std::fs::remove_dir_all(&dir)?;
        }
        db.checkpoint(&dir)?;
        let replica = Db::open(&dir, Options::default())?;
        let mut changes = db.changes_since(replica.sequence())?;
        let lost = loop {
            match changes.next() {
                Some(Ok(batch)) => {
                    let batch = WriteBatch::from_contents(batch.contents())?;
                    replica.write(batch)?;
                    world.replicated.fetch_add(1, Relaxed);
                }
                // Tables that came or went at once are in no log: begin again.
                Some(Err(Error::ChangesLost { .. })) => break true,
                Some(Err(error)) => return Err(error.into()),
                None if !world.wait(Duration::from_millis(10)) => break false,
                None => {}
            }
        };
        if lost && world.wait(Duration::from_millis(100)) {
            continue;
        }
        // Other threads may still write for a moment, so the last numbers may differ. What the
        // replica shows must be a state that the database had.
        check_view(world, &replica.snapshot(), 0, "the replica")?;
        compare(db, &replica)?;
        return Ok(replica.close()?);
    }
}

/// Checks that each entry that is old in one is the same in the other.
fn compare(db: &Db, replica: &Db) -> Checked {
    let snapshot = db.snapshot();
    let mut count = 0_u64;
    for entry in replica.prefix("offer/")? {
        let (key, value) = entry?;
        count += 1;
        match snapshot.get(&key)? {
            Some(found) if found == value => {}
            // Removed by the filter, which the replica does not have.
            None if offer_number(&key).is_some() => {}
            found => return Err(format!("{}: {found:?} and {value:?}", key.escape_ascii()).into()),
        }
    }
    if count == 0 && snapshot.prefix("offer/")?.next().is_some() {
        return Err("the replica is empty".into());
    }
    Ok(())
}
