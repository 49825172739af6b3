//! Checks the charts of the pages: one colour for an engine, colours for dark pages, and a legend
//! apart from the points. The tests of the command check the picture of the page of `demo`.

use std::collections::BTreeMap;
use std::fs;

use crate::{page, root};

/// Returns the colours of engines on light and on dark pages, from the table of the program that
/// draws the charts.
fn engine_colors() -> BTreeMap<String, (String, String)> {
    let source = page("benches/peers/src/colors.rs");
    let (_, table) = source.split_once("const ENGINES").expect("a table");
    let (table, _) = table.split_once("];").expect("an end of the table");
    let rows = table.lines().filter_map(|line| line.trim().strip_prefix("(\""));
    let row = |row: &str| {
        let (name, colors) = row.split_once("\", 0x").expect("a colour");
        let (light, dark) = colors.trim_end_matches("),").split_once(", 0x").expect("another");
        (name.to_string(), (light.to_uppercase(), dark.to_string()))
    };
    rows.map(row).collect()
}

/// An element of a chart: its attributes and, for a text, the text.
struct Element<'s> {
    tag: &'s str,
    text: &'s str,
}

impl<'s> Element<'s> {
    fn all(svg: &'s str) -> Vec<Element<'s>> {
        let parts = svg.split('<').skip(1).filter_map(|part| part.split_once('>'));
        parts.map(|(tag, text)| Element { tag, text: text.trim() }).collect()
    }

    fn attribute(&self, name: &str) -> Option<&'s str> {
        self.tag.split_once(&format!(" {name}=\""))?.1.split('"').next()
    }

    fn number(&self, name: &str) -> f64 {
        self.attribute(name).and_then(|n| n.parse().ok()).unwrap_or(f64::NAN)
    }

    fn color(&self) -> Option<&'s str> {
        let colors = ["fill", "stroke"].into_iter().filter_map(|name| self.attribute(name));
        colors.filter_map(|color| color.strip_prefix('#')).next()
    }
}

#[test]
fn charts_have_colors_for_dark_pages() {
    let mut charts = 0;
    for entry in fs::read_dir(root().join("docs")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|of| of != "svg") {
            continue;
        }
        let svg = fs::read_to_string(&path).unwrap();
        let (_, dark) =
            svg.split_once("@media (prefers-color-scheme: dark)").expect("dark colours");
        let (dark, rest) = dark.split_once("</style>").expect("an end of the style");
        for element in Element::all(rest) {
            let Some(color) = element.color() else { continue };
            assert!(dark.contains(&format!("\"#{color}\"]")), "{}: {color}", path.display());
        }
        charts += 1;
    }
    assert_eq!(charts, 3);
}

#[test]
fn an_engine_has_the_same_color_in_every_chart() {
    let colors = engine_colors();
    assert_eq!(colors.len(), 7);
    let charts = ["docs/amplification.svg", "docs/by-size.svg"].map(page);
    for svg in &charts {
        for (engine, (light, dark)) in &colors {
            assert!(svg.contains(&format!("[fill=\"#{light}\"] {{ fill: #{dark} }}")), "{engine}");
        }
    }
    let rows = Element::all(&charts[0]);
    let mut bars = 0;
    for name in rows.iter().filter(|row| row.attribute("text-anchor") == Some("end")) {
        let (engine, _) = name.text.split_once(", ").expect("an engine and its filters");
        let near = |y: f64| (-13.0..12.0).contains(&(y - name.number("y")));
        for bar in rows.iter().filter(|row| row.tag.starts_with("rect ") && near(row.number("y"))) {
            assert_eq!(bar.color(), Some(&*colors[engine].0), "{engine}");
            bars += 1;
        }
    }
    assert_eq!(bars, 9 * 6 - 4, "all bars, without those of counts that were not told");
    let performance = page("docs/performance.svg");
    let minikv = &colors["minikv"];
    for color in [&minikv.0.to_lowercase(), &minikv.1] {
        assert!(performance.contains(&format!(".w {{ fill: #{color} }}")), "{color}");
    }
}

#[test]
fn the_legend_hides_no_point() {
    let colors = engine_colors();
    let svg = page("docs/by-size.svg");
    let (legend, panels) = svg.split_once("<g transform=\"translate(0 24)\">").expect("panels");
    let elements = Element::all(legend);
    let mut names = Vec::new();
    for pair in elements.windows(3) {
        let [square, text] = [&pair[0], &pair[1]];
        if square.tag.starts_with("rect ") && text.tag.starts_with("text ") {
            assert_eq!(square.color(), Some(&*colors[text.text].0), "{}", text.text);
            assert!(square.number("y") + square.number("height") < 24.0);
            names.push(text.text);
        }
    }
    assert_eq!(names, ["fjall", "leveldb", "minikv", "rocksdb"]);
    assert!(!panels.contains("<rect"), "a box in a panel could hide a point");
    for name in names {
        assert!(!panels.contains(&format!("\n{name}\n")), "{name}");
        assert!(panels.contains(&format!("stroke=\"#{}\"", colors[name].0)), "{name}");
    }
}
