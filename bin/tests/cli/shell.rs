//! Tests of `minikv shell`.

use super::*;

/// Runs `minikv shell` with a script.
fn script(place: &Place, lines: &str) -> Ran {
    place.feed(&["shell"], lines.as_bytes())
}

#[test]
fn a_script_runs_the_same_commands_with_one_open_database() {
    let place = Place::new();
    let puts: String = (0..20).map(|i| format!("put k{i:02} 'value {i}'\n")).collect();
    let lines = format!(
        "# a comment, and an empty line\n\n{puts}get k07 --format escaped\ndelete k00 k01\n\
         scan --count\nscan -r -n 1\n"
    );
    let ran = script(&place, &lines);
    assert_eq!(ran.stderr, "");
    assert_eq!(String::from_utf8(ran.ok()).unwrap(), "value 7\n18\nk19\tvalue 19\n");
    assert_eq!(place.ok(&["get", "k19"]), b"value 19");
}

#[test]
fn a_script_may_have_a_byte_order_mark_and_lines_that_end_with_cr_lf() {
    let place = Place::new();
    script(&place, "\u{feff}put a 1\r\n\r\nput b '2 '\r\n# c\r\nput c 3\r").ok();
    assert_eq!(place.text(&["dump"]), "a\t1\nb\t2 \nc\t3\n");
    place.feed(&["batch"], b"\xef\xbb\xbfput\ta\t4\r\ncommit\r\ndelete\tc\r\n").ok();
    place.feed(&["load", "--format", "hex"], b"64\t35\r\n").ok();
    assert_eq!(place.text(&["dump"]), "a\t4\nb\t2 \nd\t5\n");
    place.feed(&["load"], b"e\t5\r6\r\n").fails(2, &["stdin line 1", "0x0d"]);
}

#[test]
fn messages_repeat_typed_text_escaped_and_cut() {
    let place = Place::new();
    let long = "x".repeat(100_000);
    for args in [[&long, "a"], ["get", &format!("--{long}")], ["--cache-size", &long]] {
        let ran = place.run(&args);
        ran.fails(2, &["xxx…"]);
        assert!(ran.stderr.len() < 1000, "{}", ran.stderr.len());
    }
    place.run(&["a\nb\u{1b}[31mc"]).fails(2, &["'a\\nb\\u{1b}[31mc'"]);
    script(&place, "\u{1b}[31mc\n").fails(2, &["stdin line 1: ", "'\\u{1b}[31mc'"]);
}

#[test]
fn a_help_page_that_cannot_be_written_is_an_error() {
    let full = || File::options().write(true).open("/dev/full").unwrap();
    for args in [&["help"][..], &["--version"], &["get", "--help"]] {
        let output = minikv().args(args).stdout(full()).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(5), "{args:?}: {stderr}");
        assert!(stderr.starts_with("minikv: cannot write stdout: "), "{stderr}");
    }
}

#[test]
fn the_database_is_locked_from_the_first_write_to_the_end() {
    let place = Place::new();
    place.ok(&["put", "a", "1"]);
    let mut child = place
        .command(&["shell"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut answer = |line: &str| {
        writeln!(stdin, "{line}").unwrap();
        let mut answer = String::new();
        stdout.read_line(&mut answer).unwrap();
        answer
    };
    assert_eq!(answer("get a --format escaped"), "1\n");
    // A shell that has only read sees what others write.
    place.ok(&["put", "a", "2"]);
    assert_eq!(answer("get a --format escaped"), "2\n");
    let empty = place.path("empty");
    std::fs::write(&empty, b"").unwrap();
    let lines = format!("batch '{}'\nput a 3\nget a --format escaped", empty.display());
    assert_eq!(answer(&lines), "3\n");
    for reader in ["stats --json", "scan --count", "verify --json", "tree", "keyspaces --json"] {
        assert!(!answer(reader).is_empty(), "{reader}");
        // A reader in the shell must not release the lock.
        let refused = place.run(&["put", "b", "1"]);
        refused.fails(3, &["LOCK"]);
    }
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    assert_eq!(output.status.code(), Some(0));
    place.ok(&["put", "b", "1"]);
}

#[test]
fn a_script_stops_at_its_first_error_with_its_line_and_exit_code() {
    let place = Place::new();
    script(&place, "put a 1\n\nput b\nput c 3\n").fails(2, &["stdin line 3: ", "VALUE"]);
    assert_eq!(place.text(&["scan"]), "a\t1\n", "what came before stays, what comes after is not");
    let ran = script(&place, "get nothing\nput c 3\n");
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("key not found: nothing"), "{}", ran.stderr);
    assert!(ran.stderr.ends_with("stdin line 1 ended with exit code 1\n"), "{}", ran.stderr);
    script(&place, "put 'c 3\n").fails(2, &["stdin line 1: ", "quote"]);
    script(&place, "frobnicate\n").fails(2, &["stdin line 1: ", "frobnicate"]);
    script(&place, "shell\n").fails(2, &["stdin line 1: ", "this is the shell"]);
    script(&place, "put c 3\nexit\nfrobnicate\n").ok();
    assert_eq!(place.ok(&["get", "c"]), b"3");
    let held = place.hold();
    let ran = script(&place, "scan --count\nput a 2\n");
    assert_eq!(ran.code, Some(3));
    assert!(ran.stderr.contains("minikv: stdin line 2: "), "{}", ran.stderr);
    assert_eq!(ran.stdout, b"3\n");
    held.wait_with_output().unwrap();
}

#[test]
fn commands_that_lock_the_database_work_between_writes() {
    let place = Place::new();
    let [copy, backups] = ["copy", "backups"].map(|name| place.path(name).display().to_string());
    let lines = format!(
        "put a 1\ncheckpoint '{copy}'\nput b 2\nbackup '{backups}'\nput c 3\nrepair\n\
         put d 4 --write-buffer 64KiB\ncompact\nscan --count\ninspect '{}'\nhelp\n\
         diff '{copy}' '{}'\n",
        place.db().join("CURRENT").display(),
        place.db().display(),
    );
    let ran = script(&place, &lines);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.ends_with("stdin line 12 ended with exit code 1\n"), "{}", ran.stderr);
    let text = String::from_utf8(ran.stdout).unwrap();
    assert!(text.contains("\n4\n") && text.contains("Usage: minikv"), "{text}");
    assert!(text.ends_with("+\tb\t2\n+\tc\t3\n+\td\t4\n"), "{text}");
    let of_copy = run(minikv().args(["--db", &copy, "scan"]), b"").ok();
    assert_eq!(of_copy, b"a\t1\n");
    script(&place, "put e 5\ndestroy --yes\n").ok();
    assert!(!place.db().exists());
}

