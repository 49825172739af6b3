//! Internals for this repository's own tests, benchmarks, fuzz targets and command. Nothing here is
//! stable, and nothing outside the repository should use it.
#![allow(missing_docs, reason = "documented where they are defined")]

pub mod advice {
    pub mod curve {
        pub use crate::advice::curve::*;
    }
    pub mod levels {
        pub use crate::advice::levels::*;
    }
    pub mod judge {
        pub use crate::advice::judge::*;
    }
    pub mod scans {
        pub use crate::advice::grafite::*;
        pub use crate::advice::scans::*;
        pub use crate::engine::stats::sample::ScannedRange;
    }
    pub mod shadow {
        pub use crate::advice::plan::*;
        pub use crate::advice::shadow::*;
    }
}

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
    pub use crate::engine::open::directory::{check_files, has_database};
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
    pub use crate::format::{batch, block_builder, coding, compress, crc, handle, record};
    pub mod key {
        pub use crate::format::key::KIND_FOR_SEEK;
    }
    pub mod name {
        pub use crate::format::name::{CURRENT, current_contents, parse_current};
    }
}

pub mod log {
    pub use crate::log::LogWriter;
}

pub mod table {
    pub use crate::table::block_cache::BlockCache;
    pub use crate::table::builder::{TableBuilder, TableOptions, TableSummary};
    pub use crate::table::filters::FILTER_PREFIX;
    pub use crate::table::table_cache::{TableCache, TableSlot};
    pub use crate::table::{block_cache, counts};
}
