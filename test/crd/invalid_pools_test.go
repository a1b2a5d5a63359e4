package crd

import (
	"strconv"
	"strings"
)

// pool is the text of a spec with one storage pool.
func pool(fields string) string { return "storagePools: [{name: ssd, " + fields + "}]" }

// devices is the text of a spec with one storage pool made from devices that match.
func devices(match string) string {
	return pool("lvm: {volumeGroup: vg}, devices: {match: [" + match + "]}")
}

// long is a text of n letters.
func long(n int) string { return strings.Repeat("a", n) }

// numbered joins n copies of a text, with the numbers from 0 in place of %d.
func numbered(text string, n int) string {
	texts := make([]string, n)
	for i := range texts {
		texts[i] = strings.ReplaceAll(text, "%d", strconv.Itoa(i))
	}
	return strings.Join(texts, ", ")
}

var invalidPools = []invalid{
	{"no provider", `storagePools: [{name: ssd}]`, "spec.storagePools", "exactly one of lvm"},
	{"two providers", pool("lvm: {volumeGroup: vg}, zfs: {zpool: tank}"), "spec.storagePools", "exactly one of lvm"},
	{"thick and thin of one kind", pool("file: {directory: /a}, fileThin: {directory: /a}"), "spec.storagePools",
		"exactly one of lvm"},
	{"entry without name", `storagePools: [{lvm: {volumeGroup: vg}}]`, "spec.storagePools.name", "Required"},
	{"entry twice", `storagePools: [{name: ssd, lvm: {volumeGroup: a}}, {name: ssd, lvm: {volumeGroup: b}}]`,
		"spec.storagePools", "Duplicate value"},
	{"name too short", `storagePools: [{name: sd, lvm: {volumeGroup: vg}}]`, "spec.storagePools.name",
		"LINSTOR pool names must have 3 to 48 characters"},
	{"pool too short", pool("pool: sd, lvm: {volumeGroup: vg}"), "spec.storagePools.pool",
		"LINSTOR pool names must have 3 to 48 characters"},
	{"name too long", `storagePools: [{name: ` + long(49) + `, lvm: {volumeGroup: vg}}]`, "spec.storagePools.name",
		"more than 48"},
	{"name with digit first", `storagePools: [{name: 1ssd, lvm: {volumeGroup: vg}}]`, "spec.storagePools.name",
		"LINSTOR pool name"},
	{"name with dot", `storagePools: [{name: ssd.1, lvm: {volumeGroup: vg}}]`, "spec.storagePools.name",
		"LINSTOR pool name"},
	{"name of the diskless pool", `storagePools: [{name: DfltDisklessStorPool, lvm: {volumeGroup: vg}}]`,
		"spec.storagePools.name", "are reserved for LINSTOR"},
	{"pool of LINSTOR in lower case", pool("pool: dfltstorpool, lvm: {volumeGroup: vg}"), "spec.storagePools.pool",
		"are reserved for LINSTOR"},
	{"pool with a space", pool(`pool: "my pool", lvm: {volumeGroup: vg}`), "spec.storagePools.pool", "LINSTOR pool name"},
	{"one LINSTOR pool twice",
		`storagePools: [{name: ssd, lvm: {volumeGroup: a}}, ` +
			`{name: hdd, pool: SSD, lvm: {volumeGroup: b}, nodeSelector: {}}]`,
		"spec.storagePools", "same LINSTOR pool on all nodes"},
	{"one volume group twice", `storagePools: [{name: ssd, lvm: {volumeGroup: a}}, {name: hdd, lvm: {volumeGroup: a}}]`,
		"spec.storagePools", "count its free space twice"},
	{"one thin pool twice",
		`storagePools: [{name: ssd, lvmThin: {volumeGroup: a, thinPool: t}}, ` +
			`{name: hdd, lvmThin: {volumeGroup: a, thinPool: t}, nodeSelector: {}}]`,
		"spec.storagePools", "use the same volume group, thin pool"},
	{"one zpool thick and thin", `storagePools: [{name: ssd, zfs: {zpool: tank}}, {name: hdd, zfsThin: {zpool: tank}}]`,
		"spec.storagePools", "count its free space twice"},
	{"one directory thick and thin",
		`storagePools: [{name: ssd, file: {directory: /a}}, {name: hdd, fileThin: {directory: /a}}]`, "spec.storagePools",
		"count its free space twice"},
	{"65 pools", `storagePools: [` + numbered("{name: ssd%d, lvm: {volumeGroup: vg}}", 65) + `]`, "spec.storagePools",
		"at most 64"},
	{"pool by an expression without values", poolAffinity("{key: a, operator: NotIn}"), poolAffinityValues,
		"require at least one value"},
	{"pool by an expression with values of no use", poolAffinity("{key: a, operator: DoesNotExist, values: [b]}"),
		poolAffinityValues, "take no values"},
	{"pool by an expression that compares words", poolAffinity("{key: a, operator: Lt, values: [b]}"), poolAffinityValues,
		"must be an integer"},
	{"pool selector with a long value", pool("lvm: {volumeGroup: vg}, nodeSelector: {disk: " + long(64) + "}"),
		"spec.storagePools.nodeSelector", "value at most 63"},

	{"lvm without volume group", pool("lvm: {}"), "spec.storagePools.lvm.volumeGroup", "Required"},
	{"lvm volume group with dot", pool("lvm: {volumeGroup: vg.1}"), "spec.storagePools.lvm.volumeGroup",
		"letters, digits"},
	{"lvm volume group empty", pool(`lvm: {volumeGroup: ""}`), "spec.storagePools.lvm.volumeGroup", "at least 1"},
	{"lvmThin volume group with option", pool("lvmThin: {volumeGroup: -f, thinPool: thin}"),
		"spec.storagePools.lvmThin.volumeGroup", "not start with '-'"},
	{"lvmThin without thin pool", pool("lvmThin: {volumeGroup: vg}"), "spec.storagePools.lvmThin.thinPool", "Required"},
	{"lvmThin thin pool with slash", pool("lvmThin: {volumeGroup: vg, thinPool: vg/thin}"),
		"spec.storagePools.lvmThin.thinPool", "letters, digits"},
	{"zfs with colon", pool(`zfs: {zpool: "tank:a"}`), "spec.storagePools.zfs.zpool", "LINSTOR accepts only"},
	{"zfsThin with slash at the end", pool("zfsThin: {zpool: tank/}"), "spec.storagePools.zfsThin.zpool",
		"path of a dataset"},
	{"file relative", pool("file: {directory: var/pool}"), "spec.storagePools.file.directory", "absolute path"},
	{"file with dots", pool("file: {directory: /var/../etc}"), "spec.storagePools.file.directory", "absolute path"},
	{"fileThin with slash at the end", pool("fileThin: {directory: /var/pool/}"), "spec.storagePools.fileThin.directory",
		"without a trailing '/'"},
	{"fileThin with a dot", pool("fileThin: {directory: /var/pool.d}"), "spec.storagePools.fileThin.directory",
		"LINSTOR accepts only"},

	{"warning at nothing", pool("lvm: {volumeGroup: vg}, warnUsedPercent: 0"), "spec.storagePools.warnUsedPercent",
		"greater than or equal to 1"},
	{"warning above full", pool("lvm: {volumeGroup: vg}, warnUsedPercent: 101"), "spec.storagePools.warnUsedPercent",
		"less than or equal to 100"},
	{"approval unknown", pool("lvm: {volumeGroup: vg}, devices: {match: [{serial: a}], approval: Ask}"),
		"spec.storagePools.devices.approval", `"Auto", "Manual"`},
	{"devices with file", pool("file: {directory: /a}, devices: {match: [{serial: a}]}"), "spec.storagePools.devices",
		"not supported with file and fileThin"},
	{"devices with fileThin", pool("fileThin: {directory: /a}, devices: {match: [{serial: a}]}"),
		"spec.storagePools.devices", "not supported with file and fileThin"},
	{"devices with a dataset", pool("zfs: {zpool: tank/a}, devices: {match: [{serial: a}]}"), "spec.storagePools.devices",
		"but not datasets"},
	{"devices with a thin dataset", pool("zfsThin: {zpool: tank/a}, devices: {match: [{serial: a}]}"),
		"spec.storagePools.devices", "but not datasets"},
	{"devices without match", pool("lvm: {volumeGroup: vg}, devices: {}"), "spec.storagePools.devices.match", "Required"},
	{"devices with empty match", devices(""), "spec.storagePools.devices.match", "at least 1"},
	{"33 matches", devices(numbered("{serial: s%d}", 33)), "spec.storagePools.devices.match", "at most 32"},
	{"match of everything", devices("{}"), "spec.storagePools.devices.match", "would match every disk"},
	{"match by size alone", devices("{minSize: 1Gi}"), "spec.storagePools.devices.approval",
		"set approval: Manual to see the disks"},
	{"match by kind alone, beside a name", devices("{serial: a}, {rotational: false, maxSize: 2Ti}"),
		"spec.storagePools.devices.approval", "or approval: Auto"},
	{"match of every name", devices(`{serial: "*", wwn: "**", model: "*", rotational: true}`),
		"spec.storagePools.devices.approval", "matches every empty disk"},
	{"serial empty", devices(`{serial: ""}`), "spec.storagePools.devices.match.serial", "at least 1"},
	{"wwn too long", devices(`{wwn: ` + long(129) + `}`), "spec.storagePools.devices.match.wwn", "more than 128"},
	{"minSize above maxSize", devices("{minSize: 1Ti, maxSize: 900Gi}"), "spec.storagePools.devices.match.minSize",
		"must not exceed maxSize"},
	{"minSize 0", devices(`{minSize: "0"}`), "spec.storagePools.devices.match.minSize", "greater than 0"},
	{"minSize that would be kept as 1", devices("{minSize: 1000000P}"), "spec.storagePools.devices.match.minSize",
		"less than 8Ei"},
	{"maxSize of many digits", devices("{maxSize: '10000000000000000000000'}"),
		"spec.storagePools.devices.match.maxSize", "less than 8Ei"},
	{"minSize in words", devices("{minSize: big}"), "spec.storagePools.devices.match.minSize", "quantity"},
	{"minSize of a huge exponent", devices("{minSize: \"1e-9999999\", maxSize: \"1E99999999999\"}"),
		"spec.storagePools.devices.match.minSize", "without an exponent"},
	{"minSize as a number", devices("{minSize: 1000}"), "spec.storagePools.devices.match.minSize",
		"must be of type string"},
	{"maxSize negative", devices(`{maxSize: "-1Gi"}`), "spec.storagePools.devices.match.maxSize", "greater than 0"},
	{"path outside /dev", devices("{path: /tmp/disk}"), "spec.storagePools.devices.match.path", "device path"},
	{"path with dots", devices("{path: /dev/../etc/passwd}"), "spec.storagePools.devices.match.path", "device path"},
	{"path of a link", devices("{path: /dev/disk/by-id/ata-1}"), "spec.storagePools.devices.match.path",
		"use serial or wwn"},
	{"path of a partition", devices("{path: /dev/nvme0n1p5}"), "spec.storagePools.devices.match.path",
		"create the volume group or zpool yourself"},
	{"path of a SCSI disk's partition", devices("{path: /dev/sdb1}"), "spec.storagePools.devices.match.path",
		"not partitions"},
	{"path of a card's partition", devices("{path: /dev/mmcblk0p3}"), "spec.storagePools.devices.match.path",
		"not partitions"},
	{"path of a mapped device", devices("{path: /dev/mapper/mpatha}"), "spec.storagePools.devices.match.path",
		"device-mapper"},
	{"path of an MD device", devices("{path: /dev/md127}"), "spec.storagePools.devices.match.path", "MD device"},
	{"rotational in words", devices(`{rotational: "no"}`), "spec.storagePools.devices.match.rotational",
		"must be of type boolean"},

	{"pool property StorPoolName", pool("lvm: {volumeGroup: vg}, properties: {StorDriver/StorPoolName: x}"),
		"spec.storagePools.properties", "StorDriver/StorPoolName"},
	{"pool property LvmVg", pool("lvm: {volumeGroup: vg}, properties: {StorDriver/LvmVg: x}"),
		"spec.storagePools.properties", "older forms"},
	{"pool property of the operator", pool("lvm: {volumeGroup: vg}, properties: {Aux/storage.linstor.dev/x: v}"),
		"spec.storagePools.properties", "reserved for the operator"},
	{"pool property with an empty key", pool(`lvm: {volumeGroup: vg}, properties: {"": v}`),
		"spec.storagePools.properties", "1 to 256"},
}

