# What is in the first directory becomes reachable in the second one; then the program takes over. A link to somewhere
# in the host's /usr leads to the host's.
for source in "$1"/*; do
  target=$(readlink "$source")
  case $target in /usr/*) target=${1%/src}${target#/usr} ;; *) target=$source ;; esac
  if [ -e "$target" ]; then ln -sfn "$target" "$2/${source##*/}" || exit 1; fi
done
exec "$3"
