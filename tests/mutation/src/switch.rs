
/// Returns whether the environment variable `MUTANT` switches on the mutant with this number. If
/// the environment variable `REACHED` names a file, adds the number to that file.
#[inline]
pub(crate) fn mutated(id: u32) -> bool {
    static MUTANT: std::sync::LazyLock<u32> = std::sync::LazyLock::new(|| {
        std::env::var("MUTANT").ok().and_then(|id| id.parse().ok()).unwrap_or(u32::MAX)
    });
    static REACHED: std::sync::LazyLock<Option<std::path::PathBuf>> =
        std::sync::LazyLock::new(|| std::env::var_os("REACHED").map(std::path::PathBuf::from));
    if *MUTANT == u32::MAX && let Some(path) = &*REACHED {
        reached(id, path);
    }
    *MUTANT == id
}

#[cold]
fn reached(id: u32, path: &std::path::Path) {
    use std::io::Write;
    use std::sync::atomic::{AtomicBool, Ordering};
    static SEEN: [AtomicBool; 16 << 10] = [const { AtomicBool::new(false) }; 16 << 10];
    let seen = &SEEN[id as usize];
    if !seen.load(Ordering::Relaxed) && !seen.swap(true, Ordering::Relaxed) {
        let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
        file.and_then(|mut file| file.write_all(format!("{id}\n").as_bytes())).unwrap();
    }
}
