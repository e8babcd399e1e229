# Leaves a marker of one command, so that it runs once and can be asked about.
#
# $1 the key, $2 what is wanted (run, start, probe), $3 the bytes of its input, $4 how many seconds
# to wait for another that runs it; then the command. The first line of our input is the address to
# call at the end, what follows is the command's own input.
#
# `process` is the claim: a link that is made whole or not at all, and names the process that runs
# the command and when that process began. `exit` comes last, by renaming. One without the other is
# a command that runs, or one whose process is gone: how far it came is unknown.
key=$1 want=$2 input_bytes=$3 patience=$4
shift 4
most=1048576
root=${XDG_STATE_HOME:-$HOME/.local/state}/semel
dir=$root/$key
umask 077
trap '' HUP

say() {
    printf 'semel-marker/1 %s\n' "$*"
}

broken() {
    say broken "$1"
    exit 0
}

# When a process began: its number may be given to another. Nothing for one that has ended.
birth() {
    if [ -r /proc/self/stat ]; then
        set -- $(sed 's/.*) //' "/proc/$1/stat" 2>/dev/null)
        [ -n "$1" ] && [ "$1" != Z ] && [ "$1" != X ] &&
            echo "${20}@$(cat /proc/sys/kernel/random/boot_id 2>/dev/null)"
    else
        ps -o lstart= -p "$1" 2>/dev/null
    fi
}

lives() {
    read -r pid began <"$dir/process" && [ -n "$began" ] && [ "$(birth "$pid")" = "$began" ]
}

size() {
    echo $(($(wc -c <"$dir/$1" 2>/dev/null || echo 0)))
}

answer() {
    say done "$(cat "$dir/exit")" "$(size stdout)" "$(size stderr)" "$1"
    head -c "$most" "$dir/stdout"
    head -c "$most" "$dir/stderr"
    exit 0
}

rest() {
    sleep 0.1 2>/dev/null || sleep 1
}

# Takes the input whole: a wire that broke in the middle must not start anything.
take_input() {
    IFS= read -r callback || broken 'the input broke off'
    mkdir -p "$dir" && cat >"$dir/stdin.$$" || broken "cannot write to $dir"
    if [ "$(size "stdin.$$")" -ne "$input_bytes" ]; then
        rm -f "$dir/stdin.$$"
        broken 'the input broke off'
    fi
}

# True for one of all who try, ever. $1 is the process that will run the command.
claim() {
    echo "$1 $(birth "$1")" >"$dir/process.$1" || return 1
    ln "$dir/process.$1" "$dir/process" 2>/dev/null
    won=$?
    rm -f "$dir/process.$1"
    return "$won"
}

perform() {
    # `exec` finds programs alone, and none of our functions.
    (exec "$@") <"$dir/stdin.$$" >"$dir/stdout" 2>"$dir/stderr"
    echo $? >"$dir/exit.new" && mv "$dir/exit.new" "$dir/exit"
    rm -f "$dir/stdin.$$"
}

post() {
    if command -v curl >/dev/null 2>&1; then
        # The address stays out of the list of processes.
        printf 'url = "%s"\n' "$callback" | curl -fsS -m 30 -K - -X POST \
            -H 'content-type: application/json' --data-binary "@$dir/callback"
    else
        wget -q -T 30 -O /dev/null --header 'content-type: application/json' \
            --post-file "$dir/callback" "$callback"
    fi
}

excerpt() {
    head -c 49152 "$dir/$1" | base64 | tr -d '\n'
}

# Reports the end, again and again for hours: the callback counts a repeat as one.
call_back() {
    [ -n "$callback" ] || return
    printf '{"exit":%s,"stdout_base64":"%s","stderr_base64":"%s"}' \
        "$(cat "$dir/exit")" "$(excerpt stdout)" "$(excerpt stderr)" >"$dir/callback"
    pause=1 tries=0
    until post || [ "$tries" -ge 100 ]; do
        sleep "$pause"
        tries=$((tries + 1)) pause=$((pause * 2))
        [ "$pause" -le 300 ] || pause=300
    done
}

# Waits with the first for its answer.
follow() {
    until [ -e "$dir/exit" ]; do
        if ! lives && [ ! -e "$dir/exit" ]; then
            say lost
            exit 0
        fi
        [ "$patience" -gt 0 ] || { say running "$pid"; exit 0; }
        patience=$((patience - 1))
        sleep 1
    done
    answer repeated
}

case $want in
probe)
    [ -e "$dir/process" ] || { say absent; exit 0; }
    patience=0
    follow
    ;;
run)
    take_input
    if claim "$$"; then
        perform "$@"
        [ -e "$dir/exit" ] || { say lost; exit 0; }
        answer first
    fi
    rm -f "$dir/stdin.$$"
    [ -e "$dir/process" ] || broken "cannot link in $dir"
    follow
    ;;
start)
    take_input
    rm -f "$dir/refused"
    (
        if claim "$(exec sh -c 'echo $PPID')"; then
            perform "$@"
            call_back
        else
            rm -f "$dir/stdin.$$"
            # For processes that wait for a claim that cannot be made.
            [ -e "$dir/process" ] || : >"$dir/refused"
        fi
    ) </dev/null >/dev/null 2>&1 &
    looks=0
    until [ -e "$dir/process" ]; do
        [ ! -e "$dir/refused" ] && [ "$looks" -lt 100 ] || broken "cannot link in $dir"
        looks=$((looks + 1))
        rest
    done
    read -r pid began <"$dir/process"
    say started "$pid"
    ;;
esac
