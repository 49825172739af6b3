//! `minikv compact`

use std::ffi::OsString;

use super::scan::Range;
use crate::args::Global;
use crate::error::Result;

/// Merge tables, giving back the space of what was deleted or replaced
///
/// Everything, or the keys from --from up to --to.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only keys from this one on
    #[arg(long, value_name = "KEY", allow_negative_numbers = true)]
    from: Option<OsString>,
    /// Only keys before this one
    #[arg(long, value_name = "KEY", allow_negative_numbers = true)]
    to: Option<OsString>,
}

pub fn run(global: &Global, args: Args) -> Result<()> {
    let key = |argument: Option<OsString>| argument.map(|key| global.key(&key)).transpose();
    let range = Range::new(None, key(args.from)?, key(args.to)?);
    let db = super::open(global, false)?;
    db.compact_range(range.bounds())?;
    Ok(db.close()?)
}
