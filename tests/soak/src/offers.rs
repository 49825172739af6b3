//! Entries that a compaction filter removes once they are old.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use minikv::Db;
use minikv_support::rng::Rng;

use crate::world::{Checked, World};

/// Number of offers that are not old.
const KEPT: u64 = 3000;

#[derive(Default)]
pub struct Offers {
    next: u64,
}

impl Offers {
    pub fn run(&mut self, world: &World, db: &Db, seed: u64) -> Checked {
        let mut rng = Rng::new(seed);
        let key = |number: u64| format!("offer/{number:012}");
        while world.wait(Duration::from_millis(1)) {
            db.put(key(self.next), self.next.to_be_bytes().repeat(10))?;
            self.next += 1;
            let floor = self.next.saturating_sub(KEPT);
            world.floor.store(floor, Relaxed);
            world.writes.fetch_add(1, Relaxed);
            let number = floor + rng.below((self.next - floor) as usize) as u64;
            let found = db.get(key(number))?;
            if found.as_deref() != Some(&number.to_be_bytes().repeat(10)[..]) {
                return Err(format!("{}: {found:?}", key(number)).into());
            }
            world.reads.fetch_add(1, Relaxed);
        }
        Ok(())
    }
}
