# Reads an export of LINSTOR's database into an empty one, and writes it out again. Without a configuration of its own the program would
# use another database (linstor-server 1.34).
cd /tmp && [ -e export.json ] || exit 0 # the store has the backup already
work=/tmp/scratch config=/tmp/scratch
mkdir scratch && printf '[db]\nuser = "linstor"\npassword = "linstor"\nconnection_url = "jdbc:h2:/tmp/scratch/linstordb"\n' \
  > scratch/linstor.toml || exit 1
export LS_LOG_DIRECTORY=/tmp/scratch
run import-db export.json 'Import finished'
run export-db restored.json 'Export finished'
rm -rf scratch
