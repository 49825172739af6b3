//! What the random runs found, told small.

use minikv::{Db, Options, WriteBatch};

/// An empty batch is a record in the log. Replayed alone it made a memtable without entries, and
/// its flush a table without keys, which the next open refused.
#[test]
fn an_empty_batch_alone_in_a_log() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let open = || Db::open(home.path(), Options::default().create_if_missing(true)).unwrap();
    open().write(WriteBatch::new()).unwrap();
    let db = open();
    db.wait_idle().unwrap();
    db.flush().unwrap();
    drop(db);
    assert_eq!(open().iter().unwrap().count(), 0);
}
