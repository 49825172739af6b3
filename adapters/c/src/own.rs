//! Functions that LevelDB does not have. Their names begin with `minikv_`.

use minikv::{Db, Readable, RepairOptions, Result};
use minikv_instrument::advise;
use serde::Serialize;

use crate::border::{ErrPtr, In, Kept, Malloced, export};
use crate::db::{Handle, bound, leveldb_t};
use crate::options::{leveldb_options_t, leveldb_readoptions_t, leveldb_writeoptions_t};

/// Returns a report as JSON, or null after an error.
fn json(report: Result<impl Serialize>, errptr: ErrPtr) -> Malloced {
    errptr.report(report).map_or_else(Malloced::null, |report| {
        let text = serde_json::to_vec(&report).expect("reports have text for keys");
        Malloced::copy(&text)
    })
}

export! {
    fn minikv_open_read_only(
        options: &leveldb_options_t,
        name: In,
        errptr: ErrPtr,
    ) -> Kept<leveldb_t> {
        let opened = options.open_with(|all| Db::open_read_only(name.path(), all));
        let opened = errptr.report(opened).map(|db| leveldb_t::new(Handle::Reader(db)));
        opened.unwrap_or_else(Kept::null)
    }

    /// Updates a read-only database to the current state of its writer, and returns whether
    /// anything changed. A database that is open for writing is always current.
    fn minikv_refresh(db: &leveldb_t, errptr: ErrPtr) -> u8 {
        match &db.handle {
            Handle::Writer(_) => 0,
            Handle::Reader(db) => {
                u8::from(errptr.report(db.refresh()).is_some_and(|refreshed| refreshed.changed))
            }
        }
    }

    fn minikv_flush(db: &leveldb_t, errptr: ErrPtr) {
        errptr.report(db.writer().and_then(Db::flush));
    }

    fn minikv_sync(db: &leveldb_t, errptr: ErrPtr) {
        errptr.report(db.writer().and_then(Db::sync));
    }

    fn minikv_wait_idle(db: &leveldb_t, errptr: ErrPtr) {
        errptr.report(db.writer().and_then(Db::wait_idle));
    }

    fn minikv_resume(db: &leveldb_t, errptr: ErrPtr) {
        errptr.report(db.writer().and_then(Db::resume));
    }

    fn minikv_compact_range(
        db: &leveldb_t,
        start: In,
        start_len: usize,
        limit: In,
        limit_len: usize,
        errptr: ErrPtr,
    ) {
        let range = (bound(start, start_len), bound(limit, limit_len));
        errptr.report(db.writer().and_then(|db| db.compact_range(range)));
    }

    fn minikv_delete_range(
        db: &leveldb_t,
        options: &leveldb_writeoptions_t,
        start: In,
        start_len: usize,
        limit: In,
        limit_len: usize,
        errptr: ErrPtr,
    ) {
        use std::ops::Bound::{Excluded, Unbounded};
        let limit = limit.bytes_or_null(limit_len).map_or(Unbounded, Excluded);
        let range = (bound(start, start_len), limit);
        let delete = |db: &Db| db.writing(options.write).delete_range(range);
        errptr.report(db.writer().and_then(delete));
    }

    fn minikv_checkpoint(db: &leveldb_t, name: In, errptr: ErrPtr) {
        errptr.report(db.writer().and_then(|db| db.checkpoint(name.path())));
    }

    fn minikv_stats_json(db: &leveldb_t, errptr: ErrPtr) -> Malloced {
        let stats = match &db.handle {
            Handle::Writer(db) => db.stats(),
            Handle::Reader(db) => db.stats(),
        };
        json(Ok(stats), errptr)
    }

    fn minikv_explain_json(
        db: &leveldb_t,
        options: &leveldb_readoptions_t,
        key: In,
        key_len: usize,
        errptr: ErrPtr,
    ) -> Malloced {
        let key = key.bytes(key_len);
        json(db.at(options).explain(key), errptr)
    }

    fn minikv_filter_advice_json(db: &leveldb_t, errptr: ErrPtr) -> Malloced {
        let advice = match &db.handle {
            Handle::Writer(db) => advise(db),
            Handle::Reader(db) => advise(db),
        };
        json(advice, errptr)
    }

    fn minikv_verify_json(options: &leveldb_options_t, name: In, errptr: ErrPtr) -> Malloced {
        let verify = |options| minikv::verify(name.path(), &options);
        let verified = options.checked().and_then(verify);
        json(verified.map_err(|error| minikv_status::of_tool(error, "verify")), errptr)
    }

    fn minikv_repair_json(
        options: &leveldb_options_t,
        name: In,
        dry_run: u8,
        errptr: ErrPtr,
    ) -> Malloced {
        let how = RepairOptions::default().dry_run(dry_run != 0);
        let repair = |options| minikv::repair(name.path(), &options, how);
        let repaired = options.checked().and_then(repair);
        json(repaired.map_err(|error| minikv_status::of_tool(error, "repair")), errptr)
    }
}
