package sqlstub_test

import (
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/test/sqlstub"
)

// TestAClientThatGoesAway is one that was killed: what it has not said is no fault of the stub.
func TestAClientThatGoesAway(t *testing.T) {
	for _, said := range []string{"", "half"} {
		seen := make(chan struct{})
		port := sqlstub.Serve(t, func(conn net.Conn) error {
			defer close(seen)
			_, err := io.ReadFull(conn, make([]byte, 8))
			return err
		})
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, said); err != nil {
			t.Fatal(err)
		}
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
		<-seen
	}
}
