/* Everything in which the two libraries may differ in this program.

   Errors are listed below, as patterns of fnmatch. Other differences are handled where they occur:
   - numbers in properties, and approximate sizes, because tables differ (`keep_comparable`,
     `sizes`);
   - after a step backwards, a LevelDB iterator overwrites its own key when it seeks that key
     (`move`);
   - LevelDB's repair may change the contents (`repair`), and its directory `lost` survives
     `destroy`;
   - LevelDB leaves a directory after a failed open (`wrong_open`);
   - LevelDB's iterators may continue after damage (`open_damaged`).
   Not tested, because LevelDB's behaviour is undefined or data is lost in these cases: an unknown
   compression that no known one replaces, a repair of an open database, a missing CURRENT with
   create_if_missing, null pointers that c.h does not allow, and filters that distinguish equal
   keys. */
#ifndef DIFFERENCES_H_
#define DIFFERENCES_H_

static struct difference {
  const char *theirs, *ours, *why;
  unsigned long seen;
} differences[] = {
    {"IO error: lock */LOCK: already held by process",
     "IO error: lock */LOCK: already held by this process",
     "minikv says which process, if it is another", 0},
    {"NotFound: */LOCK: No such file or directory",
     "NotFound: *: cannot *: No such file or directory *",
     "minikv also says what failed (a missing parent)", 0},
    {"IO error: lock */LOCK: already held by process", "Invalid argument: * exists (*",
     "minikv checks error_if_exists before it takes the lock", 0},
    {"Corruption: *", "Corruption: *",
     "minikv names the file, the offset, what was expected and what was found", 0},
    {"IO error: *.ldb: Invalid argument", "Corruption: *.ldb at offset *: the file ends *",
     "LevelDB takes the end of a cut table for an I/O error", 0},
    {"Invalid argument: *: does not exist (create_if_missing is false)",
     "Corruption: */CURRENT: there is no CURRENT, but * is there: *",
     "LevelDB takes a database without CURRENT for none, and with create_if_missing wipes it", 0},
    {"IO error: */LOCK: Not a directory", "IO error: *: cannot *: Not a directory *",
     "minikv also says what failed (a file for a directory)", 0},
};

static int may_differ(const char* theirs, const char* ours) {
  for (size_t at = 0; at < sizeof differences / sizeof *differences; at++) {
    struct difference* known = &differences[at];
    if (fnmatch(known->theirs, theirs, 0) == 0 && fnmatch(known->ours, ours, 0) == 0) {
      known->seen++;
      return 1;
    }
  }
  return 0;
}

#endif
