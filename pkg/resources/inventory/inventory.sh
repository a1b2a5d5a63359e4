# Lists the node's disks and what is on them, for the operator, in the container's termination message. The first line sums up:
#   DISKS="2" UDEV="1" VGS=" vg_os vg_ssd" ZPOOLS=" tank"
# One line for each disk follows:
#   NAME="sdb" SIZE="1000" ROTA="0" SERIAL="S1" WWN="0x5" MODEL="M" FSTYPE="LVM2_member" PTTYPE="gpt" SEEN="1" UDEV="1" HELD=" dm-0" IN=" vg_ssd"
# What is empty is left out. FSTYPE and PTTYPE are what blkid reads from the disk itself. SEEN is 1 if the disk could be read and blkid
# has looked at it. UDEV is 1 if udev has a record of the disk that says the same: only then does lsblk, which LINSTOR lists empty disks
# with, know what is on it. HELD is what uses the disk. IN are the volume groups and zpools on it and its partitions. VGS or ZPOOLS is ?
# if not all of them could be found out.
# The end is cut off where the message has no room: whoever reads it counts the lines.
dev=/dev sys=/sys/block mounts=/sys/fs udev=/run/udev/data log=/termination-log

# A disk that does not answer must not keep the satellite from its start for long.
limited() { timeout -k 1 10 "$@" 2>/dev/null; }
readable() { [ -n "$(limited head -c 4096 "$1" | od -An -N1)" ] && [ -n "$(limited tail -c 4096 "$1" | od -An -N1)" ]; }

# tag prints a tag of a device, and fails if blkid could not look at it. blkid ends with 2 if it finds nothing that it knows. If it finds
# signatures of several kinds, it ends with 8 and prints none of them: nothing printed must not pass for an empty disk.
tag() {
  found=$(limited blkid -p -o value -s "$2" "$1")
  case $? in
  0 | 2) printf %s "$found" | tr -d '"\\\n' ;;
  8) if [ "$2" = TYPE ]; then printf 'several signatures'; fi ;;
  *) return 1 ;;
  esac
}

# devices lists a disk and its partitions, as far as the kernel knows them. Where their names have a /, sysfs has a !.
devices() {
  for d in "$sys/$1" "$sys/$1/$1"*; do
    if [ -e "$d/dev" ]; then printf '%s\n' "$dev/${d##*/}" | tr '!' '/'; fi
  done
}

held() {
  for h in "$sys/$1/holders/"*; do
    if [ -e "$h" ]; then printf ' %s' "${h##*/}"; fi
  done
  for m in "$mounts"/*/"$1" "$mounts"/btrfs/*/devices/"$1"; do
    if [ -e "$m" ]; then printf ' a mount'; break; fi
  done
}

# groups lists the volume groups and zpools on a disk and its partitions. A zpool's label is its name. One of several signatures may be a
# zpool's.
groups() {
  devices "$1" | while read -r d; do
    printf '%s\n' "$pvs" | while read -r pv vg _; do
      if [ "$pv" = "$d" ]; then printf ' %s' "$vg"; fi
    done
    zpool "$d"
  done
}
zpool() {
  case $(tag "$1" TYPE || printf '?') in
  zfs_member)
    label=$(tag "$1" LABEL)
    printf ' %s' "${label:-?}"
    ;;
  'several signatures' | '?') printf ' ?' ;;
  esac
}

disks() {
  printf '%s\n' "$list" | while IFS= read -r line; do
    # Memory, and a card reader or virtual drive without a medium, are no disks that anybody could use.
    case $line in NAME=\"zram* | *' SIZE="0" '*) continue ;; NAME=*' TYPE="disk" '*) ;; *) continue ;; esac
    name=${line#NAME=\"} name=${name%%\"*} fs='' pt='' seen='' known=''
    node=$(printf %s "$name" | tr / '!')
    if readable "$dev/$name" && fs=$(tag "$dev/$name" TYPE) && pt=$(tag "$dev/$name" PTTYPE); then seen=1; fi
    if number=$(cat "$sys/$node/dev" 2>/dev/null) && [ -e "$udev/b$number" ]; then
      if [ "${line##* FSTYPE=}" != '"" PTTYPE=""' ] || [ -z "$fs$pt" ]; then known=1; fi
    fi
    printf '%s FSTYPE="%s" PTTYPE="%s" SEEN="%s" UDEV="%s" HELD="%s" IN="%s"\n' "${line%% FSTYPE=*}" "$fs" "$pt" "$seen" "$known" \
      "$(held "$node")" "$(groups "$node")"
  done | sed 's/ TYPE="disk"//; s/ [A-Z]*=""//g' # room is scarce
}

# A VG or zpool of that name anywhere on the node counts, on other disks than those that are listed as well.
vgs() {
  if [ -z "$lvm" ]; then printf ' ?'; return; fi
  printf '%s\n' "$pvs" | while read -r _ vg _; do
    if [ -n "$vg" ]; then printf '%s\n' "$vg"; fi
  done | sort -u | while read -r vg; do printf ' %s' "$vg"; done
}
zpools() {
  printf '%s\n' "$list" | sed -n 's/^NAME="\([^"]*\)".*/\1/p' | tr / '!' | while read -r node; do
    devices "$node" | while read -r d; do zpool "$d"; done
  done
}

list=$(lsblk -P -b -d -n -e 1,2,7,11,43,147 -o NAME,TYPE,SIZE,ROTA,SERIAL,WWN,MODEL,FSTYPE,PTTYPE 2>&1)
# It must not write to the disks, nor wait for LVM's locks.
if pvs=$(limited pvs --readonly --noheadings --separator ' ' -o pv_name,vg_name); then lvm=1; else lvm=; fi
lines=$(disks)
count=$(printf '%s\n' "$lines" | grep -c '^NAME=')
known=$(printf '%s\n' "$lines" | grep -c ' UDEV="1"')
if [ "$count" = "$known" ] && [ "$count" != 0 ]; then all=1; else all=; fi
printf 'DISKS="%s" UDEV="%s" VGS="%s" ZPOOLS="%s"\n%s\n' "$count" "$all" "$(vgs)" "$(zpools)" "$lines" | head -c LIMIT > "$log"
exit 0
