//! Entries that expire.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime};

use minikv::{Db, Readable};
use minikv_support::rng::Rng;

use crate::world::{Checked, World};

pub const SESSIONS: &str = "sessions";

/// Time around the expiry in which an entry may be there or not.
const ABOUT: Duration = Duration::from_millis(300);

#[derive(Default)]
pub struct Sessions {
    /// The value of each entry, and when it expires.
    model: BTreeMap<usize, (Vec<u8>, SystemTime)>,
}

impl Sessions {
    pub fn run(&mut self, world: &World, db: &Db, seed: u64) -> Checked {
        let mut rng = Rng::new(seed);
        let sessions = db.expiring_keyspace(SESSIONS)?;
        let key = |number: usize| format!("session/{number:04}");
        while world.wait(Duration::from_millis(1)) {
            let (number, len) = (rng.below(2000), rng.below(200));
            let value = rng.bytes(len);
            let life = Duration::from_millis(rng.below(20_000) as u64);
            let until = SystemTime::now() + life;
            match rng.below(3) {
                0 => {
                    sessions.delete(key(number))?;
                    self.model.remove(&number);
                }
                1 => {
                    sessions.put_until(key(number), &value, until)?;
                    self.model.insert(number, (value, until));
                }
                _ => {
                    sessions.put_for(key(number), &value, life)?;
                    self.model.insert(number, (value, SystemTime::now() + life));
                }
            }
            world.writes.fetch_add(1, Relaxed);
            for _ in 0..3 {
                let number = rng.below(2000);
                let before = SystemTime::now();
                let found = sessions.get(key(number))?;
                let after = SystemTime::now();
                let expected = self.model.get(&number);
                let is_right = match (expected, &found) {
                    (None, found) => found.is_none(),
                    (Some((value, until)), Some(found)) => {
                        found == value && before < *until + ABOUT
                    }
                    (Some((_, until)), None) => after + ABOUT > *until,
                };
                if !is_right {
                    return Err(format!("{}: {found:?}, not {expected:?}", key(number)).into());
                }
                world.reads.fetch_add(1, Relaxed);
            }
        }
        Ok(())
    }
}
