# Replaces LINSTOR's database by an export, and writes out what the database holds then. It runs while it holds the Lease of LINSTOR's
# controller, which it may have waited for: so it looks once more whether the claim says that this backup is being restored. Without a
# configuration the program would fill another database, and say that it is done (linstor-server 1.34).
cd /tmp && [ -e export.json ] || { echo "there is no export in the pod" >&2; exit 1; }
[ "$(cat /claim/restoring)" = "$1" ] || { echo "the claim does not say that this backup is being restored" >&2; exit 1; }
grep -q '^ *connection_url *=' /etc/linstor/linstor.toml || { echo "linstor.toml names no database" >&2; exit 1; }
work=/tmp/logs config=/etc/linstor
rm -rf logs restored.json && mkdir logs || exit 1 # of an earlier try
export LS_LOG_DIRECTORY=/tmp/logs
run import-db export.json 'Import finished'
run export-db restored.json 'Export finished'
rm -rf logs
