set -eu
written=$(head -c 1048576 /dev/urandom | tee "$1" | sha256sum)
sync "$1"
read=$(dd if="$1" iflag=direct bs=1M status=none | sha256sum)
test "$written" = "$read" || { echo "what was read is not what was written" >&2; exit 1; }
