//! Tables in which every checksum holds, but lookups miss a key: `verify` names the key and what
//! denies it.

use std::path::PathBuf;

use minikv::files::{KeyKind, TableReader};
use minikv::filter::TABLE_FILTER_NAME;
use minikv::fs::{Fs, MemFs};
use minikv::internals::format::handle::block_trailer;
use minikv::internals::format::key::internal_key;
use minikv::{Corruption, Db, DelimitedPrefix, Filters, Options, RepairOptions};

use crate::forge::{DIR, block, file, first_edit, load, read, with_edits, with_log};
use crate::hostile::table_of_blocks;

const KEYS: usize = 40;

fn options(fs: &MemFs) -> Options {
    Options::default()
        .fs(fs.clone())
        .inline_background(Some(1))
        .filters(Filters::Both(10))
        .filter_prefix(DelimitedPrefix::new(b'/'))
}

fn faults(fs: &MemFs) -> Vec<Corruption> {
    minikv::verify(DIR, &options(fs)).unwrap().faults
}

/// Returns a database with one table, and the path of the table.
fn database() -> (MemFs, PathBuf) {
    let fs = MemFs::new();
    let db = Db::open(DIR, options(&fs).create_if_missing(true)).unwrap();
    for i in 0..KEYS {
        db.put(format!("{i:02}/key"), "value").unwrap();
    }
    db.flush().unwrap();
    db.close().unwrap();
    let names = fs.list(DIR.as_ref()).unwrap();
    let mut tables = names.into_iter().filter(|name| name.ends_with(".ldb"));
    let path = PathBuf::from(DIR).join(tables.next().unwrap());
    assert_eq!(tables.next(), None);
    (fs, path)
}

/// Changes the meta block whose name begins with `name`, and its checksum.
fn forge(fs: &MemFs, path: &PathBuf, name: &str, change: impl FnOnce(&mut [u8])) {
    let table = TableReader::open(path, &options(fs)).unwrap();
    let is_it = |found: &[u8]| found.starts_with(name.as_bytes());
    let (_, handle) = table.meta().iter().find(|(found, _)| is_it(found)).expect(name);
    let contents = handle.offset as usize..(handle.offset + handle.size) as usize;
    let mut bytes = read(fs, path);
    change(&mut bytes[contents.clone()]);
    let trailer = block_trailer(&bytes[contents.clone()], 0);
    bytes[contents.end..][..trailer.len()].copy_from_slice(&trailer);
    fs.create(path).unwrap().write(&bytes).unwrap();
}

/// Clears the slots of a filter over a table, which then denies nearly every key.
fn clear_slots(filter: &mut [u8]) {
    let slots = filter.len() - 22;
    filter[..slots].fill(0);
}

/// Clears the bits of the only bloom filter of a filter block. The filter's last byte is the number
/// of probes, and the offset of the offsets ends the block.
fn clear_bits(block: &mut [u8]) {
    let end = block.len() - 5;
    let filter = u32::from_le_bytes(block[end..][..4].try_into().unwrap()) as usize;
    block[..filter - 1].fill(0);
}

#[test]
fn verify_names_the_filter_that_denies_a_key_and_a_repair_makes_another() {
    type Change = fn(&mut [u8]);
    let cases: [(&str, Change, &str); 3] = [
        ("filter.", clear_bits, "is denied by the filter of its block"),
        (TABLE_FILTER_NAME, clear_slots, "is denied by the table's filter"),
        ("minikv.prefix-filter.", clear_slots, "is denied by the table's prefix filter"),
    ];
    for (name, change, what) in cases {
        let (fs, path) = database();
        assert_eq!(faults(&fs), []);
        forge(&fs, &path, name, change);
        let found = faults(&fs);
        let [fault] = &found[..] else { panic!("{name}: {found:?}") };
        assert!(fault.what.ends_with(what), "{fault}");
        assert!(fault.what.contains(" more) "), "{fault}");
        assert_eq!(fault.path.as_deref(), Some(&*path), "{fault}");

        minikv::repair(DIR, &options(&fs), RepairOptions::default()).unwrap();
        assert_eq!(faults(&fs), [], "{name}");
        let db = Db::open(DIR, options(&fs)).unwrap();
        for i in 0..KEYS {
            assert_eq!(db.get(format!("{i:02}/key")).unwrap().as_deref(), Some(&b"value"[..]));
        }
    }
}

/// Returns what `verify` says of a database with this table, which the MANIFEST describes as
/// holding the keys from `a` to `z`.
fn said_of(table: &[u8]) -> String {
    let key = |key: &[u8]| internal_key(key, 3, KeyKind::Value);
    let mut new = file(1, 9, table.len());
    (new.smallest, new.largest) = (key(b"a"), key(b"z"));
    let mut edit = first_edit();
    edit.last_seq = Some(3);
    edit.new_files.push(new);
    let mut files = with_log(Vec::new());
    files.extend(with_edits(vec![edit]));
    files.insert("000009.ldb".to_owned(), table.to_vec());
    let found = faults(&load(&files));
    found.first().map(ToString::to_string).unwrap_or_default()
}

#[test]
fn verify_names_the_key_that_the_manifest_or_the_index_leads_past() {
    let key = |key: &str| internal_key(key.as_bytes(), 3, KeyKind::Value);
    let blocks = |separators: [&str; 2], keys: [&str; 2]| {
        let block_of = |name: &str| block(&[(key(name), b"v".to_vec())]);
        let all = separators.into_iter().zip(keys);
        let all = all.map(|(separator, name)| (key(separator), block_of(name)));
        said_of(&table_of_blocks(all))
    };
    assert_eq!(blocks(["m", "z"], ["a", "z"]), "");
    let said = blocks(["m", "zz"], ["a", "zz"]);
    assert!(said.contains("key \"zz\" is outside the range that the MANIFEST records"), "{said}");
    let said = blocks(["m", "z"], ["n", "z"]);
    assert!(
        said.contains("key \"n\" is in a block where the index does not look for it"),
        "{said}"
    );
}

#[test]
fn verify_names_the_place_where_an_index_is_out_of_order() {
    let key = |key: &str| internal_key(key.as_bytes(), 3, KeyKind::Value);
    let block_of = |name: &str| block(&[(key(name), b"v".to_vec())]);
    let said = said_of(&table_of_blocks(
        [(key("z"), block_of("a")), (key("m"), block_of("z"))].into_iter(),
    ));
    assert!(said.contains("the index is out of order at the data block at offset"), "{said}");
    let said = said_of(&table_of_blocks([(b"short".to_vec(), block_of("a"))].into_iter()));
    assert!(said.contains("the index has a separator that is not an internal key"), "{said}");
}
