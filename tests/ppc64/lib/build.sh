# shellcheck shell=bash
# shellcheck disable=SC2034 # what is set here is used by those who source it
# Sourced: hvmmio for the emulated host, and the initial file system it boots with.

# cross COMMAND...: cargo for the emulated host, static, in the profile of the bed. RUSTFLAGS would take the place of the flags.
cross() {
    need_tools "${CROSS}gcc=gcc-powerpc64le-linux-gnu" "/usr/powerpc64le-linux-gnu/lib/libc.a=libc6-dev-ppc64el-cross"
    if command -v rustup >/dev/null && ! rustup target list --installed | grep -qx "$TARGET"; then
        rustup target add "$TARGET" >&2 || fail "rustup could not add the target $TARGET"
    fi
    (cd "$REPO" && env -u RUSTFLAGS -u CARGO_ENCODED_RUSTFLAGS cargo "$@" --quiet --locked --profile ppc64 --target "$TARGET" \
        --config "target.$TARGET.linker='${CROSS}gcc'" --config "target.$TARGET.rustflags=['-Ctarget-feature=+crt-static']") ||
        fail "hvmmio does not build for $TARGET"
}

# build_hvmmio: cross-builds a static hvmmio; sets HVMMIO to it.
build_hvmmio() {
    cross build --bin hvmmio >&2
    HVMMIO=${CARGO_TARGET_DIR:-$REPO/target}/$TARGET/ppc64/hvmmio
    case $HVMMIO in /*) ;; *) HVMMIO=$REPO/$HVMMIO ;; esac
}

# build_tests NAME: cross-builds an integration test; sets TESTS to its program.
build_tests() {
    TESTS=$(cross test --no-run --test "$1" --message-format json | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | grep "/$1-" | tail -n 1)
    [ -n "$TESTS" ] || fail "the test $1 was not built"
}

# new_root DIR KERNEL: a root file system with all but the commands.
new_root() {
    local root=$1 kernel=$2 module
    mkdir -p "$root"/{bin,work,bed/modules}
    cp "$CACHE/busybox/busybox" "$root/bin/"
    install -m 755 "$HVMMIO" "$root/bin/hvmmio"
    install -m 755 "$BED/lib/init" "$root/init"
    for module in "$kernel"/modules/*.ko; do
        [ ! -e "$module" ] || cp "$module" "$root/bed/modules/"
    done
}

# copy_named ROOT WORD...: the files and directories among a command's words, so that the command finds them by the same
# name: a relative one under /job, where commands run, an absolute one where it is. `--option=FILE` counts too.
copy_named() {
    local root=$1 word place
    shift
    for word in "$@"; do
        case $word in -*=*) word=${word#*=} ;; esac
        # A single slash-less name such as `run` may be a directory here by accident; it does no harm to copy a file.
        [ -f "$word" ] || { [ -d "$word" ] && [[ $word == */* ]]; } || continue
        case $word in
        /dev/* | /proc/* | /sys/*) continue ;;
        /*) place=$root$word ;;
        ../* | */../* | */..) usage_error "\`$word\` goes above the working directory: run from further up, or name it by its absolute path" ;;
        *) place=$root/job/$word ;;
        esac
        mkdir -p "$(dirname "$place")"
        cp -rL -- "$word" "$(dirname "$place")/"
    done
}

# pack ROOT FILE: the initial file system. Its time stamps and the order of its names are part of what the guest's clock
# counts, so they are always the same. It stays uncompressed: unpacking costs emulated time.
pack() {
    local root=$1 file=$2
    chmod -R go-w,a+rX "$root"
    find "$root" -exec touch -h -d @0 {} +
    (cd "$root" && find . | LC_ALL=C sort | cpio -o -H newc -R 0:0 --reproducible --quiet) >"$file"
}
