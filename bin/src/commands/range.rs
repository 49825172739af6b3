//! Ranges of keys: the options `--prefix`, `--from` and `--to`.

use std::ffi::OsString;
use std::ops::Bound;

use minikv::Comparator;
use minikv::files::user_key;

use crate::args::Global;
use crate::error::Result;

/// The options that limit a command to a range of keys.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Bounds {
    /// Only keys from this one on
    #[arg(long, value_name = "KEY", allow_negative_numbers = true)]
    pub from: Option<OsString>,
    /// Only keys before this one
    #[arg(long, value_name = "KEY", allow_negative_numbers = true)]
    pub to: Option<OsString>,
}

/// [`Bounds`], and the option that limits a command to the keys with one prefix.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct PrefixBounds {
    /// Only keys that begin with this
    #[arg(long, value_name = "PREFIX", allow_negative_numbers = true)]
    pub prefix: Option<OsString>,
    #[command(flatten)]
    pub bounds: Bounds,
}

/// Half-open range of keys, `[from, to)`. If `to` is `None`, the range has no upper bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    from: Vec<u8>,
    to: Option<Vec<u8>>,
}

impl Bounds {
    /// Returns the range between the bounds.
    pub fn range(&self, global: &Global) -> Result<Range> {
        let (from, to) = (key(global, &self.from)?, key(global, &self.to)?);
        Ok(Range::new(None, from, to))
    }
}

impl PrefixBounds {
    /// Returns the range of the keys that have the prefix and are between the bounds.
    pub fn range(&self, global: &Global) -> Result<Range> {
        let (from, to) = (key(global, &self.bounds.from)?, key(global, &self.bounds.to)?);
        Ok(Range::new(self.prefix(global)?, from, to))
    }

    /// Returns the prefix.
    pub fn prefix(&self, global: &Global) -> Result<Option<Vec<u8>>> {
        key(global, &self.prefix)
    }
}

fn key(global: &Global, argument: &Option<OsString>) -> Result<Option<Vec<u8>>> {
    argument.as_ref().map(|argument| global.key(argument)).transpose()
}

impl Range {
    /// Returns the range of the keys that meet all of the given conditions.
    fn new(prefix: Option<Vec<u8>>, from: Option<Vec<u8>>, to: Option<Vec<u8>>) -> Range {
        let prefix = prefix.unwrap_or_default();
        let ends = [after_prefix(&prefix), to].into_iter().flatten();
        Range { to: ends.min(), from: from.unwrap_or_default().max(prefix) }
    }

    /// Returns whether a table whose internal keys are between `smallest` and `largest` may have
    /// keys in the range.
    pub fn overlaps(&self, order: &dyn Comparator, smallest: &[u8], largest: &[u8]) -> bool {
        let begins = self.from.is_empty() || order.compare(user_key(largest), &self.from).is_ge();
        let ends = |to| order.compare(user_key(smallest), to).is_lt();
        begins && self.to.as_deref().is_none_or(ends)
    }

    /// Returns whether `key` is in the range and is not the range's first key.
    pub fn has_inside(&self, order: &dyn Comparator, key: &[u8]) -> bool {
        let begins = self.from.is_empty() || order.compare(key, &self.from).is_gt();
        begins && self.to.as_deref().is_none_or(|to| order.compare(key, to).is_lt())
    }

    /// Splits the range at `cut`. If `at_end` is false, returns the part before `cut`; otherwise,
    /// returns the part from `cut` on. The other part remains.
    pub fn split_off(&mut self, cut: Vec<u8>, at_end: bool) -> Range {
        match at_end {
            false => {
                let from = std::mem::replace(&mut self.from, cut.clone());
                Range { from, to: Some(cut) }
            }
            true => Range { to: self.to.replace(cut.clone()), from: cut },
        }
    }

    /// Returns the bounds in the form that the library takes.
    pub fn bounds(self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        let from = if self.from.is_empty() { Bound::Unbounded } else { Bound::Included(self.from) };
        (from, self.to.map_or(Bound::Unbounded, Bound::Excluded))
    }
}

/// Returns the smallest key that is greater than all keys with the prefix `prefix`, or `None` if
/// there is no such key.
fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

#[cfg(test)]
impl Range {
    pub fn between(from: Vec<u8>, to: Option<Vec<u8>>) -> Range {
        Range { from, to }
    }

    /// Returns the union of this range and `next`, which must begin where this range ends.
    pub fn joined(self, next: Range) -> Range {
        assert_eq!(self.to, Some(next.from));
        Range { to: next.to, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(prefix: Option<&[u8]>, from: Option<&[u8]>, to: Option<&[u8]>) -> Range {
        Range::new(prefix.map(Vec::from), from.map(Vec::from), to.map(Vec::from))
    }

    #[test]
    fn bounds_are_intersected() {
        let want =
            |from: &[u8], to: Option<&[u8]>| Range { from: from.into(), to: to.map(Vec::from) };
        assert_eq!(range(None, None, None), want(b"", None));
        assert_eq!(range(Some(b"ab"), None, None), want(b"ab", Some(b"ac")));
        assert_eq!(range(Some(b"ab"), Some(b"abx"), None), want(b"abx", Some(b"ac")));
        assert_eq!(range(Some(b"ab"), Some(b"a"), Some(b"aba")), want(b"ab", Some(b"aba")));
        assert_eq!(range(Some(b"a\xff"), None, None), want(b"a\xff", Some(b"b")));
        assert_eq!(range(Some(b"\xff"), None, Some(b"\xff\xff")), want(b"\xff", Some(b"\xff\xff")));
        assert_eq!(range(Some(b"\xff"), None, None), want(b"\xff", None));
    }
}
