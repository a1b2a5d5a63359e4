# Replaces LINSTOR's database by an export, and writes out what the database holds then. It runs while it holds the Lease of LINSTOR's
# controller, which it may have waited for: so it looks once more whether the claim says that this backup is being restored. Without a
# configuration the program would fill another database, and say that it is done (linstor-server 1.34).
cd /tmp && [ -e export.json ] || { echo "there is no export in the pod" >&2; exit 1; }
[ "$(cat /claim/restoring)" = "$1" ] || { echo "the claim does not say that this backup is being restored" >&2; exit 1; }
grep -q '^ *connection_url *=' /etc/linstor/linstor.toml || { echo "linstor.toml names no database" >&2; exit 1; }
[ "$2" != anew ] || grep -q '^ *connection_url *= *"k8s' /etc/linstor/linstor.toml ||
  { echo "only a database in Kubernetes is emptied" >&2; exit 1; }
work=/tmp/logs config=/etc/linstor
rm -rf logs restored.json && mkdir logs || exit 1 # of an earlier try
export LS_LOG_DIRECTORY=/tmp/logs
# A newer LINSTOR may have migrated the database, and an import leaves the number of its schema, which is all that says what the rows
# are like (linstor-server 1.34, DbK8sCrd): the next upgrade would migrate none of them. So LINSTOR's tables go first. What is deleted
# here is in the export alone: so LINSTOR's program reads that into a database of its own before. Until 1.35.1 such a database refuses
# rows in the order that some exports have them in, and Kubernetes does not: the program has read the file all the same.
if [ "$2" = anew ]; then
  config=/tmp/logs/scratch HOME=/tmp/logs && export HOME
  mkdir logs/scratch && printf '[db]\nuser = "linstor"\npassword = "linstor"\nconnection_url = "jdbc:h2:%s"\n' \
    /tmp/logs/scratch/linstordb > logs/scratch/linstor.toml || exit 1
  /usr/share/linstor-server/bin/linstor-database import-db -c "$config" export.json > logs/says 2> logs/errors
  code=$?
  tail -n 1 logs/says | grep -q 'Import finished' ||
    cat logs/says logs/errors | grep -q 'Referential integrity constraint violation' || fails "linstor-database import-db" "$code"
  config=/etc/linstor
  tables() {
    kubectl get customresourcedefinitions -o name > logs/says 2> logs/errors || fails "kubectl get" $?
    grep '\.internal\.linstor\.linbit\.com$' logs/says
  }
  tables > logs/tables
  if [ -s logs/tables ]; then
    xargs kubectl delete --timeout=10m < logs/tables > logs/says 2> logs/errors || fails "kubectl delete" $?
  fi
  if tables > /dev/null; then fails "kubectl delete leaves tables: it" 0; fi
fi
run import-db export.json 'Import finished'
run export-db restored.json 'Export finished'
rm -rf logs
