# shellcheck shell=bash
# shellcheck disable=SC2034 # what is set here is used by those who source it
# Sourced: the emulated machine.

# What the kernel says when it is broken.
BROKEN='Oops:|BUG: |kernel BUG at|Kernel panic|Unable to handle kernel|soft lockup|rcu_.*detected stalls'

# start_machine MACHINE KERNEL INITRD APPEND SERIAL...: QEMU in the background, process id in QEMU_PID.
#
# One emulated instruction is one nanosecond, and no clock of this machine is looked at: two boots of the same files print
# the same bytes. A BMC device would leak the wall clock into the machine, so there is none.
start_machine() {
    local machine=$1 kernel=$2 initrd=$3 append=$4
    shift 4
    LD_LIBRARY_PATH=$CACHE/qemu/lib "$CACHE/qemu/qemu-system-ppc64" -L "$CACHE/qemu/share" -M "$machine" -smp 1 -m 4G \
        -nodefaults -display none -monitor none -no-reboot -kernel "$kernel/vmlinux" -initrd "$initrd" \
        -append "console=hvc0 norandmaps${append:+ $append}" \
        -accel tcg,thread=single -icount shift=0,sleep=off -rtc base=2024-01-01T00:00:00,clock=vm -seed 1 "$@" <&0 &
    QEMU_PID=$!
}

stop_machine() {
    [ -n "${QEMU_PID:-}" ] || return 0
    kill "$QEMU_PID" 2>/dev/null || true
    wait "$QEMU_PID" 2>/dev/null || true
    QEMU_PID=
}

# await CONSOLE SECONDS: until the guest is done. Sets ENDED to finished, timeout, exited or broken.
await() {
    local console=$1 deadline=$((SECONDS + $2)) grace=
    while :; do
        if tail -c 200 "$console" | grep -aq '^@@ done'; then ENDED=finished; return; fi
        if ! kill -0 "$QEMU_PID" 2>/dev/null; then
            # It may have said so in its last moment.
            ENDED=exited
            if tail -c 200 "$console" | grep -aq '^@@ done'; then ENDED=finished; fi
            return
        fi
        if grep -aq 'Kernel panic' "$console"; then ENDED=broken; return; fi
        # After an oops the run may still come to its end and bring the kernel's own account of it.
        if [ -z "$grace" ] && grep -aqE "$BROKEN" "$console"; then grace=$((SECONDS + 15)); fi
        if [ -n "$grace" ] && [ "$SECONDS" -ge "$grace" ]; then ENDED=broken; return; fi
        if [ "$SECONDS" -ge "$deadline" ]; then ENDED=timeout; return; fi
        sleep 0.1
    done
}

# unpack CONSOLE DIR: the frames as files, each checked, and DIR/status (lines "N CODE"), DIR/begun, DIR/host.
unpack() {
    local console=$1 dir=$2 name sum
    : >"$dir/status"
    tr -d '\r' <"$console" | awk -v dir="$dir" '
        /^@@ frame / { print $3, $4 >(dir "/frames"); body = dir "/" $3 ".base64"; printf "" >body; next }
        /^@@ end/ { close(body); body = ""; next }
        /^@@ begin / { print $3 >(dir "/begun"); next }
        /^@@ status / { print $3, $4 >(dir "/status"); next }
        /^@@ host / { print substr($0, 9) >(dir "/host"); next }
        body != "" { print >body }'
    [ -e "$dir/frames" ] || return 0
    while read -r name sum; do
        base64 -d "$dir/$name.base64" 2>/dev/null | gzip -d >"$dir/$name" 2>/dev/null || true
        rm "$dir/$name.base64"
        if [ "$(md5sum <"$dir/$name" | cut -d ' ' -f 1)" != "$sum" ]; then
            printf '%s\n' "$name" >>"$dir/damaged"
        fi
    done <"$dir/frames"
    rm "$dir/frames"
}
