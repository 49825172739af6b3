//! Views: the whole database, or one of its keyspaces, at one moment, as a call reads it.

use std::ops::Bound;
use std::time::UNIX_EPOCH;

use minikv::{
    Bytes, Cursor, Expiry, Iter, Keyspace, KeyspaceCursor, ReadOptions, Result, Snapshot,
    TransactionCursor,
};

use crate::error::Fault;
use crate::job::Reply;
use crate::space::{SpaceName, Spaces};

/// The keys from one bound to the other.
pub type Range = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// The database, or one of its keyspaces, at one moment.
pub enum View {
    Whole(Snapshot),
    Space(Keyspace<Snapshot>),
}

/// Calls a method that snapshots and their keyspaces have.
macro_rules! of_view {
    ($view:expr, $from:ident => $call:expr) => {
        match $view {
            View::Whole($from) => $call,
            View::Space($from) => $call,
        }
    };
}

impl View {
    /// Returns the view of the keyspace `space`, or of the whole database, at `moment`.
    pub fn new(moment: Snapshot, space: Option<&SpaceName>) -> Result<View> {
        Ok(match space {
            Some(space) => View::Space(moment.space(space)?),
            None => View::Whole(moment),
        })
    }

    pub fn get(&self, options: &ReadOptions, key: &[u8]) -> Result<Option<Bytes>> {
        of_view!(self, from => from.get_with(options, key))
    }

    pub fn multi_get(&self, options: &ReadOptions, keys: &[Vec<u8>]) -> Result<Vec<Option<Bytes>>> {
        of_view!(self, from => from.multi_get_with(options, keys))
    }

    pub fn range(&self, options: &ReadOptions, range: Range) -> Result<Iter> {
        of_view!(self, from => from.range_with(options, range))
    }

    pub fn explain(&self, key: &[u8]) -> Result<Reply, Fault> {
        Reply::report(of_view!(self, from => from.explain(key))?)
    }

    /// Replies with the time at which the entry of `key` expires, in milliseconds since 1970, or
    /// with infinity.
    pub fn expiry(&self, key: &[u8]) -> Result<Reply, Fault> {
        let expiry = match self {
            View::Whole(_) => return Err(Fault::Other("not a keyspace".to_owned())),
            View::Space(space) => space.expiry(key)?,
        };
        Ok(match expiry {
            Some(Expiry::At(time)) => {
                let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
                Reply::Number(since.as_millis() as f64)
            }
            Some(Expiry::Never) => Reply::Number(f64::INFINITY),
            None => Reply::Nothing,
        })
    }

    /// Returns a cursor that stays within the view.
    pub fn cursor(&self, options: &ReadOptions) -> Result<ViewCursor> {
        Ok(match self {
            View::Whole(snapshot) => ViewCursor::Whole(snapshot.cursor_with(options)?),
            View::Space(space) => ViewCursor::Space(space.cursor_with(options)?),
        })
    }
}

/// A cursor over a view.
pub enum ViewCursor {
    Whole(Cursor),
    Space(KeyspaceCursor),
}

/// The methods that all of the library's cursors have.
pub trait Steps {
    fn seek_to_first(&mut self) -> Result<bool>;
    fn seek_to_last(&mut self) -> Result<bool>;
    fn seek(&mut self, key: &[u8]) -> Result<bool>;
    fn seek_for_prev(&mut self, key: &[u8]) -> Result<bool>;
    fn next(&mut self) -> Result<bool>;
    fn prev(&mut self) -> Result<bool>;
    fn key(&self) -> &[u8];
    fn value(&self) -> &[u8];
}

/// Implements [`Steps`] for a type; `$with` applies a call to the library's cursor.
macro_rules! steps {
    ($type:ty, $with:ident) => {
        impl Steps for $type {
            fn seek_to_first(&mut self) -> Result<bool> {
                $with!(self, cursor => cursor.seek_to_first())
            }

            fn seek_to_last(&mut self) -> Result<bool> {
                $with!(self, cursor => cursor.seek_to_last())
            }

            fn seek(&mut self, key: &[u8]) -> Result<bool> {
                $with!(self, cursor => cursor.seek(key))
            }

            fn seek_for_prev(&mut self, key: &[u8]) -> Result<bool> {
                $with!(self, cursor => cursor.seek_for_prev(key))
            }

            fn next(&mut self) -> Result<bool> {
                $with!(self, cursor => cursor.next())
            }

            fn prev(&mut self) -> Result<bool> {
                $with!(self, cursor => cursor.prev())
            }

            fn key(&self) -> &[u8] {
                $with!(self, cursor => cursor.key())
            }

            fn value(&self) -> &[u8] {
                $with!(self, cursor => cursor.value())
            }
        }
    };
}

macro_rules! of_view_cursor {
    ($view:expr, $cursor:ident => $call:expr) => {
        match $view {
            ViewCursor::Whole($cursor) => $call,
            ViewCursor::Space($cursor) => $call,
        }
    };
}

/// The inherent methods of a cursor come before those of the trait.
macro_rules! of_itself {
    ($view:expr, $cursor:ident => $call:expr) => {{
        let $cursor = $view;
        $call
    }};
}

steps!(ViewCursor, of_view_cursor);
steps!(TransactionCursor<'_>, of_itself);
