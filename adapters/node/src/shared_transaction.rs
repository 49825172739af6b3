//! Transactions that JavaScript objects share with their running calls.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use minikv::Transaction;

use crate::error::Fault;

/// A transaction that JavaScript shares with its running call and its iterators; empty after the
/// end. `lib/transaction.js` makes one call after the other, so nobody waits for the lock.
#[derive(Clone)]
pub struct SharedTransaction(Arc<Mutex<Option<Transaction>>>);

impl SharedTransaction {
    pub fn new(transaction: Transaction) -> SharedTransaction {
        SharedTransaction(Arc::new(Mutex::new(Some(transaction))))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Transaction>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `work` with the transaction.
    ///
    /// # Errors
    /// [`Fault::TransactionNotOpen`] after the end of the transaction; the error of `work`.
    pub fn with<T>(
        &self,
        work: impl FnOnce(&mut Transaction) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        work(self.lock().as_mut().ok_or(Fault::TransactionNotOpen)?)
    }

    /// Ends the sharing, and returns the transaction unless it has ended.
    pub fn take(&self) -> Option<Transaction> {
        self.lock().take()
    }
}
