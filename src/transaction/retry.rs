//! Running a transaction until it does not conflict.

use std::any::Any;
use std::time::Duration;

use bytes::Bytes;

use crate::base::random::Rng;
use crate::base::sync::thread;
use crate::base::{Error, Result};
use crate::transaction::Transaction;

/// Upper bound of the first back-off, in microseconds. Each further conflict doubles the bound. A
/// higher bound gives the conflicting writers more time to finish, and delays transactions that
/// conflict only by chance.
const FIRST_PAUSE_MICROS: u64 = 20;

/// Largest upper bound of a back-off, in microseconds. A higher bound causes fewer conflicts on a
/// contended key, and delays each transaction more.
const MAX_PAUSE_MICROS: u64 = 10_000;

/// Runs `work` in transactions that `begin` returns, until one commits. Returns the value that
/// `work` returned in that transaction.
///
/// # Errors
/// Errors of `work` and of the commit, other than conflicts.
pub(crate) fn transact<T, E: From<Error> + 'static>(
    begin: impl Fn() -> Transaction,
    mut work: impl FnMut(&mut Transaction) -> Result<T, E>,
) -> Result<T, E> {
    let mut pauses = None;
    loop {
        let mut transaction = begin();
        match work(&mut transaction) {
            Err(error) if is_conflict(&error) => {}
            Err(error) => return Err(error),
            Ok(value) => match transaction.commit() {
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(error.into()),
                Ok(()) => return Ok(value),
            },
        }
        pauses.get_or_insert_with(Pauses::new).pause();
    }
}

/// Returns whether an error is a conflict, or a box of one.
fn is_conflict<E: 'static>(error: &E) -> bool {
    let error: &dyn Any = error;
    let own = error.downcast_ref::<Error>();
    let boxed = || error.downcast_ref::<Box<dyn std::error::Error>>()?.downcast_ref();
    let shared =
        || error.downcast_ref::<Box<dyn std::error::Error + Send + Sync>>()?.downcast_ref();
    own.or_else(boxed).or_else(shared).is_some_and(Error::is_conflict)
}

/// Replaces the value of `key` with the result of `change`. Returns the new value.
///
/// # Errors
/// As [`transact`].
pub(crate) fn update<E: From<Error> + 'static>(
    begin: impl Fn() -> Transaction,
    key: &[u8],
    mut change: impl FnMut(Option<&[u8]>) -> Result<Option<Bytes>, E>,
) -> Result<Option<Bytes>, E> {
    transact(begin, |transaction| {
        let old = transaction.reader().point().get(key)?;
        let new = change(old.as_deref())?;
        if old.is_some() || new.is_some() {
            transaction.write(key, new.clone());
        }
        Ok(new)
    })
}

/// The back-off between the attempts at a transaction. It is random, so that two transactions that
/// conflicted are unlikely to conflict again, and it grows with each conflict.
struct Pauses {
    rng: Rng,
    limit_micros: u64,
}

impl Pauses {
    fn new() -> Pauses {
        // The address of the stack differs from thread to thread, so it serves as a seed.
        let here = 0u8;
        let seed = std::ptr::from_ref(&here).addr() as u64;
        Pauses { rng: Rng::new(seed), limit_micros: FIRST_PAUSE_MICROS }
    }

    fn next(&mut self) -> Duration {
        let pause = Duration::from_micros(self.rng.below(self.limit_micros));
        self.limit_micros = (2 * self.limit_micros).min(MAX_PAUSE_MICROS);
        pause
    }

    fn pause(&mut self) {
        thread::sleep(self.next());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conflict_is_found_in_a_box() {
        let conflict = || Error::Conflict { key: Bytes::new(), keyspace: None };
        assert!(is_conflict(&conflict()) && !is_conflict(&Error::Closed));
        assert!(is_conflict::<Box<dyn std::error::Error>>(&conflict().into()));
        assert!(is_conflict::<Box<dyn std::error::Error + Send + Sync>>(&conflict().into()));
        assert!(!is_conflict::<Box<dyn std::error::Error>>(&Error::Closed.into()));
        assert!(!is_conflict(&"conflict"));
    }

    #[test]
    fn pauses_grow_up_to_a_limit_and_differ() {
        let mut pauses = Pauses::new();
        let first: Vec<Duration> = (0..5).map(|_| pauses.next()).collect();
        assert!(first.iter().all(|pause| *pause < Duration::from_micros(20 << 4)), "{first:?}");
        let later: Vec<Duration> = (0..200).map(|_| pauses.next()).collect();
        let longest = later.iter().max().unwrap();
        assert!((5000..10_000).contains(&longest.as_micros()), "{longest:?}");
        assert!(later.windows(2).filter(|pair| pair[0] != pair[1]).count() > 190);
    }
}