#[test]
fn options_of_the_shell_hold_for_its_lines_and_other_databases_can_be_named() {
    let (place, other) = (Place::new(), Place::new());
    other.ok(&["put", "o", "1"]);
    let lines = format!(
        "put 61 x\nscan\nscan --format escaped\nscan '{0}'\n--db '{0}' put 62 y\n\
         scan '{0}' --count\n",
        other.db().display()
    );
    let ran = place.feed(&["shell", "--format", "hex"], lines.as_bytes());
    assert_eq!(String::from_utf8(ran.ok()).unwrap(), "61\t78\na\tx\n6f\t31\n2\n");
    let by_argument = run(minikv().arg("shell").arg(place.db()), b"scan\nbench --entries 10\n");
    assert!(by_argument.ok().starts_with(b"a\tx\n"));
    assert_eq!(place.text(&["scan"]), "a\tx\n", "bench has a database of its own");
}

#[test]
fn a_terminal_edits_completes_and_keeps_lines() {
    let place = Place::new();
    place.feed(&["load"], b"user:1\tann\nuser:2\tbob\n").ok();
    let history = place.path("state/history");
    let shell = |steps: &[(&str, &str)]| {
        let mut command = place.command(&["shell"]);
        command.env("MINIKV_HISTORY", &history).env("TERM", "xterm");
        converse(&mut command, steps)
    };
    let (code, shown) = shell(&[
        // A tab completes `ge` to `get`, and `us` to `user:`.
        ("ge\t us\t2\r", "bob"),
        // Ctrl-C cancels a line.
        ("put x\x03", "put x"),
        ("get none\r", "key not found: none"),
        ("put user:3 cy\r", "put user:3 cy"),
        ("get user:3\r", "cy"),
        // Ctrl-D.
        ("\x04", ""),
    ]);
    assert_eq!(code, Some(0), "{shown}");
    for part in ["bob\r\n", "key not found: none", "cy\r\n"] {
        assert!(shown.contains(part), "{part:?} in {shown}");
    }
    assert_eq!(place.text(&["scan", "--keys-only"]), "user:1\nuser:2\nuser:3\n");
    let kept = fs::read_to_string(&history).unwrap();
    assert!(kept.contains("get user:2") && kept.contains("put user:3 cy"), "{kept}");
    assert!(!kept.contains("put x"), "a cancelled line: {kept}");
    place.ok(&["delete", "user:3"]);
    // The line before the last one, again.
    let (code, shown) = shell(&[("\x1b[A\x1b[A\r", "put user:3 cy"), ("exit\r", "")]);
    assert_eq!(code, Some(0), "{shown}");
    assert_eq!(place.text(&["scan", "--count"]), "3\n");
}

#[test]
fn a_terminal_writes_again_after_a_failed_write() {
    let place = Place::new();
    place.ok(&["put", "a", "1"]);
    fs::write(place.path("big"), vec![b'x'; 16 << 20]).unwrap();
    // A write past the limit is an error only if the signal is ignored. The unit of the limit is
    // 512 bytes in some shells and 1 KiB in others.
    let limited = "trap '' XFSZ; ulimit -f 4096; exec \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", limited, "sh", env!("CARGO_BIN_EXE_minikv")]);
    command.args(["--db", "db", "shell"]).current_dir(place.dir.path());
    command.env_remove("MINIKV_DB").env("NO_COLOR", "1").env("TERM", "xterm");
    let (code, shown) = converse(
        command.env("MINIKV_HISTORY", ""),
        &[
            ("put b @big\r", "File too large"),
            ("put c 3\r", "put c 3"),
            ("put d @big\r", "File too large"),
            ("delete a\r", "delete a"),
            ("get c\r", "3"),
            ("exit\r", ""),
        ],
    );
    assert_eq!(code, Some(0), "{shown}");
    assert!(!shown.contains("run the command again"), "{shown}");
    assert_eq!(place.text(&["scan"]), "c\t3\n");
}

