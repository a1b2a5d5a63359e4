package api_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/api"
)

// silent is the URL of a server that accepts connections and never says a word, as a stopped member does.
func silent(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		var all []net.Conn
		for {
			c, err := l.Accept()
			if err != nil {
				break
			}
			all = append(all, c)
		}
		for _, c := range all {
			_ = c.Close()
		}
	}()
	return "http://" + l.Addr().String()
}

// TestDeadlines: no call outlives its deadline, whoever does not answer.
func TestDeadlines(t *testing.T) {
	const short = 50 * time.Millisecond
	c := api.New(nil, api.Deadlines{Answer: short, Change: short, Long: short})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + l.Addr().String()
	_ = l.Close()
	for name, url := range map[string]string{"silent": silent(t), "nobody": nobody} {
		for call, do := range map[string]func(context.Context) error{
			"Look": func(ctx context.Context) error { return c.Look(ctx, url).Err },
			"Alarms": func(ctx context.Context) error {
				_, err := c.Alarms(ctx, url)
				return err
			},
			"AddLearner": func(ctx context.Context) error { return c.AddLearner(ctx, url, "http://127.0.0.1:1") },
			"Promote":    func(ctx context.Context) error { return c.Promote(ctx, url, 1) },
			"Remove":     func(ctx context.Context) error { return c.Remove(ctx, url, 1) },
			"Update":     func(ctx context.Context) error { return c.Update(ctx, url, 1, "http://127.0.0.1:1") },
			"MoveLeader": func(ctx context.Context) error { return c.MoveLeader(ctx, url, 1) },
			"Compact":    func(ctx context.Context) error { return c.Compact(ctx, url, 1) },
			"Defragment": func(ctx context.Context) error { return c.Defragment(ctx, url) },
			"Disarm":     func(ctx context.Context) error { return c.Disarm(ctx, url, 1) },
		} {
			t.Run(name+"/"+call, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // only to fail instead of hanging
				defer cancel()
				if err := do(ctx); err == nil {
					t.Error("somebody has answered")
				}
				if ctx.Err() != nil {
					t.Error("the call has no deadline of its own")
				}
			})
		}
	}
}

// TestLookAll: the answers are those of their endpoints.
func TestLookAll(t *testing.T) {
	c := api.New(nil, api.Deadlines{Answer: 50 * time.Millisecond})
	urls := []string{silent(t), silent(t), "http://127.0.0.1:1"}
	answers := api.LookAll(t.Context(), c, urls...).Answers()
	if len(answers) != len(urls) {
		t.Fatalf("%d answers", len(answers))
	}
	for i, a := range answers {
		if a.Endpoint != urls[i] || a.Err == nil {
			t.Errorf("%+v is the answer of %s", a, urls[i])
		}
	}
}
