//! Colours of the charts: an engine has the same colour in every chart, and charts have colours for
//! dark pages, too.

use std::fmt::Write as _;
use std::path::Path;

use minikv_workloads::Result;
use plotters::prelude::*;

/// Names of the engines, and their colours on light and on dark pages.
const ENGINES: [(&str, u32, u32); 7] = [
    ("minikv", 0x3b78b5, 0x6ea8e0),
    ("minikv-table", 0x8db9e0, 0xa9cdee),
    ("minikv-mapped", 0x2a9d9d, 0x5cc8c8),
    ("leveldb", 0xc8553d, 0xf0836a),
    ("rocksdb", 0x50a05a, 0x74c27e),
    ("fjall", 0x966eb4, 0xba97d6),
    ("redb", 0x828282, 0xa8a8a8),
];

/// Colours of paper and ink on light pages, and the colours that replace them on dark pages.
const OTHERS: [(u32, u32); 3] = [(0xffffff, 0x14181d), (0x000000, 0xe6e9ec), (0x282828, 0xe6e9ec)];

/// Colour of text and lines.
pub const INK: RGBColor = RGBColor(40, 40, 40);

/// Returns the colour of an engine. Unknown engines have the colour of text.
pub fn of(engine: &str) -> RGBColor {
    let known = ENGINES.iter().find(|(name, ..)| *name == engine);
    let parts = |rgb: u32| RGBColor((rgb >> 16) as u8, (rgb >> 8) as u8, rgb as u8);
    known.map_or(INK, |(_, light, _)| parts(*light))
}

/// Adds colours for dark pages to the chart in a file. Charts name the colours for light pages in
/// attributes, which a style sheet overrides.
pub fn add_dark(path: &Path) -> Result<()> {
    let svg = std::fs::read_to_string(path)?;
    let (start, rest) = svg.split_once(">\n").ok_or("a chart without its first tag")?;
    let mut style = "<style>\n@media (prefers-color-scheme: dark) {\n".to_string();
    let engines = ENGINES.iter().map(|(_, light, dark)| (*light, *dark));
    for (light, dark) in OTHERS.into_iter().chain(engines) {
        for attribute in ["fill", "stroke"] {
            let _ =
                writeln!(style, "[{attribute}=\"#{light:06X}\"] {{ {attribute}: #{dark:06x} }}");
        }
    }
    style.push_str("}\n</style>\n");
    std::fs::write(path, format!("{start}>\n{style}{rest}"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_engine_has_a_colour_of_its_own_on_both_pages() {
        for engine in crate::engines::ENGINES {
            assert_ne!(of(engine.name()), INK, "{}", engine.name());
        }
        for shade in [|e: &(&str, u32, u32)| e.1, |e: &(&str, u32, u32)| e.2] {
            let mut shades: Vec<_> = ENGINES.iter().map(shade).collect();
            shades.sort_unstable();
            shades.dedup();
            assert_eq!(shades.len(), ENGINES.len());
        }
    }

    #[test]
    fn dark_pages_replace_each_colour_that_a_chart_names() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("chart.svg");
        std::fs::write(&path, "<svg width=\"9\">\n<rect fill=\"#3B78B5\"/>\n</svg>\n").unwrap();
        add_dark(&path).unwrap();
        let svg = std::fs::read_to_string(path).unwrap();
        assert!(svg.starts_with("<svg width=\"9\">\n<style>\n@media (prefers-color-scheme: dark)"));
        assert!(svg.contains("[fill=\"#3B78B5\"] { fill: #6ea8e0 }"), "{svg}");
        assert!(svg.ends_with("</style>\n<rect fill=\"#3B78B5\"/>\n</svg>\n"), "{svg}");
    }
}
