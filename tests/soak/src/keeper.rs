//! The care of a database: flushes, compactions, copies and checks.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use minikv::backup::Backups;
use minikv::{Db, HealthState, Readable};
use minikv_support::rng::Rng;

use crate::views::check_view;
use crate::world::{Checked, World, check_sound};

/// Number of backups that are kept.
const BACKUPS: usize = 3;

/// Flushes, compacts and copies now and then.
pub fn keep(world: &World, db: &Db, seed: u64) -> Checked {
    let mut rng = Rng::new(seed);
    while world.wait(Duration::from_millis(100 + rng.below(1500) as u64)) {
        match rng.below(6) {
            0 => db.flush()?,
            1 => db.compact_range(..)?,
            2 => {
                let from = format!("entries/{:05}", rng.below(5000));
                db.compact_range(from..)?;
            }
            3 => {
                let (copy, least) = (world.home.join("checkpoint"), world.pairs.load(Relaxed));
                db.checkpoint(&copy)?;
                check_sound(&copy, &world.options())?;
                let opened = Db::open_read_only(&copy, world.options())?;
                check_view(world, &opened.snapshot(), least, "a checkpoint")?;
                drop(opened);
                std::fs::remove_dir_all(&copy)?;
                world.checkpoints.fetch_add(1, Relaxed);
            }
            4 => db.sync()?,
            _ => {
                let size = db.approximate_size(..)?;
                if size > 1 << 30 {
                    return Err(format!("{size} bytes of a few megabytes").into());
                }
                db.property("leveldb.stats").ok_or("no property")?;
            }
        }
        let health = db.health();
        if health.error.is_some() || !matches!(health.state, HealthState::Good) {
            return Err(format!("{health:?}").into());
        }
    }
    Ok(())
}

/// Makes backups, and restores some of them.
pub fn back_up(world: &World, db: &Db) -> Checked {
    let folder = world.home.join("backups");
    while world.wait(world.backup_time) {
        let least = world.pairs.load(Relaxed);
        db.backup(&folder)?;
        let backups = Backups::open(&folder, &world.options())?;
        backups.keep(BACKUPS)?;
        if world.backups.fetch_add(1, Relaxed) % 3 == 2 {
            let damage = backups.verify(|_| {})?;
            if !damage.is_empty() {
                return Err(format!("{damage:?}").into());
            }
            let copy = world.home.join("restored");
            backups.restore(None, &copy, |_| {})?;
            let restored = Db::open(&copy, world.options())?;
            check_view(world, &restored.snapshot(), least, "a backup")?;
            restored.close()?;
            std::fs::remove_dir_all(&copy)?;
            world.restored.fetch_add(1, Relaxed);
        }
    }
    Ok(())
}

/// Verifies the files beside those that write them.
pub fn verify(world: &World) -> Checked {
    while world.wait(world.verify_time) {
        check_sound(&world.dir, &world.options())?;
        world.verified.fetch_add(1, Relaxed);
    }
    Ok(())
}
