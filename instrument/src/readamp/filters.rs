//! Lists of filters to compare: `none,block:10,table:10,both:10`, or ranges such as `block:4..16`
//! and `block:0..20:2`.

use std::fmt;

use crate::advice::levels::{Bits, name_by_level};
use crate::advice::plan::{BlockFilters, FilterKind, FilterPlan, TableFilters, TreePlan};
use minikv::files::NUM_LEVELS;
use minikv::filter::MAX_BITS_PER_KEY;

const MAX_CONFIGURATIONS: usize = 64;

/// The filters of one configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FilterCase {
    /// The filters that are in the files.
    AsIs,
    /// The filters that are in the files, but lookups do not use them.
    Ignored,
    /// No filters.
    None,
    /// LevelDB's filters: one filter for each 2 KiB of data blocks, with this number of bits per
    /// key.
    Block(u32),
    /// One filter for each table, with this number of bits per key.
    Table(u32),
    /// Both kinds of filters. LevelDB queries the block filters, and minikv queries the table
    /// filter.
    Both(u32),
    /// Filters with this layout, and the number of bits per key at each level. A level with 0 bits
    /// has no filters.
    ByLevel(FilterKind, Bits),
}

impl FilterCase {
    /// Parses a list of configurations.
    pub fn list(text: &str) -> Result<Vec<FilterCase>, String> {
        let mut list = Vec::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            for filters in FilterCase::parse(part)? {
                if !list.contains(&filters) {
                    list.push(filters);
                }
            }
        }
        match list.len() {
            0 => Err("name at least one, e.g. none,block:10".to_string()),
            n if n > MAX_CONFIGURATIONS => {
                Err(format!("{n} configurations are too many; give up to {MAX_CONFIGURATIONS}"))
            }
            _ => Ok(list),
        }
    }

    /// Parses one element of a list: a configuration, or a range of configurations.
    fn parse(part: &str) -> Result<Vec<FilterCase>, String> {
        let (kind, bits) = part.split_once(':').unwrap_or((part, ""));
        match (kind, bits) {
            ("none", "") => return Ok(vec![FilterCase::None]),
            ("as-is", "") => return Ok(vec![FilterCase::AsIs]),
            ("ignored", "") => return Ok(vec![FilterCase::Ignored]),
            _ => {}
        }
        if bits.contains('/') {
            return Ok(vec![FilterCase::by_level(part, kind, bits)?]);
        }
        let of: fn(u32) -> FilterCase = match kind {
            "block" => FilterCase::Block,
            "table" => FilterCase::Table,
            "both" => FilterCase::Both,
            _ => {
                return Err(format!(
                    "{part:?} is not a configuration: give none, as-is, ignored, or block, table \
                     or both with bits per key, as in block:10, block:4..16 or block:0..20:2"
                ));
            }
        };
        let sized = |bits| if bits == 0 { FilterCase::None } else { of(bits) };
        Ok(range_of(part, bits)?.into_iter().map(sized).collect())
    }

    /// Parses a list such as `14/10/4`: the bits per key at each level, from level 0 on. The last
    /// number also applies to all deeper levels.
    fn by_level(part: &str, kind: &str, bits: &str) -> Result<FilterCase, String> {
        let layout = match kind {
            "block" => FilterKind::Block,
            "table" => FilterKind::Table,
            "both" => FilterKind::Both,
            _ => return Err(format!("{part:?}: only block, table and both have bits by level")),
        };
        let mut levels: Bits = [0; NUM_LEVELS];
        let mut last = 0;
        let mut given = bits.split('/');
        for level in &mut levels {
            if let Some(bits) = given.next() {
                last = bits.parse().ok().filter(|bits| *bits <= MAX_BITS_PER_KEY).ok_or_else(
                    || {
                        format!(
                            "{part:?}: bits per key are a whole number up to {MAX_BITS_PER_KEY}"
                        )
                    },
                )?;
            }
            *level = last;
        }
        match given.next() {
            Some(_) => Err(format!("{part:?}: there are only {NUM_LEVELS} levels")),
            None => Ok(FilterCase::ByLevel(layout, levels)),
        }
    }

    /// Returns the number of bits per key of new filters, if it is the same at all levels.
    pub fn bits(&self) -> Option<u32> {
        match *self {
            FilterCase::Block(bits) | FilterCase::Table(bits) | FilterCase::Both(bits) => {
                Some(bits)
            }
            FilterCase::AsIs | FilterCase::Ignored | FilterCase::None | FilterCase::ByLevel(..) => {
                None
            }
        }
    }

    /// Returns the name of the kind of filter, without the bits per key.
    pub fn kind(&self) -> &'static str {
        match self {
            FilterCase::AsIs => "as-is",
            FilterCase::Ignored => "ignored",
            FilterCase::None => "none",
            FilterCase::Block(_) => "block",
            FilterCase::Table(_) => "table",
            FilterCase::Both(_) | FilterCase::ByLevel(FilterKind::Both, _) => "both",
            FilterCase::ByLevel(FilterKind::Table, _) => "table",
            FilterCase::ByLevel(..) => "block",
        }
    }

    /// Returns whether lookups query the filters.
    pub fn asked(&self) -> bool {
        !matches!(self, FilterCase::Ignored)
    }

    /// Returns whether the tables keep the filters that are in the files.
    pub fn own(&self) -> bool {
        matches!(self, FilterCase::AsIs | FilterCase::Ignored)
    }

    /// Returns the plan for building these filters in the tables.
    pub fn plan(&self) -> TreePlan {
        let new = |layout, bits| TreePlan::from(FilterPlan::new(layout, bits));
        match *self {
            FilterCase::AsIs => {
                FilterPlan { blocks: BlockFilters::Own, table: TableFilters::Own }.into()
            }
            FilterCase::Ignored | FilterCase::None => new(FilterKind::None, 0),
            FilterCase::Block(bits) => new(FilterKind::Block, bits),
            FilterCase::Table(bits) => new(FilterKind::Table, bits),
            FilterCase::Both(bits) => new(FilterKind::Both, bits),
            FilterCase::ByLevel(layout, bits) => {
                TreePlan(bits.map(|bits| FilterPlan::new(layout, bits)))
            }
        }
    }
}

