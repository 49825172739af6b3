//! Tests of progress and interrupts on terminals of several widths.

use super::*;

/// Runs a command on a terminal of `columns` columns, and interrupts the command when it shows
/// `until`. Returns its exit code and the text that it showed.
fn run_in_columns(command: &mut Command, columns: u16, until: Option<&str>) -> (i32, String) {
    let (mut child, mut screen) = Terminal::open(Some(columns)).unwrap().run(command, false);
    let (mut shown, mut buffer, mut until) = (Vec::new(), [0; 4096], until);
    while let Ok(read @ 1..) = screen.read(&mut buffer) {
        shown.extend_from_slice(&buffer[..read]);
        if until.is_some_and(|words| String::from_utf8_lossy(&shown).contains(words)) {
            until = None;
            interrupt(&child, Interrupt::ByUser).unwrap();
        }
    }
    let code = child.wait().unwrap().code().expect("an exit code");
    (code, String::from_utf8_lossy(&shown).into_owned())
}

/// Returns the lines that were drawn, without escape sequences.
fn drawn(shown: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut chars = shown.chars();
    while let Some(c) = chars.next() {
        match c {
            '\r' | '\n' => lines.push(String::new()),
            '\x1b' => drop(chars.by_ref().find(char::is_ascii_alphabetic)),
            c => lines.last_mut().unwrap().push(c),
        }
    }
    lines
}

/// Writes a file of entries. Returns its path.
fn entries(place: &Place, n: u32) -> String {
    let lines: String = (0..n)
        .map(|i| format!("key{:07}\tvalue {i}\n", u64::from(i) * 7919 % u64::from(n)))
        .collect();
    fs::write(place.path("entries"), lines).unwrap();
    place.path("entries").display().to_string()
}

#[test]
fn progress_fits_the_terminal_and_never_moves_up() {
    for columns in [80, 40] {
        let place = Place::new();
        let file = entries(&place, 60_000);
        let out = place.path("out").display().to_string();
        let commands: [(&[&str], &str); 4] = [
            (&["load", &file], "60,000 entries"),
            (&["dump", &out], "dumped 60,000 entries"),
            (&["compact"], "compacted: "),
            (&["delete", "--from", "key"], "deleted 1 table ("),
        ];
        for (args, result) in commands {
            let (code, shown) = run_in_columns(&mut place.command(args), columns, None);
            assert_eq!(code, 0, "{shown}");
            assert!(shown.contains(result), "{shown:?}");
            assert!(!shown.contains("\x1b[1A"), "{args:?} moves up: {shown:?}");
            // The line of the result may be wider than the terminal: only lines of progress must
            // fit.
            let progress = drawn(&shown).into_iter().filter(|line| !line.contains(result));
            for line in progress {
                assert!(line.chars().count() <= usize::from(columns), "{args:?}: {line:?}");
            }
        }
    }
}

#[test]
fn verify_shows_no_full_bar_before_it_has_begun() {
    let place = Place::new();
    place.ok(&["load", &entries(&place, 60_000)]);
    let (code, shown) = run_in_columns(&mut place.command(&["verify"]), 80, None);
    assert_eq!(code, 0, "{shown}");
    assert!(!shown.contains("0 B/0 B"), "{shown:?}");
    let bars = drawn(&shown).into_iter().filter(|line| line.starts_with("verifying"));
    let first = bars.into_iter().find(|line| line.contains('█') || line.contains('░'));
    assert!(first.is_none_or(|line| line.contains('░')), "{shown:?}");
}

#[test]
fn an_interrupted_load_reports_the_entries_that_stay() {
    let place = Place::new();
    let lines = fs::read(entries(&place, 100_000)).unwrap();
    // The load reads from a pipe that stays open, so that it cannot end before it is interrupted.
    let pipe = place.path("pipe");
    make_pipe(&pipe).unwrap();
    let mut command = place.command(&["load", &pipe.display().to_string()]);
    let mut writer = File::options().read(true).write(true).open(&pipe).unwrap();
    // The new thread keeps the pipe open: it blocks forever, in the write or after it.
    std::thread::spawn(move || writer.write_all(&lines).map(|()| std::thread::park()));
    let (code, shown) = run_in_columns(&mut command, 80, Some(",000 entries"));
    assert_eq!(code, 130, "{shown:?}");
    let last = drawn(&shown).into_iter().rfind(|line| !line.is_empty()).unwrap();
    let said = last.strip_prefix("minikv: interrupted; ").expect("the last line");
    let loaded = said.strip_suffix(" entries loaded; they stay").unwrap().replace(',', "");
    assert_eq!(place.text(&["scan", "--count"]), loaded + "\n");
    place.ok(&["verify"]);
}

#[test]
fn an_interrupted_dump_leaves_no_file() {
    let place = Place::new();
    place.ok(&["load", &entries(&place, 300_000)]);
    fs::create_dir(place.path("dumps")).unwrap();
    fs::write(place.path("dumps/out"), b"precious").unwrap();
    let target = place.path("dumps/out").display().to_string();
    for how in [Interrupt::ByUser, Interrupt::ByProgram] {
        let mut command = place.command(&["dump", &target]);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        while fs::read_dir(place.path("dumps")).unwrap().count() < 2 {
            assert_eq!(child.try_wait().unwrap(), None, "it ended before it was interrupted");
        }
        interrupt(&child, how).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("interrupted; ") && said.contains("as it was before"), "{said}");
        let names: Vec<_> = contents(&place.path("dumps")).into_keys().collect();
        assert_eq!(names, ["out"]);
        assert_eq!(fs::read(&target).unwrap(), b"precious");
    }
}
