# Functions of ./test and ./bench.

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi
}

# need PACKAGES...: installs those packages of Debian that are missing.
need() {
  if ! dpkg-query -W -f '${db:Status-Status}\n' "$@" 2>/dev/null |
    awk '$0 != "installed" { exit 1 } END { exit NR != '$#' }'; then
    as_root apt-get update -q
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@"
  fi
}
