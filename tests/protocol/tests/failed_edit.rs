//! A MANIFEST whose last edit was lost by a failed sync.

use minikv::fs::sim::{CrashPlan, Fault, OpKind, SimFs};
use minikv::{Compression, Db, Options};

const DIR: &str = "/db";

fn open(fs: &SimFs) -> minikv::Result<Db> {
    let options = Options::default().create_if_missing(true).compression(Compression::None);
    Db::open(DIR, options.fs(fs.clone()).inline_background(Some(1)).preallocate_logs(false))
}

/// Loses power after a sync of the MANIFEST has lost an edit with keys of `key_bytes` bytes, with
/// each seed. Returns the errors of the next opens.
fn errors(key_bytes: usize, seeds: u64) -> Vec<String> {
    let fs = SimFs::new(1);
    let db = open(&fs).unwrap();
    db.put(vec![b'a'; key_bytes], "value").unwrap();
    db.sync().unwrap();
    fs.inject(Fault::lost_sync().on(&[OpKind::Sync]).path("*MANIFEST*"));
    db.flush().unwrap_err();
    let reopened = (0..seeds).map(|seed| {
        let db = open(&fs.crash_image(&CrashPlan::random(seed)))?;
        assert_eq!(db.iter().count(), 1, "seed {seed}: a synced write is gone");
        Ok(())
    });
    let errors = reopened.filter_map(|opened: minikv::Result<()>| opened.err());
    errors.map(|error| error.to_string()).collect()
}

/// Checks edits of several lengths. Those of two keys of 16,336 to 16,338 bytes end at the end of a
/// block. So the mark of the failed sync, which follows, can be read although the edit is lost.
#[test]
fn a_database_opens_although_a_failed_sync_lost_the_last_edit() {
    for key_bytes in [10, 3000, 16_336, 16_337, 16_338, 40_000] {
        assert_eq!(errors(key_bytes, 40), [""; 0], "{key_bytes}");
    }
}
