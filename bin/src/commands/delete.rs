//! `minikv delete KEY…`

use std::ffi::OsString;

use minikv::{WriteBatch, WriteOptions};

use crate::args::Global;
use crate::error::Result;

/// Delete keys
///
/// All in one batch: all are deleted or none. A key that is not there is fine.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The keys
    #[arg(required = true, value_name = "KEY", allow_negative_numbers = true)]
    keys: Vec<OsString>,
    /// Return only when the deletions would survive a loss of power
    #[arg(long)]
    sync: bool,
}

pub fn run(global: &Global, args: Args) -> Result<()> {
    let mut batch = WriteBatch::new();
    for key in &args.keys {
        batch.delete(global.key(key)?);
    }
    let db = super::open(global, false)?;
    db.write_with(&WriteOptions::default().sync(args.sync), batch)?;
    Ok(db.close()?)
}
