//! Links LevelDB as a static archive instead of a shared library, because a function in an archive
//! can be replaced. `src/leveldb.rs` replaces the CRC-32C function.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for library in ["-l:libleveldb.a", "-l:libsnappy.so.1", "-lstdc++"] {
        println!("cargo:rustc-link-arg={library}");
    }
}
