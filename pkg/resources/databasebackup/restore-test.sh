# Reads an export of LINSTOR's database into an empty one with LINSTOR's own program, and writes it out again. It ends with an error
# unless both ended with 0 and said that they are done: the program ends with 0 for a call that it does not understand, too, and without
# its configuration it would use another database (linstor-server 1.34). What it says may hold what is in the database: only words
# that cannot are repeated.
cd /tmp && [ -e export.json ] || exit 0 # the store has the backup already
mkdir scratch && printf '[db]\nuser = "linstor"\npassword = "linstor"\nconnection_url = "jdbc:h2:/tmp/scratch/linstordb"\n' \
  > scratch/linstor.toml || exit 1
export LS_LOG_DIRECTORY=/tmp/scratch

run() {
  /usr/share/linstor-server/bin/linstor-database "$1" -c /tmp/scratch "$2" > scratch/says 2> scratch/errors
  code=$?
  if [ "$code" = 0 ] && tail -n 1 scratch/says | grep -q "$3"; then return; fi
  rm -f export.json # nobody needs it any more, and it holds keys
  why=$(cat scratch/says scratch/errors | grep -o -m 1 -e 'created with a newer version of Linstor than currently installed' \
    -e 'Failed to parse exported DB file' -e 'Failed to read database backup' -e 'Failed to write database backup' \
    -e 'Target migration version [^ ]* does not exist' -e 'No space left on device' -e 'OutOfMemoryError' \
    -e 'Referential integrity constraint violation' -e 'Value too long for column' -e 'Check constraint violation' \
    -e 'Unique index or primary key violation')
  rm -rf scratch
  echo "linstor-database $1 ended with status $code${why:+: $why}" >&2
  exit 1
}
run import-db export.json 'Import finished'
run export-db restored.json 'Export finished'
rm -rf scratch
