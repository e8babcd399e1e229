# shellcheck shell=bash
# Shared by run, long, quick and disturb: where caches are, phases and what they cost, control groups.

cache="${XDG_CACHE_HOME:-$HOME/.cache}/semel"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$cache/target}"
export CARGO_TERM_COLOR="${CARGO_TERM_COLOR:-never}"
export PATH="$cache/tools/bin:$PATH"

# Control groups. Version 1 has a tree for each controller, version 2 one for all.
cgroup_root() { # CONTROLLER (cpuacct or freezer)
    local root=/sys/fs/cgroup
    if [ -d "$root/$1" ]; then echo "$root/$1"; else echo "$root"; fi
}

cgroup_make() { # CONTROLLER NAME; prints the group's folder, fails where groups cannot be written
    local group
    group="$(cgroup_root "$1")/$2"
    mkdir -p "$group" 2>/dev/null && [ -w "$group/cgroup.procs" ] && echo "$group"
}

cgroup_ms() { # GROUP; processor time in milliseconds, of everything that ran in it
    if [ -r "$1/cpuacct.usage" ]; then
        echo $(($(cat "$1/cpuacct.usage") / 1000000))
    else
        awk '$1 == "usage_usec" { printf "%d\n", $2 / 1000 }' "$1/cpu.stat"
    fi
}

# Processor time of this script and what it started, in milliseconds: of its control group, or of the children that
# were waited for, which leaves out servers that detach themselves.
account=${SEMEL_ACCOUNT:-$(cgroup_make cpuacct "semel-$$" || true)}
if [ -n "$account" ]; then echo $$ >"$account/cgroup.procs" || account=""; fi

leave_account() {
    [ -z "$account" ] || [ -n "${SEMEL_ACCOUNT:-}" ] || { echo $$ >"$(dirname "$account")/cgroup.procs" && rmdir "$account"; } 2>/dev/null || true
}

processor_ms() {
    if [ -n "$account" ]; then
        cgroup_ms "$account"
    else
        awk -v tick="$(getconf CLK_TCK)" '{ sub(/.*\) /, ""); printf "%d\n", ($14 + $15) * 1000 / tick }' "/proc/$$/stat"
    fi
}

# Phases: name, wall seconds, processor seconds.
phases=()

phase() {
    local name=$1 started=$SECONDS before
    before=$(processor_ms)
    shift
    echo "==> $name"
    phases+=("$name" "failed" "")
    "$@"
    phases[-2]=$((SECONDS - started))
    phases[-1]=$((($(processor_ms) - before) / 1000))
    echo "==> $name: ${phases[-2]} s, ${phases[-1]} s of processor"
}

phase_table() {
    echo "==> phases, $SECONDS s together"
    printf '    %-14s %8s %12s\n' phase 'wall s' 'processor s'
    [ "${#phases[@]}" -eq 0 ] || printf '    %-14s %8s %12s\n' "${phases[@]}"
}

# One compilation lints and generates code: Clippy's driver compiles what belongs to the workspace. Only for
# development builds; releases are compiled by rustc alone (docs/decisions).
lint_while_compiling() {
    RUSTC_WORKSPACE_WRAPPER="$(rustup which clippy-driver 2>/dev/null || command -v clippy-driver)" || {
        echo "clippy is missing: rustup component add clippy" >&2
        return 1
    }
    export RUSTC_WORKSPACE_WRAPPER
    export CLIPPY_ARGS='-Dwarnings__CLIPPY_HACKERY__'
    # Nobody reads the lines of a backtrace here: less code to generate and to link.
    export CARGO_PROFILE_DEV_DEBUG=false
}
