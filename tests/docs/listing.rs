//! The format of the listing of the public API. Members that several types share are listed once.

use std::collections::{BTreeMap, BTreeSet};

/// The public types and functions of a module, each with its public members.
pub type Types = BTreeMap<String, BTreeSet<String>>;

/// A public module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    pub path: String,
    pub types: Types,
}

/// Maximum length of a line of the listing, in characters.
const WIDTH: usize = 100;

/// The first line of the listing, which explains the format.
const NOTATION: &str = "\
    A type has what stands under its name, alone or with others; `put[_with]`: put, put_with.\n";

/// The word that introduces the list of functions and of types with at most one member.
const ALONE: &str = "and";

/// Suffixes that are written in brackets after a name.
const ENDS: [&str; 2] = ["_in", "_with"];

/// Families of types. The members that all types of a family have are listed once, under the names
/// of all these types. An earlier family takes precedence.
const FAMILIES: [&[&str]; 7] = [
    &["Db", "Keyspace", "ReadOnlyDb", "Snapshot"],
    &["Db", "ReadOnlyDb", "Snapshot"],
    &["Db", "Keyspace"],
    &["Db", "ReadOnlyDb"],
    &["Transaction", "TransactionKeyspace"],
    &["Transaction", "WriteBatch"],
    &["Cursor", "KeyspaceCursor", "TransactionCursor"],
];

/// Moves the members shared by all types of a family into one entry for the family. Leaves out a
/// type if all of its members have been moved.
fn share(types: &Types, families: &[&[&str]]) -> Types {
    let mut own = types.clone();
    let mut shared = Types::new();
    for family in families {
        let sets = family.iter().map(|name| own.get(*name).cloned());
        let Some(sets) = sets.collect::<Option<Vec<_>>>() else { continue };
        let common = sets.into_iter().reduce(|a, b| &a & &b).unwrap_or_default();
        if common.is_empty() {
            continue;
        }
        for name in *family {
            own.get_mut(*name).unwrap().retain(|member| !common.contains(member));
        }
        shared.insert(family.join(", "), common);
    }
    let named: BTreeSet<&str> = shared.keys().flat_map(|head| head.split(", ")).collect();
    own.retain(|name, members| !members.is_empty() || !named.contains(name.as_str()));
    own.extend(shared);
    own
}

/// Merges each pair of members whose names differ only by a suffix in [`ENDS`] into one entry.
fn fold(members: &BTreeSet<String>) -> Vec<String> {
    let mut folded = Vec::new();
    let mut done = BTreeSet::new();
    for name in members.iter().filter(|name| !name.is_empty()) {
        if done.contains(name) {
            continue;
        }
        let end = ENDS.iter().find(|end| members.contains(&format!("{name}{end}")));
        folded.push(match end {
            Some(end) => format!("{name}[{end}]"),
            None => name.clone(),
        });
        done.extend(end.map(|end| format!("{name}{end}")));
    }
    folded
}

/// Returns the members that an entry made by [`fold`] stands for.
fn unfold(name: &str) -> Vec<String> {
    match name.strip_suffix(']').and_then(|name| name.split_once('[')) {
        Some((name, end)) => vec![name.to_string(), format!("{name}{end}")],
        None => vec![name.to_string()],
    }
}

/// Returns the lines of an entry.
fn entry(head: &str, names: &[String]) -> String {
    let mut text = String::new();
    let mut line = format!("  {head}");
    for (n, name) in names.iter().enumerate() {
        let piece = if n == 0 { format!(": {name}") } else { format!(", {name}") };
        if line.chars().count() + piece.chars().count() >= WIDTH {
            text += &format!("{},\n", line.trim_end());
            line = format!("    {name}");
        } else {
            line += &piece;
        }
    }
    text + &line
}

/// Joins one-line entries into longer lines of at most [`WIDTH`] characters.
fn joined(entries: Vec<String>) -> String {
    let mut lines: Vec<String> = Vec::new();
    for entry in entries {
        match lines.last_mut() {
            Some(line)
                if !line.contains('\n')
                    && line.chars().count() + entry.chars().count() <= WIDTH =>
            {
                *line += &format!("; {}", entry.trim_start());
            }
            _ => lines.push(entry),
        }
    }
    lines.join("\n") + "\n"
}

