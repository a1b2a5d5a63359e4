package harness

import "github.com/linstor-dev/storagecluster-operator/test/simcluster"

// InstallSnapshotAPI installs the definitions of the API of snapshots, as an administrator does who wants snapshots.
func InstallSnapshotAPI(e *Env) {
	e.T.Helper()
	if err := simcluster.InstallSnapshotAPI(e.Ctx, e.Sim); err != nil {
		e.T.Fatal(err)
	}
}

// RunSnapshotController runs Kubernetes' snapshot controller until the cluster stops. The definitions must be there.
func RunSnapshotController(e *Env) {
	e.T.Helper()
	if err := simcluster.RunSnapshotController(e.Ctx, e.Sim); err != nil {
		e.T.Fatal(err)
	}
}
