# shellcheck shell=bash
# Sourced: Debian packages fetched with an apt state of its own, the system's apt and dpkg untouched.
# apt checks every file against the archive's signed index.

# The Debian mirror this machine's apt already uses: no address is written here.
mirror() {
    local uri
    # shellcheck disable=SC2016 # apt's own format, not the shell's
    uri=$(apt-get indextargets --format '$(ORIGIN) $(LABEL) $(REPO_URI)' 'Created-By: Packages' |
        awk '$1 == "Debian" && $2 == "Debian" { print $3; exit }')
    [ -n "$uri" ] || fail "no Debian mirror is known to this machine's apt: run \`apt-get update\` on a Debian system"
    printf '%s\n' "$uri"
}

# new_apt DIR ARCH STATUS SUITE...: an apt state in DIR for packages of ARCH from these suites.
# STATUS is a dpkg status file: what counts as installed already.
new_apt() {
    local dir=$1 arch=$2 status=$3 uri suite
    shift 3
    uri=$(mirror)
    mkdir -p "$dir"/{etc/apt/preferences.d,etc/apt/sources.list.d,state/lists/partial,cache/archives/partial}
    cp "$status" "$dir/status"
    for suite in "$@"; do
        printf 'deb [arch=%s signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s %s main\n' "$arch" "$uri" "$suite"
    done >"$dir/etc/apt/sources.list"
    # The machine's own settings (a proxy, say) are kept, its hooks are not.
    cat >"$dir/apt.conf" <<CONF
Dir::Etc "$dir/etc/apt"; Dir::Etc::parts "/etc/apt/apt.conf.d"; Dir::Etc::main "$dir/etc/apt/apt.conf";
Dir::State "$dir/state"; Dir::State::status "$dir/status"; Dir::Cache "$dir/cache";
APT::Architecture "$arch"; APT::Architectures { "$arch"; }; APT::Sandbox::User "root";
Acquire::Languages "none"; Acquire::Retries "3"; Debug::NoLocking "true";
CONF
    cat >"$dir/etc/apt/apt.conf" <<'CONF'
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Pre-Invoke;
#clear DPkg::Post-Invoke;
CONF
    APT_CONFIG=$dir/apt.conf apt-get update -qq >&2 || fail "apt could not read the package lists of $* for $arch"
}

# in_apt DIR COMMAND...: an apt command with that state.
in_apt() { APT_CONFIG=$1/apt.conf "${@:2}"; }

# download DIR OUT PACKAGE[=VERSION]...: the packages' files into OUT, nothing else.
download() {
    local dir=$1 out=$2
    shift 2
    mkdir -p "$out"
    (cd "$out" && in_apt "$dir" apt-get download -qq "$@" >&2) || fail "apt could not download $*"
}

# choose_version DIR PACKAGE SERIES PIN: the pinned version if the mirror has it, else the newest it has of the series.
choose_version() {
    local chosen
    chosen=$(in_apt "$1" apt-cache madison "$2" | awk -v series="$3" 'index($3, series ".") == 1 { print $3 }' | sort -rVu |
        awk -v pin="$4" 'NR == 1 { newest = $1 } $1 == pin { found = 1 } END { print found ? pin : newest }')
    [ -n "$chosen" ] || fail "the mirror has no $2 of the series $3"
    printf '%s\n' "$chosen"
}
