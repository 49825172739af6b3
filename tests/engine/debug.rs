//! Debug output of handles: it names them, and has no entries.

use std::fmt::Debug;
use std::time::SystemTime;

use minikv::bulk::TableWriter;
use minikv::events::Event;
use minikv::fs::MemFs;
use minikv::{CompactionDecision, Db, Options, Readable, Resources, WriteBatch};

/// A program's own key and value.
const OWN: &str = "own-0b5e";

fn check(name: &str, shown: &dyn Debug) {
    let shown = format!("{shown:?}");
    assert!(shown.contains(name), "{name}: {shown}");
    // Bytes may be shown as text or as numbers.
    for own in [OWN.to_owned(), format!("{:?}", &OWN.as_bytes()[..4]).replace(['[', ']'], "")] {
        assert!(!shown.contains(&own), "{name} shows an entry: {shown}");
    }
}

#[test]
fn a_handle_names_itself_and_shows_no_entries() {
    let fs = MemFs::new();
    let resources = Resources::default()
        .memory_bytes(64 << 20)
        .compaction_threads(2)
        .background_bytes_per_second(1 << 30);
    let options = Options::default()
        .create_if_missing(true)
        .fs(fs.clone())
        .clock(SystemTime::now)
        .observer(|_: &Event| {})
        .compaction_filter(|_, _| CompactionDecision::Keep)
        .resources(&resources);
    check("Options", &options);
    check("Resources", &resources);
    check("MemFs", &fs);
    let mut writer = TableWriter::create("/tables", &options).unwrap();
    writer.put(OWN, OWN).unwrap();
    check("TableWriter", &writer);
    drop(writer);

    let mut batch = WriteBatch::new();
    batch.put(OWN, OWN);
    check("WriteBatch", &batch);
    let db = Db::open("/db", options.clone()).unwrap();
    db.write(batch).unwrap();
    check("Db", &db);
    check("Snapshot", &db.snapshot());
    check("Keyspace", &db.keyspace("users").unwrap());
    let mut transaction = db.transaction();
    transaction.put(OWN, OWN);
    assert_eq!(transaction.get(OWN).unwrap().as_deref(), Some(OWN.as_bytes()));
    check("Transaction", &transaction);
    drop(transaction);
    let mut cursor = db.cursor().unwrap();
    assert!(cursor.seek_to_first().unwrap());
    db.close().unwrap();
    let db = Db::open_read_only("/db", options).unwrap();
    assert_eq!(db.get(OWN).unwrap().as_deref(), Some(OWN.as_bytes()));
    check("ReadOnlyDb", &db);
}
