//! `minikv keyspaces`

use serde_json::{Value, json};

use super::size;
use crate::args::Global;
use crate::codec::{Format, JsonBytes};
use crate::error::Result;
use crate::output::{Stdout, Table};

/// List the keyspaces that have entries
///
/// Prints each name, escaped, and the approximate size of its part of the tables. Entries that are
/// only in the log are not in the size.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(global: &Global, args: Args) -> Result<()> {
    let db = super::open_read_only(global)?;
    let mut table = Table::new(["keyspace", "size"]);
    let mut list: Vec<Value> = Vec::new();
    for name in db.keyspaces()? {
        let bytes = db.keyspace(&name)?.approximate_size::<&[u8]>(..)?;
        table.row([&Format::Escaped.show(&name), &size(bytes)]);
        list.push(json!({"name": JsonBytes(&name), "bytes": bytes}));
    }
    let mut stdout = Stdout::open()?;
    match args.json {
        true => stdout.json(&json!({"keyspaces": list}))?,
        false if list.is_empty() => {}
        false => stdout.line(table.to_string())?,
    }
    stdout.finish()
}
