// Package database looks into LINSTOR's database before LINSTOR has started on it.
//
// LINSTOR migrates whatever its database holds when it starts, and there is no way back (linstor-server, DbMigrater). So
// before the first start one has to know two things that no LINSTOR can tell yet: whether the database can be used at all,
// and whether it already holds another LINSTOR's nodes. A [Prober] finds out, and only reads.
//
// Where LINSTOR keeps its nodes, by linstor-server's sources:
//
//   - kubernetes: custom resources "nodes" of the group internal.linstor.linbit.com, cluster-scoped, named by a hash; the
//     node's name is in spec.node_dsp_name (GenCrdV1_33_1). The versions are named after LINSTOR's schema, such as
//     v1-33-1, and all that LINSTOR ever made stay served.
//   - postgresql: table nodes in the schema "LINSTOR", which is quoted and so in capitals, while the table's name is not
//     and so in small letters (DatabaseDriverInfo, consolidated-init-db.sql).
//   - mariadb: table NODES in the database that the connection URL names. LINSTOR asks JDBC to use a schema LINSTOR, but
//     MariaDB's driver ignores that wish (MariaDB Connector/J, Connection.setSchema). LINSTOR also runs CREATE SCHEMA IF NOT
//     EXISTS `LINSTOR` when it migrates (MariaDBInfo), so its user needs the right CREATE on a database of that name too,
//     whichever the URL names; a look that only reads cannot tell whether it has it.
//   - etcd (LINSTOR before 1.34): keys /LINSTOR/NODES/<name in capitals>/<column> (EtcdUtils, CtrlConfig).
package database