impl fmt::Display for FilterCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, self.bits()) {
            (FilterCase::ByLevel(layout, bits), _) => f.write_str(&name_by_level(*layout, bits)),
            (_, Some(bits)) => write!(f, "{}:{bits}", self.kind()),
            (_, None) => f.write_str(self.kind()),
        }
    }
}

/// Parses a number such as `10`; a range such as `4..16`, which includes both ends; or a range with
/// a step, such as `0..20:2`.
fn range_of(part: &str, bits: &str) -> Result<Vec<u32>, String> {
    let number = |text: &str| match text.parse::<u32>() {
        Ok(bits) if bits <= MAX_BITS_PER_KEY => Ok(bits),
        _ => Err(format!("{part:?}: bits per key are a whole number from 0 to {MAX_BITS_PER_KEY}")),
    };
    let Some((from, rest)) = bits.split_once("..") else { return Ok(vec![number(bits)?]) };
    let (to, step) = rest.split_once(':').unwrap_or((rest, "1"));
    let (from, to) = (number(from)?, number(to.trim_start_matches('='))?);
    let step = step.parse().ok().filter(|step| (1..=MAX_BITS_PER_KEY).contains(step));
    match step {
        None => Err(format!("{part:?}: a step is a whole number from 1 to {MAX_BITS_PER_KEY}")),
        Some(_) if from > to => Err(format!("{part:?}: a range must ascend")),
        Some(step) => Ok((from..=to).step_by(step as usize).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_sweeps_are_read() {
        let list = FilterCase::list("none, block:10,block:9..11,ignored,table:8,both:8").unwrap();
        let names: Vec<_> = list.iter().map(FilterCase::to_string).collect();
        assert_eq!(
            names,
            ["none", "block:10", "block:9", "block:11", "ignored", "table:8", "both:8"]
        );
        let list = FilterCase::list("block:14/10/0,table:9/9").unwrap();
        let levels = [14, 10, 0, 0, 0, 0, 0];
        assert_eq!(list[0], FilterCase::ByLevel(FilterKind::Block, levels));
        let names: Vec<_> = list.iter().map(FilterCase::to_string).collect();
        assert_eq!(names, ["block:14/10/0", "table:9"]);
        for bad in ["block:9/", "none:1/2", "block:1/2/3/4/5/6/7/8", "block:65/1"] {
            assert!(FilterCase::list(bad).is_err(), "{bad:?}");
        }
        let names = |text| -> Vec<String> {
            FilterCase::list(text).unwrap().iter().map(FilterCase::to_string).collect()
        };
        assert_eq!(names("block:0..7:3,table:0..4:4"), ["none", "block:3", "block:6", "table:4"]);
        assert_eq!(names("table:0"), ["none"], "no bits are no filter");
        for bad in ["", ",", "block", "block:65", "block:4..2", "block:x", "bloom:10"] {
            assert!(FilterCase::list(bad).is_err(), "{bad:?}");
        }
        for bad in ["block:0..8:0", "block:0..8:", "block:0..8:x", "block:8:2", "block:0..65:2"] {
            assert!(FilterCase::list(bad).is_err(), "{bad:?}");
        }
    }
}
