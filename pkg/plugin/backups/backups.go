// Package backups is the command backup: it asks the operator for a backup of LINSTOR's database, with the annotation
// storage.linstor.dev/backup, and says where it lies.
package backups

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/backupspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/access"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/exit"
)

// command is one call of backup.
type command struct {
	*access.Env
	cluster *access.Cluster
	name    string
	timeout time.Duration
}

const long = `Back up LINSTOR's database now, as described in docs/how-to/back-up-the-database.md: the command
writes the storage.linstor.dev/backup annotation, waits until the operator has stored the backup, and shows its
location.

To set a name, use --name (at most 63 lowercase letters, digits, hyphens and dots). Each name can be used only once.
The default name is the current time.`

// Command is the command backup.
func Command(env *access.Env) *cobra.Command {
	c := &command{Env: env}
	cmd := &cobra.Command{
		Use:   "backup",
		Short: "Back up LINSTOR's database now",
		Long:  long,
		Example: `  kubectl linstor backup
  kubectl linstor backup --name before-the-move
  kubectl linstor backup list`,
		// A name is a flag: a command that is mistyped must not be one.
		Args: access.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("name") {
				c.name = c.Now().UTC().Format("20060102t150405z")
			}
			return c.take(cmd.Context(), c.name)
		},
	}
	cmd.Flags().StringVar(&c.name, "name", "", "name of the backup (default: the current time)")
	cmd.Flags().DurationVar(&c.timeout, "timeout", 5*time.Minute, "how long to wait for the backup; 0 waits indefinitely")
	cmd.AddCommand(&cobra.Command{
		Use:   "list",
		Short: "Show the last, current and next backup, and where they are stored",
		Long: "Show the last backup, the one in progress and the next one, and where they are stored. The store may " +
			"contain\nmore backups, but listing them requires its credentials, and the plugin does not read Secrets.",
		Args: access.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return c.list(cmd.Context()) },
	})
	return cmd
}

