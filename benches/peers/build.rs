//! Links LevelDB's archive, not its shared library: in an archive a function can be replaced
//! (`src/leveldb.rs` does that with its CRC-32C).

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for library in ["-l:libleveldb.a", "-l:libsnappy.so.1", "-lstdc++"] {
        println!("cargo:rustc-link-arg={library}");
    }
}
