# What every watchdog can do. It outlives the terminal and the test that started it.
trap '' HUP INT TERM

# A zombie counts as gone: the process that has to collect it may never do so.
running() {
    state=$(sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "/proc/$1/status" 2>/dev/null)
    [ -n "$state" ] && [ "$state" != Z ]
}

# Whether process $1 still is what it was when we noted its number.
mentions() {
    tr '\0' ' ' <"/proc/$1/cmdline" 2>/dev/null | grep -qF -- "$2"
}

await_end() {
    looks=0
    while running "$1" && [ "$looks" -lt 300 ]; do
        sleep 0.02
        looks=$((looks + 1))
    done
}

# Ends the cluster in directory $1 and removes the directory.
end_cluster() {
    note="$1/data/postmaster.pid"
    if [ -f "$note" ]; then
        pid=$(sed -n 1p "$note")
        if running "$pid" && mentions "$pid" "$1/data"; then
            # The server passes an immediate shutdown on to its children.
            kill -QUIT "$pid"
            kill -CONT "$pid"
            await_end "$pid"
        fi
    fi
    # An initdb, or a server that had not yet left its note.
    for found in $(grep -alsF -- "$1/data" /proc/[0-9]*/cmdline); do
        pid=${found#/proc/}
        kill -KILL "${pid%/cmdline}" 2>/dev/null
    done
    # A killed server leaves a segment of shared memory; a stopped one takes its note with it.
    if [ -f "$note" ]; then
        segment=$(sed -n '7s/.* //p' "$note")
        [ -n "$segment" ] && ipcrm -m "$segment" 2>/dev/null
    fi
    looks=0
    while ! rm -rf -- "$1" 2>/dev/null && [ "$looks" -lt 100 ]; do
        sleep 0.05
        looks=$((looks + 1))
    done
}