/// Closing any descriptor of the lock file would release the lock that other programs ask for.
#[test]
fn a_shell_keeps_its_lock_when_lines_name_the_lock_file() {
    let place = Place::new();
    place.ok(&["put", "a", "1"]);
    place.ok(&["dump", place.path("entries").to_str().unwrap()]);
    fs::hard_link(place.db().join("LOCK"), place.path("alias")).unwrap();
    let mut command = minikv();
    command.args(["--db", "db", "shell"]).current_dir(place.dir.path());
    command.env("TERM", "xterm").env("MINIKV_HISTORY", "");
    let named = [
        "load db/LOCK\r",
        "put b 2\r",
        "inspect db/LOCK\r",
        "load alias\r",
        "put k @db/LOCK\r",
        "diff db db/LOCK\r",
        "dump db/LOCK\r",
        "readamp entries --lookups db/LOCK\r",
        "top --count 1 --metrics db/LOCK\r",
        "trace --html db/LOCK -- put c 3\r",
    ];
    let step = |line: &'static str| (line, line.split(' ').next().unwrap());
    let steps = named.into_iter().map(step).chain([("put d 4\r", "put"), ("exit\r", "")]);
    let steps: Vec<_> = steps.collect();
    let lock = place.db().join("LOCK");
    let (code, shown) = converse_and(&mut command, &steps, |done| {
        // `trace` closes the database of the shell.
        if done > 1 && !steps[done - 1].0.starts_with("trace") {
            assert!(has_record_lock(&lock).unwrap(), "after {:?}", steps[done - 1].0);
        }
    });
    assert_eq!(code, Some(0), "{shown}");
    let refusals = shown.matches("is the lock file of the database").count();
    assert_eq!(refusals, named.len() - 1, "{shown}");
    assert_eq!(place.text(&["scan"]), "a\t1\nb\t2\nd\t4\n");
}

/// Runs a command on a terminal. Types the first element of each step, and waits until the command
/// has shown the second element and then, on a later line, its prompt.
fn converse(command: &mut Command, steps: &[(&str, &str)]) -> (Option<i32>, String) {
    converse_and(command, steps, |_| {})
}

/// Does the same as [`converse`], and calls `before` before each step with the number of steps that
/// are done.
fn converse_and(
    command: &mut Command,
    steps: &[(&str, &str)],
    mut before: impl FnMut(usize),
) -> (Option<i32>, String) {
    let (mut child, mut screen) = Terminal::open(Some(80)).unwrap().run(command, true);
    let (sender, output) = std::sync::mpsc::channel();
    let mut reader = screen.try_clone().unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(read @ 1..) = reader.read(&mut buffer) {
            let _ = sender.send(buffer[..read].to_vec());
        }
    });
    let (mut shown, mut seen) = (Vec::new(), 0);
    let (mut steps, mut awaited) = (steps.iter().enumerate(), "Ctrl-D ends");
    loop {
        use std::sync::mpsc::RecvTimeoutError::{Disconnected, Timeout};
        match output.recv_timeout(std::time::Duration::from_secs(60)) {
            Ok(bytes) => shown.extend(bytes),
            Err(Disconnected) => break,
            Err(Timeout) => {
                child.kill().unwrap();
                panic!("no {awaited:?} in {:?}", String::from_utf8_lossy(&shown));
            }
        }
        let text = String::from_utf8_lossy(&shown[seen..]).into_owned();
        let lines = text.split_once(awaited).and_then(|(_, rest)| rest.split_once('\n'));
        if lines.is_some_and(|(_, rest)| rest.contains("minikv> "))
            && let Some((done, (typed, next))) = steps.next()
        {
            before(done);
            (seen, awaited) = (shown.len(), next);
            screen.write_all(typed.as_bytes()).unwrap();
        }
    }
    (child.wait().unwrap().code(), String::from_utf8_lossy(&shown).into_owned())
}

#[test]
fn metrics_in_the_shell_are_those_of_its_database() {
    let place = Place::new();
    let lines = b"stats --prometheus\nput a 1\nget a\nstats --prometheus\n";
    place.ok(&["put", "b", "2"]);
    let shown = String::from_utf8(place.feed(&["shell"], lines).ok()).unwrap();
    let gets = shown.lines().filter(|line| line.starts_with("minikv_gets_total"));
    let gets: Vec<_> = gets.map(|line| line.rsplit(' ').next().unwrap()).collect();
    // The second time, the shell has the database open for writing, and has asked it once.
    assert_eq!(gets, ["0", "1"], "{shown}");
}
