//! Cursors of the library, under one interface.

use minikv::{Cursor, KeyspaceCursor, Result, TransactionCursor};

/// The methods that all of the library's cursors have.
pub trait Steps {
    fn seek_to_first(&mut self) -> Result<bool>;
    fn seek_to_last(&mut self) -> Result<bool>;
    fn seek(&mut self, key: &[u8]) -> Result<bool>;
    fn seek_for_prev(&mut self, key: &[u8]) -> Result<bool>;
    fn next(&mut self) -> Result<bool>;
    fn prev(&mut self) -> Result<bool>;
    fn valid(&self) -> bool;
    fn key(&self) -> &[u8];
    fn value(&self) -> &[u8];
}

/// A cursor that owns what it reads.
pub type AnyCursor = Box<dyn Steps + Send>;

macro_rules! steps_of {
    ($($cursor:ty)*) => {
        $(impl Steps for $cursor {
            fn seek_to_first(&mut self) -> Result<bool> {
                self.seek_to_first()
            }

            fn seek_to_last(&mut self) -> Result<bool> {
                self.seek_to_last()
            }

            fn seek(&mut self, key: &[u8]) -> Result<bool> {
                self.seek(key)
            }

            fn seek_for_prev(&mut self, key: &[u8]) -> Result<bool> {
                self.seek_for_prev(key)
            }

            fn next(&mut self) -> Result<bool> {
                self.next()
            }

            fn prev(&mut self) -> Result<bool> {
                self.prev()
            }

            fn valid(&self) -> bool {
                self.valid()
            }

            fn key(&self) -> &[u8] {
                self.key()
            }

            fn value(&self) -> &[u8] {
                self.value()
            }
        })*
    };
}
// The inherent methods of a cursor come before those of the trait.
steps_of! { Cursor KeyspaceCursor TransactionCursor<'_> }
