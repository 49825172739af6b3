//! Internals for the library's own tests and fuzz targets. Nothing here is stable, and nothing
//! outside the repository should use it.
#![allow(missing_docs, reason = "documented where they are defined")]

pub mod base {
    pub use crate::base::{hash, random};
}

pub mod block {
    pub use crate::block::{Block, cursor};
}

pub mod dialect {
    pub use crate::dialect::indexed_db;
}

pub mod engine {
    pub use crate::engine::memtable;
}

pub mod filter {
    pub use crate::filter::block::FilterBlockBuilder;
    pub mod bloom {
        pub use crate::filter::bloom::*;
    }
    pub mod whole_table {
        pub use crate::filter::whole_table::*;
    }
}

pub mod format {
    pub use crate::format::{block_builder, coding, compress, crc, record};
    pub mod handle {
        use crate::base::Result;
        use crate::format::coding::Decoder;
        pub use crate::format::handle::*;

        pub fn decode(src: &[u8]) -> Result<BlockHandle> {
            BlockHandle::decode(&mut Decoder::new(src))
        }
    }
    pub mod batch {
        use crate::base::Result;
        pub use crate::format::batch::*;
        use crate::format::key::SeqNo;

        pub fn set_sequence(batch: &mut WriteBatch, seq: SeqNo) {
            batch.set_sequence(seq);
        }

        pub fn check(batch: &WriteBatch) -> Result<()> {
            batch.check()
        }
    }
    pub mod edit {
        use crate::format::edit::VersionEdit;

        pub fn encode(edit: &VersionEdit, dst: &mut Vec<u8>) {
            edit.encode(dst);
        }
    }
    pub mod key {
        pub use crate::format::key::{
            InternalComparator, KIND_FOR_SEEK, KeyOrder, UserComparator, internal_key, user_key,
        };
    }
    pub mod name {
        pub use crate::format::name::{
            CURRENT, current_contents, legacy_table_name, log_name, manifest_name, parse_current,
            table_name,
        };
    }
}

pub mod log {
    use std::path::Path;
    use std::sync::Arc;

    use crate::base::Result;
    use crate::fs::ReadFile;
    use crate::log::LogReader;
    pub use crate::log::LogWriter;

    pub fn of_batches(file: Arc<dyn ReadFile>, path: &Path) -> Result<LogReader> {
        LogReader::of_batches(file, path)
    }
}

pub mod table {
    pub use crate::table::block_cache::BlockCache;
    pub use crate::table::builder::{TableBuilder, TableOptions, TableSummary};
    pub use crate::table::filters::FILTER_PREFIX;
    pub use crate::table::table_cache::{TableCache, TableSlot};
    pub use crate::table::{BlockReadOptions, Found, Table, TableContext, block_cache, counts};
}
