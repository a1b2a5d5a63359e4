# Lists what lies in the volume groups and zpools of a node, and in the directories that are its arguments, in lines whose fields are
# separated by tabs. Sizes are in bytes.
#   VG    name  extent        LV    volume group  name  size
#   ZPOOL name                ZVOL  name          size, - where it is none
#   DIR   path                FILE  path          size
#   PRIMARY resource of DRBD that is in use on the node
# FAILED and what could not be found out; nothing that is absent then is known to be absent. END is the last line of a listing that is
# whole. It writes nothing, and takes no locks.
tab=$(printf '\t')
# DRBD's devices, and zvols, have nothing of LINSTOR's in them, and one whose I/O is suspended would not answer.
lvm='devices { global_filter=["r|^/dev/drbd|", "r|^/dev/zd|"] }'
limited() { timeout -k 1 60 "$@"; }

lines=$(limited vgs --config "$lvm" --readonly --noheadings --nosuffix --units b --separator "$tab" -o vg_name,vg_extent_size) &&
  volumes=$(limited lvs --config "$lvm" --readonly --noheadings --nosuffix --units b --separator "$tab" -o vg_name,lv_name,lv_size) &&
  printf '%s\n' "$lines" | sed -n "s/^ *\(.*[^ ]\) *\$/VG$tab\1/p" &&
  printf '%s\n' "$volumes" | sed -n "s/^ *\(.*[^ ]\) *\$/LV$tab\1/p" || printf 'FAILED\tLVM\n'

if [ -d /sys/module/zfs ]; then # without it no zpool can be there
  lines=$(limited zpool list -H -o name) && volumes=$(limited zfs list -H -p -t volume,snapshot -o name,volsize) &&
    printf '%s\n' "$lines" | sed -n "s/^..*\$/ZPOOL$tab&/p" &&
    printf '%s\n' "$volumes" | sed -n "s/^..*\$/ZVOL$tab&/p" || printf 'FAILED\tZFS\n'
fi

if [ -d /sys/module/drbd ]; then # drbdsetup would load the module
  code=0
  said=$(limited drbdsetup status 2>&1) || code=$?
  none='No currently configured DRBD found.'
  case "$code ${said#'# '}" in
    '0 ' | "0 $none" | "10 $none") # which it says as well, with 0, if it got no answer from the kernel
      for device in /sys/block/drbd[0-9]*; do [ ! -e "$device" ] || { printf 'FAILED\tDRBD\n' && break; }; done ;;
    *"$none"*) printf 'FAILED\tDRBD\n' ;;
    '0 '*) printf '%s\n' "$said" | sed -n "s/^\([^ ][^ ]*\) role:Primary\( .*\)*\$/PRIMARY$tab\1/p" ;;
    *) printf 'FAILED\tDRBD\n' ;;
  esac
fi

# A pattern of the shell would hand all names to one program, which takes some ten thousand at most. A name with a tab or the end of a
# line is none of LINSTOR's, and would be read as another line.
for dir; do
  [ -d "$dir" ] && printf 'DIR\t%s\n' "$dir" &&
    LC_ALL=C find "${dir%/}/." -maxdepth 1 -name '[!.]*.img' ! -name '*[[:cntrl:]]*' -printf 'FILE\t%p\t%s\n' ||
    printf 'FAILED\t%s\n' "$dir"
done
echo END
