fn main() {
    cc::Build::new().cpp(true).std("c++17").file("src/options.cc").compile("interop_options");
    println!("cargo:rerun-if-changed=src/options.cc");
    println!("cargo:rustc-link-lib=leveldb");
}