// change is an update that the API server must refuse, or take where field is empty.
type change struct {
	name, from, to, field, message string
}

const (
	postgres = "database: {postgresql: {host: db, credentialsSecret: db}}"
	mariadb  = "database: {mariadb: {host: db, credentialsSecret: db}}"
	etcd     = `{version: 1.33.2, database: {etcd: {endpoints: ["http://e:2379"]}}}`
)

var invalidChanges = []change{
	{"replicas of a class", classes(`{name: fast}`), classes(`{name: fast, replicas: 3}`),
		"spec.volumes.storageClasses", "cannot be changed: add an entry with another name"},
	{"pools of a class", classes(`{name: fast}`), classes(`{name: fast, storagePools: [ssd]}`),
		"spec.volumes.storageClasses", "cannot be changed"},
	{"parameters of a class", classes(`{name: fast, parameters: {fsOpts: a}}`), classes(`{name: fast}`),
		"spec.volumes.storageClasses", "cannot be changed"},
	{"postgresql database given later", postgres,
		"database: {postgresql: {host: db, database: other, credentialsSecret: db}}", "spec.database.postgresql.database",
		"cannot be changed"},
	{"mariadb database taken away", "database: {mariadb: {host: db, database: other, credentialsSecret: db}}", mariadb,
		"spec.database.mariadb.database", "cannot be changed"},
	{"the members' data is elsewhere", `{version: 1.33.2, database: {managedEtcd: {}}}`,
		`{version: 1.33.2, database: {managedEtcd: {dataPath: /mnt/etcd}}}`, "spec.database.managedEtcd.dataPath",
		"dataPath cannot be changed"},
	{"etcd and LINSTOR 1.34", etcd, `{version: 1.34.2, database: {etcd: {endpoints: ["http://e:2379"]}}}`, "spec",
		"dropped support for etcd"},

	{"lvm to lvmThin", pool("lvm: {volumeGroup: vg}"), pool("lvmThin: {volumeGroup: vg, thinPool: thin}"),
		"spec.storagePools", "provider of a storage pool"},
	{"zfs to zfsThin", pool("zfs: {zpool: tank}"), pool("zfsThin: {zpool: tank}"), "spec.storagePools",
		"provider of a storage pool"},
	{"file to fileThin", pool("file: {directory: /a}"), pool("fileThin: {directory: /a}"), "spec.storagePools",
		"provider of a storage pool"},
	{"lvm volume group", pool("lvm: {volumeGroup: vg}"), pool("lvm: {volumeGroup: vg2}"),
		"spec.storagePools.lvm.volumeGroup", "cannot be changed"},
	{"lvmThin volume group", pool("lvmThin: {volumeGroup: vg, thinPool: thin}"),
		pool("lvmThin: {volumeGroup: vg2, thinPool: thin}"), "spec.storagePools.lvmThin.volumeGroup", "cannot be changed"},
	{"lvmThin thin pool", pool("lvmThin: {volumeGroup: vg, thinPool: thin}"),
		pool("lvmThin: {volumeGroup: vg, thinPool: thin2}"), "spec.storagePools.lvmThin.thinPool", "cannot be changed"},
	{"zfs zpool", pool("zfs: {zpool: tank}"), pool("zfs: {zpool: tank/a}"), "spec.storagePools.zfs.zpool",
		"cannot be changed"},
	{"zfsThin zpool", pool("zfsThin: {zpool: tank}"), pool("zfsThin: {zpool: pond}"), "spec.storagePools.zfsThin.zpool",
		"cannot be changed"},
	{"file directory", pool("file: {directory: /a}"), pool("file: {directory: /b}"), "spec.storagePools.file.directory",
		"cannot be changed"},
	{"fileThin directory", pool("fileThin: {directory: /a}"), pool("fileThin: {directory: /b}"),
		"spec.storagePools.fileThin.directory", "cannot be changed"},
	{"pool given later", pool("lvm: {volumeGroup: vg}"), pool("pool: fast, lvm: {volumeGroup: vg}"),
		"spec.storagePools.pool", "cannot rename"},
	{"pool taken away", pool("pool: fast, lvm: {volumeGroup: vg}"), pool("lvm: {volumeGroup: vg}"),
		"spec.storagePools.pool", "cannot rename"},
	{"pool changed", pool("pool: fast, lvm: {volumeGroup: vg}"), pool("pool: slow, lvm: {volumeGroup: vg}"),
		"spec.storagePools.pool", "cannot rename"},
	{"entries in another order", "storagePools: [{name: ssd, lvm: {volumeGroup: a}}, {name: hdd, lvm: {volumeGroup: b}}]",
		"storagePools: [{name: hdd, lvm: {volumeGroup: a}}, {name: ssd, lvm: {volumeGroup: b}}]",
		"spec.storagePools.lvm.volumeGroup", "cannot be changed"},
}

