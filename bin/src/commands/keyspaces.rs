//! `minikv keyspaces`

use minikv::Readable;
use serde_json::{Value, json};

use super::size;
use crate::args::{Dir, Global};
use crate::codec::JsonBytes;
use crate::error::Result;
use crate::output::{Stdout, Table};
use crate::style::shown;

/// List the keyspaces that have entries
///
/// Prints the name of each keyspace, escaped, and the approximate size of its entries. If there are
/// expiring keyspaces, also shows the kind of each keyspace; expiring ones are listed until their
/// expired entries are removed.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub(super) dir: Dir,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A keyspace that has entries.
struct Listed {
    name: Vec<u8>,
    is_expiring: bool,
    /// Approximate total size of the keyspace's entries, in bytes.
    bytes: u64,
}

pub fn run(global: &Global, args: Args) -> Result<()> {
    let db = super::open_for_reads(global)?;
    let mut list: Vec<Listed> = Vec::new();
    for keyspace in db.keyspaces()? {
        let bytes = keyspace.approximate_size(..)?;
        let (name, is_expiring) = (keyspace.name().to_vec(), keyspace.is_expiring());
        list.push(Listed { name, is_expiring, bytes });
    }
    let mut stdout = Stdout::open()?;
    match args.json {
        true => stdout.json(&json!({"keyspaces": json_of(&list)}))?,
        false if list.is_empty() => {}
        false => stdout.line(text_of(&list))?,
    }
    stdout.finish()
}

fn json_of(list: &[Listed]) -> Vec<Value> {
    let one = |Listed { name, is_expiring, bytes }: &Listed| -> Value {
        json!({"name": JsonBytes(name), "expiring": is_expiring, "bytes": bytes})
    };
    list.iter().map(one).collect()
}

fn text_of(list: &[Listed]) -> String {
    if list.iter().all(|listed| !listed.is_expiring) {
        let mut table = Table::new(["keyspace", "size"]);
        list.iter().for_each(|listed| table.row([&shown(&listed.name), &size(listed.bytes)]));
        return table.to_string();
    }
    let mut table = Table::new(["keyspace", "kind", "size"]);
    for Listed { name, is_expiring, bytes } in list {
        let kind = if *is_expiring { "expiring" } else { "ordinary" };
        table.row([&shown(name), kind, &size(*bytes)]);
    }
    table.to_string()
}
