# LINSTOR's own program for its database. It ends with 0 for a call that it does not understand, too (linstor-server 1.34), so that its
# last line has to say that it is done. What it says may hold what is in the database: only words that cannot are repeated.
run() {
  /usr/share/linstor-server/bin/linstor-database "$1" -c "$config" "$2" > "$work/says" 2> "$work/errors"
  code=$?
  if [ "$code" = 0 ] && tail -n 1 "$work/says" | grep -q "$3"; then return; fi
  fails "linstor-database $1" "$code"
}
# fails ends the script, with what is known to be harmless of what the program has said.
fails() {
  rm -f export.json restored.json # nobody needs them any more, and they hold keys
  why=$(cat "$work/says" "$work/errors" 2> /dev/null | grep -o -m 1 \
    -e 'created with a newer version of Linstor than currently installed' \
    -e 'Failed to parse exported DB file' -e 'Failed to read database backup' -e 'Failed to write database backup' \
    -e 'Target migration version [^ ]* does not exist' -e 'No space left on device' -e 'OutOfMemoryError' \
    -e 'Referential integrity constraint violation' -e 'Value too long for column' -e 'Check constraint violation' \
    -e 'Unique index or primary key violation' -e 'violates foreign key constraint' -e 'a foreign key constraint fails' \
    -e 'Connection to [^ ]* refused' -e 'password authentication failed' -e 'Access denied for user' \
    -e 'UnknownHostException' -e 'is forbidden')
  rm -rf "$work"
  echo "$1 ended with status $2${why:+: $why}" >&2
  exit 1
}
