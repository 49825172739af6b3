//! Formats lists, lines and rates for the text of a report.

/// Joins `parts` as in a sentence: `a`, `a and b`, or `a, b and c`.
pub fn listed(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Breaks `text` into lines of at most `width` characters. A number and its `%` stay on the same
/// line.
pub fn wrap(text: &str, width: usize) -> String {
    let mut lines = String::new();
    let mut used = 0;
    let text = text.replace(" %", "\u{a0}%");
    for word in text.split(' ') {
        let len = word.chars().count();
        if used > 0 {
            let fits = used + 1 + len <= width;
            lines.push_str(if fits { " " } else { "\n  " });
            used = if fits { used + 1 } else { 2 };
        }
        lines.push_str(word);
        used += len;
    }
    lines.replace('\u{a0}', " ")
}

/// Formats a rate in percent, such as `0.84 %`. A small rate has more digits.
pub fn percent(rate: f64) -> String {
    let percent = rate * 100.0;
    match percent {
        0.0 => "0 %".to_string(),
        p if p < 0.0001 => format!("{p:.1e} %"),
        p if p < 0.01 => format!("{p:.4} %"),
        p if p < 0.1 => format!("{p:.3} %"),
        p => format!("{p:.2} %"),
    }
}

/// Formats an interval in percent, such as `0.82 to 0.98 %`.
pub fn interval(low: f64, high: f64) -> String {
    let (low, high) = (percent(low), percent(high));
    format!("{} to {high}", low.trim_end_matches(" %"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_reads_as_a_sentence_does() {
        let parts = ["a", "b", "c"].map(str::to_string);
        assert_eq!(listed(&parts), "a, b and c");
        assert_eq!(listed(&parts[..2]), "a and b");
        assert_eq!((listed(&parts[..1]), listed(&[])), ("a".to_string(), String::new()));
    }

    #[test]
    fn lines_break_between_words_and_not_before_a_percent_sign() {
        assert_eq!(wrap("rates of 95 % and of 5 %", 11), "rates of\n  95 % and\n  of 5 %");
    }

    #[test]
    fn a_rate_of_zero_is_shown_as_zero() {
        let (low, high) = super::super::rates::wilson(0.0, 18.0);
        assert_eq!(interval(low, high), "0 to 17.59 %");
    }
}
