//! Accounts in a keyspace. Transactions move between them, and change no sum.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use minikv::{Db, Readable, Snapshot};
use minikv_support::rng::Rng;

use crate::world::{Checked, World};

const NAME: &str = "accounts";
const ACCOUNTS: usize = 50;
const EACH: u64 = 1000;

fn key(account: usize) -> String {
    format!("account/{account:03}")
}

fn amount(value: &[u8]) -> u64 {
    u64::from_be_bytes(value.try_into().expect("eight bytes"))
}

/// Checks that a view shows all accounts and their sum, or none of them.
pub fn check(view: &Snapshot, what: &str) -> Checked {
    let accounts = view.keyspace(NAME)?;
    let (mut count, mut sum) = (0, 0);
    for entry in accounts.iter() {
        count += 1;
        sum += amount(&entry?.1);
    }
    match (count, sum) {
        (0, 0) => Ok(()),
        (ACCOUNTS, sum) if sum == EACH * ACCOUNTS as u64 => Ok(()),
        _ => Err(format!("{what}: {count} accounts with {sum}").into()),
    }
}

pub fn run(world: &World, db: &Db, seed: u64) -> Checked {
    let mut rng = Rng::new(seed);
    let accounts = db.keyspace(NAME)?;
    db.transact(|tx| {
        if tx.keyspace(&accounts).is_empty()? {
            for account in 0..ACCOUNTS {
                tx.put_in(&accounts, key(account), EACH.to_be_bytes());
            }
        }
        Ok(())
    })?;
    while world.wait(Duration::from_millis(1)) {
        let (from, to, part) = (rng.below(ACCOUNTS), rng.below(ACCOUNTS), rng.below(9) as u64 + 1);
        let moved = db.transact(|tx| {
            let has = |account| -> minikv::Result<u64> {
                Ok(tx.keyspace(&accounts).get(key(account))?.map_or(0, |value| amount(&value)))
            };
            let (source, target) = (has(from)?, has(to)?);
            let moved = source * part / 20;
            if from != to {
                tx.put_in(&accounts, key(from), (source - moved).to_be_bytes());
                tx.put_in(&accounts, key(to), (target + moved).to_be_bytes());
            }
            Ok(())
        });
        match moved {
            // Many attempts failed, for the others were faster.
            Err(error) if error.is_conflict() => {}
            moved => moved?,
        }
        world.writes.fetch_add(1, Relaxed);
        if rng.one_in(20) {
            check(&db.snapshot(), "a snapshot")?;
            world.reads.fetch_add(ACCOUNTS as u64, Relaxed);
        }
    }
    Ok(())
}
