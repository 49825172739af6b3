//! A macro that generates simple methods of filesystems, such as methods that only forward each
//! call.

/// Generates methods of an `impl Fs`. Each method calls the same method of a field that is a
/// filesystem: `forward_to!(inner: open, list)`.
///
/// With `changes`, generates all methods that change files or names, except `lock`. Methods that
/// return a file (`create` and `append`) return `$file`, and the others return `$done`.
macro_rules! forward_to {
    ($inner:tt: $($method:ident),+) => {
        $($crate::fs::forward::forward_to!(@method $inner $method);)+
    };
    (changes: $file:expr, $done:expr) => {
        fn create(&self, _: &Path) -> io::Result<Box<dyn WriteFile>> {
            $file
        }

        fn append(&self, _: &Path) -> io::Result<Box<dyn WriteFile>> {
            $file
        }

        fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
            $done
        }

        fn remove(&self, _: &Path) -> io::Result<()> {
            $done
        }

        fn hard_link(&self, _: &Path, _: &Path) -> io::Result<()> {
            $done
        }

        fn create_dir(&self, _: &Path) -> io::Result<()> {
            $done
        }

        fn remove_dir(&self, _: &Path) -> io::Result<()> {
            $done
        }

        fn sync_dir(&self, _: &Path) -> io::Result<()> {
            $done
        }
    };
    (@method $inner:tt open) => {
        fn open(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
            self.$inner.open(path)
        }
    };
    (@method $inner:tt open_table) => {
        fn open_table(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
            self.$inner.open_table(path)
        }
    };
    (@method $inner:tt list) => {
        fn list(&self, path: &Path) -> io::Result<Vec<String>> {
            self.$inner.list(path)
        }
    };
    (@method $inner:tt entries) => {
        fn entries(&self, path: &Path) -> io::Result<Vec<(String, EntryKind)>> {
            self.$inner.entries(path)
        }
    };
    (@method $inner:tt len) => {
        fn len(&self, path: &Path) -> io::Result<u64> {
            self.$inner.len(path)
        }
    };
    (@method $inner:tt exists) => {
        fn exists(&self, path: &Path) -> io::Result<bool> {
            self.$inner.exists(path)
        }
    };
    (@method $inner:tt absolute) => {
        fn absolute(&self, path: &Path) -> io::Result<PathBuf> {
            self.$inner.absolute(path)
        }
    };
    (@method $inner:tt is_real_dir) => {
        fn is_real_dir(&self, path: &Path) -> io::Result<bool> {
            self.$inner.is_real_dir(path)
        }
    };
}

pub(crate) use forward_to;