var validChanges = []change{
	{name: "unset to kubernetes", from: "{}", to: "database: {kubernetes: {}}"},
	{name: "no spec to kubernetes", from: "", to: "database: {kubernetes: {}}"},
	{name: "kubernetes to unset", from: "database: {kubernetes: {}}", to: "{}"},
	{name: "kubernetes to no spec", from: "database: {kubernetes: {}}", to: ""},
	{name: "unset to postgresql", from: "{}", to: postgres},
	{name: "kubernetes to mariadb", from: "database: {kubernetes: {}}", to: mariadb},
	{name: "postgresql to no spec", from: postgres, to: ""},
	{name: "etcd to kubernetes", from: etcd, to: "{version: 1.33.2, database: {kubernetes: {}}}"},
	{name: "etcd to kubernetes and LINSTOR 1.34", from: etcd, to: "{version: 1.34.2, database: {kubernetes: {}}}"},
	{name: "postgresql moves", from: postgres,
		to: "database: {postgresql: {host: db2, port: 5433, credentialsSecret: db2, sslMode: require}}"},
	{name: "postgresql default database given", from: postgres,
		to: "database: {postgresql: {host: db, database: linstor, credentialsSecret: db}}"},
	{name: "etcd members change", from: etcd,
		to: `{version: 1.33.3, database: {etcd: {endpoints: ["http://e1:2379", "http://e2:2379"]}}}`},
	{name: "version given", from: "{}", to: "version: 1.35.3"},
	{name: "version taken away", from: "version: 1.35.3", to: "{}"},
	{name: "pool given as it is", from: pool("lvm: {volumeGroup: vg}"), to: pool("pool: ssd, lvm: {volumeGroup: vg}")},
	{name: "entry added", from: "{}", to: pool("lvm: {volumeGroup: vg}")},
	{name: "entry removed", from: pool("lvm: {volumeGroup: vg}"), to: "{}"},
	{name: "entry replaced", from: pool("lvm: {volumeGroup: vg}"),
		to: "storagePools: [{name: ssd2, lvmThin: {volumeGroup: vg, thinPool: thin}}]"},
	{name: "entries in another order", from: "storagePools: [{name: ssd, lvm: {volumeGroup: a}}, {name: hdd, zfs: " +
		"{zpool: tank}}]",
		to: "storagePools: [{name: hdd, zfs: {zpool: tank}}, {name: ssd, lvm: {volumeGroup: a}}]"},
	{name: "devices and selector of an entry", from: pool("lvm: {volumeGroup: vg}"),
		to: pool("lvm: {volumeGroup: vg}, nodeSelector: {disk: ssd}, devices: {match: [{serial: a}]}")},
	{name: "what may change of a class, and classes that come and go", from: classes("{name: fast}, {name: slow}"),
		to: classes("{name: fast, default: true, allowVolumeExpansion: false, mountOptions: [noatime], replicas: 2}, " +
			"{name: new}")},
	{name: "everything else", from: "{}", to: "{suspend: true, deletionPolicy: Delete, kernelModule: {mode: " +
		"Preinstalled}, images: {registry: mirror.example.com}, volumes: {driver: " +
		"{mode: Managed, kubeletDirectory: /data/kubelet}}, nodes: {network: {mode: Pod}, minReady: 1}, controller: " +
		"{passphraseSecret: p}}"},
}
