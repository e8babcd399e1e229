# $1: the place of the shared cluster, $2: how many seconds it may idle.
#
# Users hold a shared lock on `users` while they live. A process holds `door` while it joins or
# leaves, so no process can join a cluster that is being ended.
cd "$1" || exit 0
exec 7>>watchdog
flock -n -x 7 || exit 0
exec 8>>users 9>>door

while :; do
    sleep 1 7>&- 8>&- 9>&-
    flock -x 9
    now=$(date +%s)
    if flock -n -x 8; then
        flock -u 8
        if [ $((now - $(stat -c %Y used))) -ge "$2" ]; then
            end_cluster "$(cat home 2>/dev/null || echo "$1/none")"
            cd /
            rm -rf -- "$1"
            exit 0
        fi
    else
        touch used
    fi
    flock -u 9
done
