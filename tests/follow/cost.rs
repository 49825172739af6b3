//! Number of file operations and of bytes read by a refresh.

use minikv::fs::sim::{OpKind, SimFs};
use minikv::{Db, ReadOnlyDb, Readable};

use crate::{DIR, options};

/// The work of a refresh.
#[derive(Debug, PartialEq)]
struct Work {
    operations: u64,
    bytes: u64,
}

const KINDS: [OpKind; 5] = [OpKind::Open, OpKind::Read, OpKind::Len, OpKind::List, OpKind::Exists];

fn refresh(fs: &SimFs, db: &ReadOnlyDb) -> Work {
    let before = fs.counts();
    assert!(!db.refresh().unwrap().restarted);
    let after = fs.counts();
    let operations = KINDS.iter().map(|&kind| after.of(kind) - before.of(kind)).sum();
    Work { operations, bytes: after.bytes_read - before.bytes_read }
}

/// Returns the work of a refresh after one put, and after no change, in a database of `puts`
/// entries.
fn work(puts: u64) -> [Work; 2] {
    let fs = SimFs::new(1);
    let large = options(&fs, 1).manifest_rotate_bytes(1 << 30);
    let writer = Db::open(DIR, large.clone()).unwrap();
    for number in 0..puts {
        writer.put(format!("{number:08}"), [7; 50]).unwrap();
    }
    writer.flush().unwrap();
    writer.put("a", "1").unwrap();
    let follower = Db::open_read_only(DIR, large).unwrap();
    writer.put("b", "2").unwrap();
    let of_put = refresh(&fs, &follower);
    assert!(follower.contains_key("b").unwrap());
    [of_put, refresh(&fs, &follower)]
}

#[test]
fn a_refresh_after_one_put_costs_the_same_in_a_large_database() {
    let (small, large) = (work(100), work(20_000));
    assert_eq!(small[0].operations, large[0].operations, "{small:?} {large:?}");
    // A refresh reads one block at the end of the MANIFEST, and one block at the end of the log.
    let block = 32 << 10;
    assert!(small[0].bytes < 2 * block && large[0].bytes < 2 * block, "{small:?} {large:?}");
    assert!(large[1].operations <= large[0].operations, "{large:?}");
    assert!(large[0].operations <= 10, "{large:?}");
}

#[test]
fn a_refresh_after_a_flush_opens_the_new_table_only() {
    let fs = SimFs::new(1);
    let options = options(&fs, 1).manifest_rotate_bytes(1 << 30);
    let writer = Db::open(DIR, options.clone()).unwrap();
    let put = |range: std::ops::Range<u32>| {
        range.for_each(|number| writer.put(format!("{number:08}"), [7; 50]).unwrap());
    };
    put(0..5000);
    writer.flush().unwrap();
    let follower = Db::open_read_only(DIR, options).unwrap();
    put(5000..5010);
    writer.flush().unwrap();
    let work = refresh(&fs, &follower);
    assert!(work.operations < 25 && work.bytes < 200 << 10, "{work:?}");
    assert_eq!(follower.iter().count(), 5010);
}
