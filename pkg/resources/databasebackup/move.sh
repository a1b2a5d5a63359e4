# Moves LINSTOR's data from the database of /etc/linstor into that of /target, and writes out what each of them holds. It runs while it
# holds the Lease of LINSTOR's controller, which it may have waited for: so it looks once more whether the claim says that this move is
# under way, and whether each configuration names its database: what is mounted may be of another move. Without a configuration the
# program would use another database, and say that it is done (linstor-server 1.34).
cd /tmp || exit 1
[ "$(cat /claim/moving)" = "$1" ] || { echo "the claim does not say that LINSTOR's database is being moved" >&2; exit 1; }
names() {
  grep -qxF "connection_url = \"$2\"" "$1/linstor.toml" || { echo "$1/linstor.toml does not name the database $2" >&2; exit 1; }
}
names /etc/linstor "$2"
names /target "${1%@*}"
work=/tmp/logs config=/etc/linstor
rm -rf logs export.json restored.json && mkdir logs || exit 1 # of an earlier try
export LS_LOG_DIRECTORY=/tmp/logs
# A controller that was killed in the middle of a write has left half of it in Kubernetes or etcd, which an export does not take back
# (linstor-server 1.34, K8sCrdEngine), while run-migration does. That would also bring a database to a newer version, or make a new one
# where there is none: so nothing else may be left for it to do.
for does in all-migrations-applied run-migration; do
  /usr/share/linstor-server/bin/linstor-config $does --logs=/tmp/logs --config-directory=/etc/linstor > logs/says 2> logs/errors ||
    fails "linstor-config $does" $?
done
run export-db export.json 'Export finished'
config=/target
# Where LINSTOR's nodes were there before it may be the same database under another address: an import would empty that first.
case "${1##*@}" in
  same-*) ;;
  *) run import-db export.json 'Import finished' ;;
esac
run export-db restored.json 'Export finished'
rm -rf logs
