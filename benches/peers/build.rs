//! Links LevelDB's archive instead of its shared library: a function in an archive can be replaced,
//! as `src/leveldb.rs` does with CRC-32C.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for library in ["-l:libleveldb.a", "-l:libsnappy.so.1", "-lstdc++"] {
        println!("cargo:rustc-link-arg={library}");
    }
}