/// Returns the listing of the modules.
pub fn listing(modules: &[Module]) -> String {
    let mut text = NOTATION.to_string();
    for module in modules {
        let types = share(&module.types, &FAMILIES);
        let (plain, full): (Types, Types) = types
            .into_iter()
            .partition(|(head, members)| members.len() <= 1 && !head.contains(", "));
        let with_member = |(name, members): (String, BTreeSet<String>)| match members.first() {
            Some(member) => format!("{name}::{member}"),
            None => name,
        };
        let plain: BTreeSet<String> = plain.into_iter().map(with_member).collect();
        let mut entries: Vec<String> =
            full.iter().map(|(name, members)| entry(name, &fold(members))).collect();
        if !plain.is_empty() {
            entries.push(entry(ALONE, &fold(&plain)));
        }
        text += &format!("{}\n{}", module.path, joined(entries));
    }
    text
}

/// Returns the modules that a listing names: the reverse of [`listing`].
pub fn read(listing: &str) -> Vec<Module> {
    let mut modules: Vec<Module> = Vec::new();
    let text = listing.strip_prefix(NOTATION).expect("the notation").replace(",\n    ", ", ");
    for line in text.lines() {
        let Some(entries) = line.strip_prefix("  ") else {
            modules.push(Module { path: line.to_string(), types: Types::new() });
            continue;
        };
        let types = &mut modules.last_mut().expect("a module").types;
        for entry in entries.split("; ") {
            let (heads, names) = entry.split_once(": ").expect("a head");
            let names = names.split(", ").flat_map(unfold);
            if heads == ALONE {
                for name in names {
                    let (name, member) = name.split_once("::").unwrap_or((&name, ""));
                    let members = types.entry(name.to_string()).or_default();
                    members.extend((!member.is_empty()).then(|| member.to_string()));
                }
                continue;
            }
            let names: BTreeSet<String> = names.collect();
            for head in heads.split(", ") {
                types.entry(head.to_string()).or_default().extend(names.clone());
            }
        }
    }
    modules
}

fn module(types: &[(&str, &[&str])]) -> Module {
    let types = types.iter().map(|(name, members)| {
        (name.to_string(), members.iter().map(|member| member.to_string()).collect())
    });
    Module { path: "minikv".to_string(), types: types.collect() }
}

/// Returns a module with two types of one family and some other types. Each of the two types has
/// members that the other lacks.
fn example() -> Module {
    module(&[
        ("Backup", &["files", "number"]),
        ("Cursor", &["key", "seek", "value"]),
        ("Db", &["get", "get_with", "iter", "prefix_with", "write"]),
        ("Iter", &[]),
        ("Keyspace", &["get", "get_with", "iter_with", "prefix_with"]),
        ("ReadOnlyDb", &["get", "get_with", "iter", "prefix_with"]),
        ("Snapshot", &["get", "get_with", "iter", "prefix_with"]),
        ("WriteOptions", &["sync"]),
        ("repair", &[]),
        ("repair_with", &[]),
    ])
}

#[test]
fn what_types_share_is_listed_once() {
    let expected = "\
minikv
  Backup: files, number; Cursor: key, seek, value
  Db, Keyspace, ReadOnlyDb, Snapshot: get[_with], prefix_with; Db, ReadOnlyDb, Snapshot: iter
  and: Db::write, Iter, Keyspace::iter_with, WriteOptions::sync, repair[_with]
";
    assert_eq!(listing(&[example()]), [NOTATION, expected].concat());
}

#[test]
fn a_listing_of_an_example_names_exactly_its_members() {
    let modules = vec![example()];
    assert_eq!(read(&listing(&modules)), modules);
}

#[test]
fn a_hidden_or_an_invented_member_is_noticed() {
    let told = listing(&[example()]);
    for (part, instead) in [
        ("get[_with]", "get"),
        ("prefix_with", "prefix[_with]"),
        ("Snapshot: iter", "Keyspace: iter"),
        ("Db, ReadOnlyDb, Snapshot: iter", "Db, ReadOnlyDb: iter"),
        ("Db, Keyspace,", "Cursor, Db, Keyspace,"),
        ("Db::write, ", ""),
        ("Iter, ", ""),
        ("repair[_with]", "repair"),
    ] {
        assert!(told.contains(part), "{part}");
        assert_ne!(read(&told.replace(part, instead)), [example()], "{instead} for {part}");
    }
}
