//! `minikv scan`

use std::ffi::OsString;
use std::ops::Bound;

use minikv::ReadOnlyDb;

use super::entries::Entries;
use crate::args::Global;
use crate::error::{CliError, Result};
use crate::output::Stdout;

/// Print entries in key order
///
/// --prefix, --from and --to may be combined: an entry is printed if all of them hold. With
/// --comparator ignore the entries come as they stand in the files, in no order.
#[derive(Debug, Default, clap::Args)]
pub struct Args {
    /// Only keys that begin with this
    #[arg(long, value_name = "PREFIX", allow_negative_numbers = true)]
    prefix: Option<OsString>,
    /// Only keys from this one on
    #[arg(long, value_name = "KEY", allow_negative_numbers = true)]
    from: Option<OsString>,
    /// Only keys before this one
    #[arg(long, value_name = "KEY", allow_negative_numbers = true)]
    to: Option<OsString>,
    /// From the last key to the first
    #[arg(long)]
    reverse: bool,
    /// At most this many entries
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Print keys without values
    #[arg(long)]
    keys_only: bool,
    /// Print only how many entries there are
    #[arg(long, conflicts_with = "keys_only")]
    count: bool,
}

pub fn run(global: &Global, args: Args) -> Result<()> {
    let range = Range::of(global, &args)?;
    let prefix = args.prefix.as_ref().map(|prefix| global.key(prefix)).transpose()?;
    if global.ignores_comparator() && (args.reverse || args.from.is_some() || args.to.is_some()) {
        return Err(CliError::Usage(
            "--from, --to and --reverse need an order of keys; leave them out, or --comparator \
             ignore"
                .to_string(),
        ));
    }
    let db = Entries::open(global)?;
    let mut stdout = Stdout::open()?;
    let mut printed = 0u64;
    let format = global.format();
    let mut line = Vec::new();
    let visit = |key: &[u8], value: &[u8]| {
        printed += 1;
        if args.count {
            return Ok(());
        }
        line.clear();
        if args.keys_only {
            format.encode_key_line(key, &mut line);
        } else {
            format.encode_entry(key, value, &mut line);
        }
        stdout.write(&line)
    };
    match &db {
        Entries::InOrder(db) => each_in_order(db, range, &args, visit)?,
        files => each_in_files(files, prefix.unwrap_or_default(), &args, visit)?,
    }
    if args.count {
        stdout.line(printed.to_string())?;
    }
    stdout.finish()
}

fn each_in_files(
    files: &Entries,
    prefix: Vec<u8>,
    args: &Args,
    mut visit: impl FnMut(&[u8], &[u8]) -> Result<()>,
) -> Result<()> {
    let mut left = args.limit.unwrap_or(u64::MAX);
    files.each(|key, value| {
        if left > 0 && key.starts_with(&prefix) {
            visit(key, value)?;
            left -= 1;
        }
        Ok(left > 0)
    })
}

fn each_in_order(
    db: &ReadOnlyDb,
    range: Range,
    args: &Args,
    mut visit: impl FnMut(&[u8], &[u8]) -> Result<()>,
) -> Result<()> {
    let mut entries = db.range(range.bounds())?;
    for _ in 0..args.limit.unwrap_or(u64::MAX) {
        let next = if args.reverse { entries.next_back() } else { entries.next() };
        let Some(entry) = next else { break };
        let (key, value) = entry?;
        visit(&key, &value)?;
    }
    Ok(())
}

/// The keys in `[from, to)`; without `to` there is no end.
#[derive(Debug, PartialEq, Eq)]
pub struct Range {
    from: Vec<u8>,
    to: Option<Vec<u8>>,
}

impl Range {
    fn of(global: &Global, args: &Args) -> Result<Range> {
        let key = |argument: &Option<OsString>| {
            argument.as_ref().map(|argument| global.key(argument)).transpose()
        };
        Ok(Range::new(key(&args.prefix)?, key(&args.from)?, key(&args.to)?))
    }

    /// The keys for which all that is given holds.
    pub fn new(prefix: Option<Vec<u8>>, from: Option<Vec<u8>>, to: Option<Vec<u8>>) -> Range {
        let prefix = prefix.unwrap_or_default();
        let ends = [after_prefix(&prefix), to].into_iter().flatten();
        Range { to: ends.min(), from: from.unwrap_or_default().max(prefix) }
    }

    pub fn bounds(self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        let from = if self.from.is_empty() { Bound::Unbounded } else { Bound::Included(self.from) };
        (from, self.to.map_or(Bound::Unbounded, Bound::Excluded))
    }
}

/// The first key after every key that begins with `prefix`, if there is one.
fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
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
