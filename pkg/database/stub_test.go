package database

import (
	"github.com/linstor-dev/storagecluster-operator/pkg/database/connection"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/test/sqlstub"
)

// What every SQL server of the tests has: users by name, and databases by name.
const (
	// ownerUser owns all databases; guestUser may connect to them and read nothing.
	ownerUser, ownerPassword = "linstor-owner", "s3cret-owner"
	guestUser, guestPassword = "linstor-guest", "s3cret-guest"
	// readerUser may read everything and write nothing. To frozenUser a real server is read-only.
	readerUser, frozenUser, otherPassword = "linstor-reader", "linstor-frozen", "s3cret-other"

	// emptyDatabase has no LINSTOR, freshDatabase LINSTOR's tables without nodes, foreignDatabase the foreignNodes.
	emptyDatabase, freshDatabase, foreignDatabase = "empty", "fresh", "taken"

	freshID, foreignID, foreignEpoch = "5e11-fresh", "5e11-foreign", "7"
)

// fresh and foreign are what a look finds in those databases.
func fresh() connection.Contents { return connection.Contents{LocalID: freshID} }

func foreign() connection.Contents {
	return connection.Contents{Nodes: firstForeignNodes, LocalID: foreignID, Epoch: foreignEpoch}
}

// controllerProperties are what LINSTOR's controller has there. Nobody may read the others.
func controllerProperties(id string) map[string]string {
	p := map[string]string{linstor.PropLocalID: id, "encrypted/masterkey": "c4nary"}
	if id == foreignID {
		p[linstor.PropEpoch] = foreignEpoch
	}
	return p
}

// foreignNodes are in no order, more than a Result shows, and one is not in ASCII.
func foreignNodes() []string {
	return []string{"n07", "n03", "n11", "N05", "n01", "n02", "n04", "n06", "n08", "n09", "n10", "Zürich"}
}

// stub is a server without a program behind it.
func stub() *sqlstub.Server {
	return &sqlstub.Server{
		Users:  map[string]string{ownerUser: ownerPassword, guestUser: guestPassword},
		Guests: []string{guestUser},
		Databases: map[string]*sqlstub.Contents{
			emptyDatabase:   nil,
			freshDatabase:   {Properties: controllerProperties(freshID)},
			foreignDatabase: {Nodes: foreignNodes(), Properties: controllerProperties(foreignID)},
		},
	}
}
