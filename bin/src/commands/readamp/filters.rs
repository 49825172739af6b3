//! Lists of filters to compare: `none,block:10,table:10,both:10`, or ranges such as `block:4..16`.

use std::fmt;
use std::sync::Arc;

use minikv::BloomFilterPolicy;
use minikv::internals::advice::shadow::{BlockFilters, FilterPlan, TableFilters};
use minikv::internals::filter::whole_table::MAX_BITS_PER_KEY;

const MAX_CONFIGURATIONS: usize = 64;

/// The filters of one configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Filters {
    /// The filters that the files have.
    AsIs,
    /// The files' filters are not used.
    Ignored,
    /// No filters.
    None,
    /// LevelDB's kind: one filter for each 2 KiB of data blocks, with this many bits per key.
    Block(u32),
    /// One filter for each table, with this many bits per key.
    Table(u32),
    /// Both kinds: LevelDB queries the blocks' filters, minikv the table's.
    Both(u32),
}

impl Filters {
    /// Parses a list.
    pub fn list(text: &str) -> Result<Vec<Filters>, String> {
        let mut list = Vec::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            for filters in Filters::parse(part)? {
                if !list.contains(&filters) {
                    list.push(filters);
                }
            }
        }
        match list.len() {
            0 => Err("name at least one, e.g. none,block:10".to_string()),
            n if n > MAX_CONFIGURATIONS => {
                Err(format!("{n} configurations are too many, {MAX_CONFIGURATIONS} are possible"))
            }
            _ => Ok(list),
        }
    }

    /// Parses one part of a list: a configuration, or a range of them.
    fn parse(part: &str) -> Result<Vec<Filters>, String> {
        let (kind, bits) = part.split_once(':').unwrap_or((part, ""));
        match (kind, bits) {
            ("none", "") => return Ok(vec![Filters::None]),
            ("as-is", "") => return Ok(vec![Filters::AsIs]),
            ("ignored", "") => return Ok(vec![Filters::Ignored]),
            _ => {}
        }
        let of: fn(u32) -> Filters = match kind {
            "block" => Filters::Block,
            "table" => Filters::Table,
            "both" => Filters::Both,
            _ => {
                return Err(format!(
                    "{part:?} is no configuration: none, as-is, ignored, or block, table or both \
                     with bits per key as in block:10 or block:4..16"
                ));
            }
        };
        Ok(range_of(part, bits)?.into_iter().map(of).collect())
    }

    /// Returns the number of bits per key of new filters.
    pub fn bits(&self) -> Option<u32> {
        match *self {
            Filters::Block(bits) | Filters::Table(bits) | Filters::Both(bits) => Some(bits),
            Filters::AsIs | Filters::Ignored | Filters::None => None,
        }
    }

    /// Returns the name of the kind, without the size.
    pub fn kind(&self) -> &'static str {
        match self {
            Filters::AsIs => "as-is",
            Filters::Ignored => "ignored",
            Filters::None => "none",
            Filters::Block(_) => "block",
            Filters::Table(_) => "table",
            Filters::Both(_) => "both",
        }
    }

    /// Returns whether lookups query the filters.
    pub fn asked(&self) -> bool {
        !matches!(self, Filters::Ignored)
    }

    /// Returns whether the tables' own filters are used.
    pub fn own(&self) -> bool {
        matches!(self, Filters::AsIs | Filters::Ignored)
    }

    /// Returns the plan that gives tables these filters.
    pub fn plan(&self) -> FilterPlan {
        let block = |bits| BlockFilters::New(Arc::new(BloomFilterPolicy::new(bits)));
        let (blocks, table) = match *self {
            Filters::AsIs => (BlockFilters::Own, TableFilters::Own),
            Filters::Ignored | Filters::None => (BlockFilters::None, TableFilters::None),
            Filters::Block(bits) => (block(bits), TableFilters::None),
            Filters::Table(bits) => (BlockFilters::None, TableFilters::New(bits)),
            Filters::Both(bits) => (block(bits), TableFilters::New(bits)),
        };
        FilterPlan { blocks, table }
    }
}

impl fmt::Display for Filters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bits() {
            Some(bits) => write!(f, "{}:{bits}", self.kind()),
            None => f.write_str(self.kind()),
        }
    }
}

/// Parses `10`, or `4..16` with both ends included.
fn range_of(part: &str, bits: &str) -> Result<Vec<u32>, String> {
    let number = |text: &str| match text.parse::<u32>() {
        Ok(bits) if (1..=MAX_BITS_PER_KEY).contains(&bits) => Ok(bits),
        _ => Err(format!("{part:?}: bits per key are a whole number from 1 to {MAX_BITS_PER_KEY}")),
    };
    match bits.split_once("..") {
        None => Ok(vec![number(bits)?]),
        Some((from, to)) => {
            let (from, to) = (number(from)?, number(to.trim_start_matches('='))?);
            if from > to {
                return Err(format!("{part:?}: a range must ascend"));
            }
            Ok((from..=to).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_sweeps_are_read() {
        let list = Filters::list("none, block:10,block:9..11,ignored,table:8,both:8").unwrap();
        let names: Vec<_> = list.iter().map(Filters::to_string).collect();
        assert_eq!(
            names,
            ["none", "block:10", "block:9", "block:11", "ignored", "table:8", "both:8"]
        );
        for bad in ["", ",", "block", "block:0", "block:65", "block:4..2", "block:x", "bloom:10"] {
            assert!(Filters::list(bad).is_err(), "{bad:?}");
        }
    }
}