// shapeOfName is what the operator takes as a name.
var shapeOfName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$`)

// read reads the StorageCluster, which must ask for backups.
func (c *command) read(ctx context.Context) (*v1alpha1.StorageCluster, error) {
	var err error
	if c.cluster, err = c.Connect(); err != nil {
		return nil, err
	}
	sc, err := c.cluster.StorageCluster(ctx)
	if err != nil {
		return nil, err
	}
	if sc.Spec.Backup == nil {
		return nil, errors.New("spec.backup is not set, so backups cannot be stored; first set spec.backup.s3 or " +
			"spec.backup.claim (docs/how-to/back-up-the-database.md)")
	}
	return sc, nil
}

// attempts bounds how often the annotation is written anew after the operator wrote the object meanwhile.
const attempts = 10

func (c *command) take(ctx context.Context, name string) error {
	if !shapeOfName.MatchString(name) {
		return exit.Usagef("%q is not a valid backup name: use at most 63 lowercase letters, digits, hyphens and dots, "+
			"and start and end with a letter or digit", name)
	}
	ctx, cancel := access.WithTimeout(ctx, c.timeout)
	defer cancel()
	for n := 1; ; n++ {
		sc, err := c.read(ctx)
		if err != nil {
			return err
		}
		if err := refused(sc, name); err != nil {
			return err
		}
		err = c.cluster.Annotate(ctx, sc, v1alpha1.AnnotationBackup, &name)
		if apierrors.IsConflict(err) && n < attempts {
			continue
		}
		if err != nil {
			return err
		}
		return c.await(ctx, name)
	}
}

// refused is why a backup is not asked for.
func refused(sc *v1alpha1.StorageCluster, name string) error {
	st := sc.Status.Backup
	if sc.Spec.Suspend {
		return errors.New("spec.suspend is set: the operator does not take backups until it is false again")
	}
	if st == nil {
		return nil
	}
	if st.Requested == name || st.Last != nil && st.Last.ID == manual(name) {
		return fmt.Errorf("backup %s has already been taken: use a different name", manual(name))
	}
	if why := ended(st, name); why != "" {
		return errors.New(why)
	}
	asked := sc.Annotations[v1alpha1.AnnotationBackup]
	if asked != "" && asked != name && asked != st.Requested && ended(st, asked) == "" {
		return fmt.Errorf("backup %s has been requested but not yet taken; check with \"kubectl linstor backup list\"",
			manual(asked))
	}
	return nil
}

// ended is why the operator does not take the backup of that name any more; "" if it does.
func ended(st *backupspec.BackupStatus, name string) string {
	if r := st.Request; r != nil && r.Name == name {
		return r.Refused
	}
	return ""
}

// manual is the ID of a backup on request.
func manual(name string) string { return "manual-" + name }

// await waits until the backup is in its store. One that fails is tried again by the operator, so that its reason is
// said, and said again when the time is over.
func (c *command) await(ctx context.Context, name string) error {
	var last *v1alpha1.StorageCluster
	why := ""
	err := c.cluster.Await(ctx, c.Every, func(_ context.Context, sc *v1alpha1.StorageCluster) (bool, error) {
		last = sc
		if st := sc.Status.Backup; st != nil && (st.Requested == name || ended(st, name) != "") {
			return true, nil
		}
		if now := trouble(sc, name); now != why && now != "" {
			access.Say(c.ErrOut, c.Look().Wrap(now, "")...)
			why = now
		}
		return false, nil
	})
	if errors.Is(err, context.DeadlineExceeded) {
		if why == "" {
			why = fmt.Sprintf("the operator has not reported anything about it; check whether it is running: kubectl -n "+
				"%s get pods", v1alpha1.OperatorNamespace)
		}
		return fmt.Errorf("backup %s was not taken within %s (%w), but the request remains: %s", manual(name),
			c.timeout, err, why)
	}
	if err != nil {
		return fmt.Errorf("unknown whether backup %s was taken: %w. The request remains; check with \"kubectl "+
			"linstor backup list\"", manual(name), err)
	}
	if why := ended(last.Status.Backup, name); why != "" {
		return errors.New(why)
	}
	if b := last.Status.Backup.Last; b == nil || b.ID != manual(name) {
		access.Say(c.Out, fmt.Sprintf("%s was taken, but the status already shows a later backup; stored in %s",
			manual(name), c.place(ctx, last)))
		return nil
	}
	access.Say(c.Out, taken(last.Status.Backup.Last, c.place(ctx, last))...)
	return nil
}

// trouble is what the operator says of a backup that is not there yet.
func trouble(sc *v1alpha1.StorageCluster, name string) string {
	if st := sc.Status.Backup; st != nil && st.Current != nil && st.Current.ID == manual(name) {
		if cur := st.Current; cur.Message != "" {
			return fmt.Sprintf("attempt %d failed: %s", cur.Attempts, cur.Message)
		}
	}
	if cond := meta.FindStatusCondition(sc.Status.Conditions, conditions.BackupReady); cond != nil &&
		cond.Status == "False" {
		return cond.Reason + ": " + cond.Message
	}
	return ""
}

// taken says what a backup is and where it lies.
func taken(b *backupspec.Backup, place string) []string {
	out := []string{
		fmt.Sprintf("%s, taken at %s with LINSTOR %s: %d volumes, %d bytes, verified by %s", b.ID,
			b.Taken.UTC().Format(time.RFC3339), b.Linstor, b.ResourceDefinitions, b.Bytes, b.Verified),
		"  " + place + file(b),
	}
	if b.Problem != "" {
		out = append(out, "  "+b.Problem)
	}
	return out
}

// file is the name of a backup in its store.
func file(b *backupspec.Backup) string {
	return b.Taken.UTC().Format("20060102T150405Z") + "-" + b.ID + ".json.gz"
}

// place is where backups lie: a bucket or a claim, and a directory in it for this database.
func (c *command) place(ctx context.Context, sc *v1alpha1.StorageCluster) string {
	database := "<Cluster/LocalID>" // whoever may not read the claim sees it in LINSTOR
	claim := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: v1alpha1.WorkloadNamespace, Name: "linstor-claim"}
	if err := c.cluster.Get(ctx, key, claim); err == nil && claim.Data["localID"] != "" {
		database = claim.Data["localID"]
	}
	dir := func(prefix string) string {
		if prefix = strings.Trim(prefix, "/"); prefix != "" {
			prefix += "/"
		}
		return prefix + database + "/"
	}
	switch b := sc.Spec.Backup; {
	case b.S3 != nil:
		return fmt.Sprintf("s3://%s/%s", b.S3.Bucket, dir(b.S3.Prefix))
	case b.Claim != nil:
		return fmt.Sprintf("PersistentVolumeClaim %s/%s: %s", v1alpha1.WorkloadNamespace, b.Claim.Name, dir(b.Claim.Prefix))
	default:
		return ""
	}
}

// list shows what the status says of backups.
func (c *command) list(ctx context.Context) error {
	sc, err := c.read(ctx)
	if err != nil {
		return err
	}
	place := c.place(ctx, sc)
	where := place
	if s3 := sc.Spec.Backup.S3; s3 != nil {
		where += " at " + s3.Endpoint
	}
	access.Say(c.Out, "Backups are stored in "+where)
	st := sc.Status.Backup
	if st == nil {
		st = &backupspec.BackupStatus{}
	}
	if st.Last != nil {
		access.Say(c.Out, append([]string{"Last:"}, indented(taken(st.Last, place))...)...)
	} else {
		access.Say(c.Out, "Last: none yet")
	}
	if cur := st.Current; cur != nil {
		text := "Current: " + cur.ID + ", started " + cur.Since.UTC().Format(time.RFC3339)
		if cur.Message != "" {
			text += fmt.Sprintf(", failed %d times: %s", cur.Attempts, cur.Message)
		}
		access.Say(c.Out, c.Look().Wrap(text, "")...)
	}
	if st.Upgrade != "" {
		access.Say(c.Out, "Before the pending upgrade: "+st.Upgrade)
	}
	if st.Next != nil {
		access.Say(c.Out, "Next: "+st.Next.UTC().Format(time.RFC3339))
	}
	if why := trouble(sc, ""); why != "" {
		access.Say(c.Out, c.Look().Wrap(why, "")...)
	}
	return nil
}

func indented(lines []string) []string {
	out := make([]string, 0, len(lines))
	for _, l := range lines {
		out = append(out, "  "+l)
	}
	return out
}
