package listing

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/limit"
)

// Port is where the listing of a node is served.
const Port = 9421

// Fresh is how old a listing may be that is served: volumes change, and whoever compares a backup with an older one
// would find no difference that came since.
const Fresh = 15 * time.Minute

const (
	bearer = "Bearer "
	// slowest bounds how long the transfer of a listing may take, which takes a second if there are thousands of volumes.
	slowest = time.Minute
	// connects bounds how long its beginning may take: a network that drops packets says nothing.
	connects = 10 * time.Second
)

// Serve serves the listing in a file until ctx ends, to whoever gives the token. That tells comparisons apart, so that
// none takes an earlier one's listing; it keeps no secret. It closes l.
func Serve(ctx context.Context, l net.Listener, file, token string) error {
	server := &http.Server{Handler: handler(file, token), ReadHeaderTimeout: slowest, WriteTimeout: slowest}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func handler(file, token string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		said, _ := strings.CutPrefix(r.Header.Get("Authorization"), bearer)
		if subtle.ConstantTimeCompare([]byte(said), []byte(token)) == 0 {
			http.Error(w, "this listing belongs to a different comparison", http.StatusUnauthorized)
			return
		}
		made, err := os.Stat(file)
		if err != nil || time.Since(made.ModTime()) > Fresh {
			http.Error(w, "no up-to-date listing exists", http.StatusGone)
			return
		}
		http.ServeFile(w, r, file)
	})
}

// Get gets the listing that is served at an address, as far as there is room.
func Get(ctx context.Context, address, token string, room *limit.Budget) (*Listing, error) {
	ctx, cancel := context.WithTimeout(ctx, slowest)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/", nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", bearer+token)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: (&net.Dialer{Timeout: connects}).DialContext}}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s responded with %s", address, response.Status)
	}
	return Parse(response.Body, room)
}
