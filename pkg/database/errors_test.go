package database

import (
	"errors"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/database/connection"
)

func TestErrorsTellNoCredentials(t *testing.T) {
	about := subject{
		server: "mariadb at db:3306", database: "linstor", secret: secretName,
		access: connection.Settings{User: "linstor", Password: "hunter2"},
	}
	for _, tc := range []struct {
		name, cause, want string
		kind              error
	}{
		{
			name: "user in quotes", kind: errCredentials, cause: `no entry for user "linstor", database "linstor"`,
			want: `mariadb at db:3306 denied access: no entry for user "<username>", database "linstor" ` +
				`(see the username and password keys in Secret linstor-storage/linstor-db)`,
		},
		{
			name: "user in single quotes", kind: errUnreachable, cause: "user 'linstor'@'h' has too many connections",
			want: "mariadb at db:3306 cannot be reached: user '<username>'@'h' has too many connections",
		},
		{
			name: "password", cause: "cannot parse linstor:hunter2@db",
			want: "mariadb at db:3306: read LINSTOR's data: the message is omitted because it contains the password",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cause := errors.New(tc.cause)
			err := about.fail(t.Context(), tc.kind, cause)
			if err.Error() != tc.want {
				t.Errorf("got  %s\nwant %s", err, tc.want)
			}
			if errors.Is(err, cause) {
				t.Error("the driver's own error can be had from the error")
			}
			if tc.kind != nil && !errors.Is(err, tc.kind) {
				t.Errorf("the error is no %v", tc.kind)
			}
		})
	}
}
