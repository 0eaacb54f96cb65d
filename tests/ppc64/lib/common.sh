# shellcheck shell=bash
# shellcheck disable=SC2034 # what is set here is used by those who source it
# Sourced by the commands beside this folder: where things are, and how trouble is told.

BED=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
REPO=$(cd "$BED/../.." && pwd)
CACHE=${HVMMIO_PPC64_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hvmmio-ppc64}
TARGET=powerpc64le-unknown-linux-gnu
CROSS=powerpc64le-linux-gnu-
ME=$(basename "$0")

# The kernels this bed knows: package of Debian, and the version that figures in the repo were measured with.
# A kernel's counts belong to its build, so another version is used only with a word about it.
declare -A KERNEL_PACKAGE=([6.1]=linux-image-powerpc64le [6.12]=linux-image-powerpc64le)
declare -A KERNEL_PIN=([6.1]=6.1.176-1 [6.12]=6.12.95-1~bpo12+1)

say() { printf '%s: %s\n' "$ME" "$*" >&2; }
# Something is missing or went wrong: exit code 1.
fail() { say "$@"; exit 1; }
# The caller asked for what cannot be: exit code 2.
usage_error() { say "$@" "(\`$ME --help\` lists what is possible)"; exit 2; }
# The comment on top of a command is its help.
help_of() { sed -n '2,/^[^#]/{/^#/!q;s/^# \{0,1\}//p}' "$1"; }

# Directories left by a run that was killed: they carry the process id that made them.
sweep() {
    local dir
    for dir in "$CACHE/$1".*; do
        if [ -d "$dir" ] && ! kill -0 "${dir##*.}" 2>/dev/null; then rm -rf -- "$dir"; fi
    done
}

# Packages for cross-building, installed by the system's apt only where a tool is missing.
need_tools() {
    local missing=() tool
    for tool in "$@"; do
        command -v "${tool%%=*}" >/dev/null || [ -e "${tool%%=*}" ] || missing+=("${tool#*=}")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    say "installing ${missing[*]} by apt"
    [ "$(id -u)" = 0 ] || fail "not root: install these first, then try again: apt-get install ${missing[*]}"
    local said
    said=$(apt-get update -qq 2>&1 &&
        DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends "${missing[@]}" 2>&1) ||
        fail "apt could not install ${missing[*]}: $said"
}
