//! Transactions.

use minikv::{Error, Readable, Transaction, WriteOptions};
use napi::Env;
use napi::bindgen_prelude::AsyncTask;
use napi_derive::napi;

use crate::database::{NativeDatabase, plan_of};
use crate::error::Fault;
use crate::frames;
use crate::iterator::NativeIterator;
use crate::job::{Job, Reply, guarded, start};
use crate::shared_transaction::SharedTransaction;
use crate::space::{Spaces, Target};
use crate::walk::{Source, Walk};

/// A transaction.
#[napi]
pub struct NativeTransaction {
    shared: SharedTransaction,
}

impl NativeTransaction {
    fn new(transaction: Transaction) -> NativeTransaction {
        NativeTransaction { shared: SharedTransaction::new(transaction) }
    }
}

/// Begins a transaction of a database.
#[napi(catch_unwind)]
pub fn begin_transaction(env: Env, of: &NativeDatabase) -> napi::Result<NativeTransaction> {
    let begun = guarded(|| Ok(of.handle()?.writer()?.transaction()));
    begun.map(NativeTransaction::new).map_err(|fault| fault.into_error(env))
}

#[napi]
impl NativeTransaction {
    /// Adds the writes encoded in `frames`, to the keyspace `of` if it is one. `is_expiring` says
    /// whether the frames are those of an expiring keyspace.
    #[napi(catch_unwind)]
    pub fn write(&self, frames: &[u8], of: &NativeDatabase, is_expiring: bool) -> AsyncTask<Job> {
        let (shared, frames, space) = (self.shared.clone(), frames.to_vec(), of.space());
        start(move || {
            shared.with(|transaction| {
                let space = space?;
                if space.as_ref().is_some_and(|space| space.is_expiring) != is_expiring {
                    // Another write has made it one, and the program has opened it again.
                    let what = "the keyspace has become one of another kind".to_owned();
                    return Err(Error::InvalidArgument { what }.into());
                }
                let space = space.map(|space| transaction.snapshot().space(&space)).transpose()?;
                transaction.fill(&frames, space.as_ref())
            })?;
            Ok(Reply::Nothing)
        })
    }

    /// Returns a promise of the values of `keys`. Keys and values are encoded as frames.
    #[napi(catch_unwind)]
    pub fn get_many(
        &self,
        env: Env,
        keys: &[u8],
        of: &NativeDatabase,
    ) -> napi::Result<AsyncTask<Job>> {
        let shared = self.shared.clone();
        let prepared = guarded(|| Ok((frames::keys(keys)?, of.space()?)));
        let (keys, space) = prepared.map_err(|fault| fault.into_error(env))?;
        Ok(start(move || {
            let values = shared.with(|transaction| match space {
                Some(space) => {
                    let space = transaction.snapshot().space(&space)?;
                    Ok(transaction.keyspace(&space).multi_get(&keys)?)
                }
                None => Ok(transaction.multi_get(&keys)?),
            })?;
            Ok(Reply::Frames(frames::values(&values)?))
        }))
    }

    /// Returns an iterator over a range, which also shows the transaction's own writes.
    #[napi(catch_unwind)]
    pub fn iterator(
        &self,
        env: Env,
        bounds: &[u8],
        flags: u32,
        of: &NativeDatabase,
    ) -> napi::Result<NativeIterator> {
        let prepared = guarded(|| Ok((plan_of(bounds, flags)?, of.space()?)));
        let (plan, space) = prepared.map_err(|fault| fault.into_error(env))?;
        let source = Source::Transaction(self.shared.clone(), space);
        Ok(NativeIterator::new(Walk::new(source, plan)))
    }

    /// Commits the transaction, which ends it.
    #[napi(catch_unwind)]
    pub fn commit(&self, sync: bool) -> AsyncTask<Job> {
        let shared = self.shared.clone();
        start(move || {
            let transaction = shared.take().ok_or(Fault::TransactionNotOpen)?;
            transaction.writing(WriteOptions::default().sync(sync)).commit()?;
            Ok(Reply::Nothing)
        })
    }

    /// Ends the transaction without its writes, unless it has ended.
    #[napi(catch_unwind)]
    pub fn close(&self) {
        drop(self.shared.take());
    }
}
