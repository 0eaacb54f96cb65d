#!/usr/bin/env bash
# Where the time of an exit goes on this x86_64 host: median TSC cycles from one tracepoint of a vCPU thread to the next, over the
# exits of one OUT stream per mode. Needs root, tracefs and a release build: benches/exit_timeline.sh [MODE...]
# The tracepoints are those of KVM and of MSR accesses; each costs some 0.2 us itself, so differences between rows tell, not sums.
set -euo pipefail
cd "$(dirname "$0")/.."
tracefs=/sys/kernel/tracing
instance=$tracefs/instances/hvmmio-timeline
[ -w $tracefs/instances ] || { echo "no rights on $tracefs: run as root with tracefs mounted" >&2; exit 1; }
[ $# -gt 0 ] || set -- coalesced regs-when-needed regs-every-exit
mkdir $instance
trap 'echo 0 > $instance/tracing_on; echo 0 > $instance/events/enable; rmdir $instance' EXIT
echo x86-tsc > $instance/trace_clock
echo 16384 > $instance/buffer_size_kb
for mode in "$@"; do
    echo > $instance/trace
    echo 1 > $instance/events/kvm/enable
    echo 1 > $instance/events/msr/enable
    cargo run --locked --release --quiet -- host run pio-timeline --mode "$mode" --count 4000 >/dev/null
    echo 0 > $instance/events/enable
    printf '%s\n%8s %8s  from -> to\n' "$mode" exits cycles
    # Of "... [cpu] flags time: event: number ..." time, event and, for an MSR, its number.
    sed -n 's/.*\] [^ ]* *\([0-9]*\): \([a-z_]*\): *\([0-9a-f]*\).*/\1 \2 \3/p' $instance/trace |
        awk '{ key = $2 ($2 ~ /_msr$/ ? ":" $3 : ""); if (NR > 1) print last " -> " key "\t" $1 - at; at = $1; last = key }' |
        LC_ALL=C sort -t "$(printf '\t')" -k1,1 -k2,2n |
        awk -F '\t' 'function flush() { if (n > 3000) printf "%8d %8d  %s\n", n, v[int((n + 1) / 2)], key }
                     $1 != key { flush(); key = $1; n = 0 } { v[++n] = $2 } END { flush() }'
done
