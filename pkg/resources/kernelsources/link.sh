# What is in the first directory becomes reachable in the second one; then the program takes over.
for source in "$1"/*; do
  if [ -e "$source" ]; then ln -sfn "$source" "$2/" || exit 1; fi
done
exec "$3"
