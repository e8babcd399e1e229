# $1: a process. Kills it when the owner's end of our input closes without a word.
if read -r word && [ "$word" = done ]; then
    exit 0
fi
running "$1" && kill -KILL "$1"
