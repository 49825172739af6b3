//! The range of an iterator.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::walk::End;

/// The arguments of `iterator()`.
pub struct Range<'a> {
    pub db_prefix: Option<&'a [u8]>,
    pub reverse: bool,
    pub start: Option<&'a [u8]>,
    pub stop: Option<&'a [u8]>,
    pub include_start: bool,
    pub include_stop: bool,
    pub prefix: Option<&'a [u8]>,
    pub include_key: bool,
    pub include_value: bool,
}

/// Returns the first key after all keys that begin with `prefix`; `None` if there is no such key.
fn end_of(prefix: &[u8]) -> Option<Vec<u8>> {
    let at = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut end = prefix[..=at].to_vec();
    end[at] += 1;
    Some(end)
}

impl Range<'_> {
    fn under_prefix(&self, key: &[u8]) -> Vec<u8> {
        [self.db_prefix.unwrap_or(&[]), key].concat()
    }

    /// Returns the start and the end of the range in the database.
    ///
    /// # Errors
    /// A `TypeError` if a prefix is combined with a start or a stop.
    pub fn ends(&self) -> PyResult<(End, End)> {
        let prefix = match (self.prefix, self.db_prefix) {
            (Some(_), _) if self.start.is_some() || self.stop.is_some() => {
                let text = "'prefix' cannot be used together with 'start' or 'stop'";
                return Err(PyTypeError::new_err(text));
            }
            (Some(prefix), _) => Some(self.under_prefix(prefix)),
            (None, db_prefix) => db_prefix.map(<[u8]>::to_vec),
        };
        let end = |key: Option<&[u8]>, is_included| {
            key.map(|key| End { key: Some(self.under_prefix(key)), is_included })
        };
        let after = prefix.as_ref().and_then(|prefix| end_of(prefix));
        let start = end(self.start, self.include_start);
        let stop = end(self.stop, self.include_stop);
        Ok((
            start.unwrap_or(End { key: prefix, is_included: true }),
            stop.unwrap_or(End { key: after, is_included: false }),
        ))
    }
}

/// The default range: the whole database, forwards, with keys and values.
impl Default for Range<'_> {
    fn default() -> Self {
        Range {
            db_prefix: None,
            reverse: false,
            start: None,
            stop: None,
            include_start: true,
            include_stop: false,
            prefix: None,
            include_key: true,
            include_value: true,
        }
    }
}
