#!/bin/sh
# The first process of a guest: it loads the modules, sets up the network, and makes the image its root.
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
while read -r module; do # a line is a file and its parameters
	insmod /modules/$module || echo "init: cannot load $module"
done </modules/order

of() { sed -n "s/.* $1=\([^ ]*\).*/\1/p" /proc/cmdline; }
node=$(of node)
hostname "$node"
ip link set lo up
for pair in $(of addresses | tr , ' '); do
	device=${pair%%=*}
	until [ -e "/sys/class/net/$device" ]; do usleep 50000; done
	ip addr add "${pair#*=}" dev "$device"
	ip link set "$device" up
done

# The disk with the image is the second one. Nothing that is written to it outlives the guest.
mkdir -p /lower /changes /root
until [ -b /dev/vdb ]; do usleep 50000; done
mount -t ext4 -o ro /dev/vdb /lower
mount -t tmpfs -o size=300m tmpfs /changes
mkdir /changes/upper /changes/work
mount -t overlay -o lowerdir=/lower,upperdir=/changes/upper,workdir=/changes/work overlay /root
for dir in proc sys dev; do
	mount --move "/$dir" "/root/$dir"
done
mount -t tmpfs tmpfs /root/run
mkdir -p /root/run/lock /root/run/drbd /root/dev/pts
mount -t devpts devpts /root/dev/pts
mount -t debugfs debugfs /root/sys/kernel/debug
echo "127.0.0.1 localhost $node" >/root/etc/hosts
mkdir -p /programs /root/usr/local/bin
cp /programs/* /root/usr/local/bin/
cat >/root/agent <<'AGENT'
#!/bin/sh
# Runs scripts, each a line of base64, that come through the serial port, and answers with the exit code and the output.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
# To open the port before the device is there would make a plain file.
until port=$(ls /dev | grep -m 1 vport); do sleep 0.1; done
exec 3<>"/dev/$port"
while :; do
	while IFS= read -r line <&3; do
		echo "$line" | base64 -d >/run/script 2>/dev/null || continue
		sh /run/script >/run/output 2>&1 3>&- </dev/null
		code=$?
		{
			echo "CODE $code"
			base64 /run/output
			echo END
		} >&3
	done
	sleep 0.2 # no client is connected
done
AGENT
chmod +x /root/agent
exec switch_root /root /agent
