//! Transactions.

use minikv::{Error, Readable, Result, Transaction};

use crate::border::{ErrPtr, In, Kept, Malloced, Out, export};
use crate::db::leveldb_t;
use crate::options::leveldb_writeoptions_t;

/// A transaction. `open` is `None` after a commit, whether or not the commit succeeded.
pub struct minikv_transaction_t {
    open: Option<Transaction>,
}

impl minikv_transaction_t {
    fn open(&mut self) -> Result<&mut Transaction> {
        self.open.as_mut().ok_or_else(committed)
    }
}

fn committed() -> Error {
    Error::InvalidArgument { what: "the transaction has ended".to_owned() }
}

export! {
    fn minikv_transaction_begin(db: &leveldb_t, errptr: ErrPtr) -> Kept<minikv_transaction_t> {
        let begun = errptr.report(db.writer()).map(|db| Some(db.transaction()));
        begun.map_or_else(Kept::null, |open| Kept::new(minikv_transaction_t { open }))
    }

    fn minikv_transaction_get(
        transaction: &mut minikv_transaction_t,
        key: In,
        key_len: usize,
        value_len: Out<usize>,
        errptr: ErrPtr,
    ) -> Malloced {
        let value = transaction.open().and_then(|open| open.get(key.bytes(key_len)));
        let value = errptr.report(value).flatten();
        Malloced::value(value.as_deref(), value_len)
    }

    fn minikv_transaction_put(
        transaction: &mut minikv_transaction_t,
        key: In,
        key_len: usize,
        value: In,
        value_len: usize,
        errptr: ErrPtr,
    ) {
        let (key, value) = (key.bytes(key_len), value.bytes(value_len));
        errptr.report(transaction.open().map(|open| open.put(key, value)));
    }

    fn minikv_transaction_delete(
        transaction: &mut minikv_transaction_t,
        key: In,
        key_len: usize,
        errptr: ErrPtr,
    ) {
        errptr.report(transaction.open().map(|open| open.delete(key.bytes(key_len))));
    }

    /// Commits the transaction, and returns whether the commit succeeded.
    fn minikv_transaction_commit(
        transaction: &mut minikv_transaction_t,
        options: &leveldb_writeoptions_t,
        errptr: ErrPtr,
    ) -> u8 {
        let open = transaction.open.take().ok_or_else(committed);
        let committed = open.and_then(|open| open.writing(options.write).commit());
        u8::from(errptr.report(committed).is_some())
    }

    fn minikv_transaction_destroy(transaction: Kept<minikv_transaction_t>) {
        drop(transaction.take());
    }
}
