// Package csidriver is a CSI driver for tests. It bears the name of LINSTOR's driver and sends LINSTOR the requests
// that linstor-csi 1.11.2 sends, in the same order, so that a simulated LINSTOR has to be true to what a real driver
// relies on: see the methods' comments for the sequences. Kubernetes' own sidecars, and csi-sanity, call it through a
// socket.
//
// It keeps nothing: LINSTOR's objects are all that it knows. What it does on a node goes through [Host], since tests
// mount nothing. It leaves out volumes that are written from several nodes at a time, consistency groups, encryption,
// and snapshots outside of the cluster; asking for those is an error.
package csidriver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/LINBIT/golinstor/cache"
	"github.com/LINBIT/golinstor/client"
	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	// Name is the driver's name in Kubernetes.
	Name = "linstor.csi.linbit.com"
	// HostnameTopology is the topology key that each node has, with its own name.
	HostnameTopology = "linbit.com/hostname"

	// Version is the driver's.
	Version = "0.0.0-test"
)

// Options of a driver. Endpoint is required.
type Options struct {
	// Endpoint is LINSTOR's URL.
	Endpoint string
	// Transport carries the requests there. Default: Go's own.
	Transport http.RoundTripper
	// Node is the name in LINSTOR of the node that the driver runs on. "" where only the controller's calls come.
	Node string
	// Host is the machine of that node.
	Host Host
	// PropertyNamespace is the prefix of the properties of LINSTOR's nodes that become topology keys. Default:
	// Aux/topology.
	PropertyNamespace string
	// NodeCache and ResourceCache are how long the driver believes what it has read of nodes and pools, and of resources
	// and snapshots. Defaults: one minute and 30 seconds, which are the real driver's.
	NodeCache, ResourceCache time.Duration
	// Log receives each call that failed; nil discards it.
	Log io.Writer
}

// Driver answers CSI calls.
type Driver struct {
	opts    Options
	linstor *client.Client
}

// The driver's services.
type (
	identity struct {
		csi.UnimplementedIdentityServer
		*Driver
	}
	controller struct {
		csi.UnimplementedControllerServer
		*Driver
	}
	node struct {
		csi.UnimplementedNodeServer
		*Driver
	}
)

// Controller is what makes volumes and attaches them.
func (d *Driver) Controller() csi.ControllerServer { return controller{Driver: d} }

// Node is what mounts volumes on the driver's node.
func (d *Driver) Node() csi.NodeServer { return node{Driver: d} }

// New is a driver that does not serve yet.
func New(o Options) (*Driver, error) {
	endpoint, err := url.Parse(o.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("read LINSTOR's endpoint: %w", err)
	}
	if o.PropertyNamespace == "" {
		o.PropertyNamespace = "Aux/topology"
	}
	if o.NodeCache == 0 {
		o.NodeCache = time.Minute
	}
	if o.ResourceCache == 0 {
		o.ResourceCache = 30 * time.Second
	}
	if o.Log == nil {
		o.Log = io.Discard
	}
	if o.Transport == nil {
		o.Transport = http.DefaultTransport
	}
	linstor, err := client.NewClient(client.BaseURL(endpoint), client.HTTPClient(&http.Client{Transport: o.Transport}),
		client.Log(nil), cache.WithCaches(
			&cache.NodeCache{Timeout: o.NodeCache}, &cache.ResourceCache{Timeout: o.ResourceCache}))
	if err != nil {
		return nil, fmt.Errorf("make LINSTOR's client: %w", err)
	}
	return &Driver{opts: o, linstor: linstor}, nil
}

// Server is a driver that serves on a socket.
type Server struct {
	grpc  *grpc.Server
	ended chan struct{}
}

// Serve answers calls on a unix socket until Stop. A stale socket is removed first.
func (d *Driver) Serve(socket string) (*Server, error) {
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove the stale socket: %w", err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("listen for CSI calls: %w", err)
	}
	s := &Server{grpc: grpc.NewServer(grpc.UnaryInterceptor(d.logged)), ended: make(chan struct{})}
	csi.RegisterIdentityServer(s.grpc, identity{Driver: d})
	csi.RegisterControllerServer(s.grpc, d.Controller())
	csi.RegisterNodeServer(s.grpc, d.Node())
	go func() {
		defer close(s.ended)
		_ = s.grpc.Serve(listener)
	}()
	return s, nil
}

// Stop breaks off the calls that run, and returns when the driver does not serve any more.
func (s *Server) Stop() {
	s.grpc.Stop()
	<-s.ended
}

// Done is closed when the driver does not serve any more.
func (s *Server) Done() <-chan struct{} { return s.ended }

func (d *Driver) logged(ctx context.Context, request any, call *grpc.UnaryServerInfo,
	handle grpc.UnaryHandler) (any, error) {
	answer, err := handle(ctx, request)
	if err == nil {
		return answer, nil
	}
	if _, ok := status.FromError(err); !ok {
		err = status.Error(codes.Internal, err.Error())
	}
	fmt.Fprintf(d.opts.Log, "csi driver %s: %s: %v\n", d.opts.Node, call.FullMethod, err)
	return nil, err
}

// GetPluginInfo implements csi.IdentityServer.
func (d identity) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: Name, VendorVersion: Version}, nil
}

// GetPluginCapabilities implements csi.IdentityServer.
func (d identity) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (
	*csi.GetPluginCapabilitiesResponse, error) {
	var out csi.GetPluginCapabilitiesResponse
	for _, s := range []csi.PluginCapability_Service_Type{
		csi.PluginCapability_Service_CONTROLLER_SERVICE,
		csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS,
	} {
		out.Capabilities = append(out.Capabilities, &csi.PluginCapability{Type: &csi.PluginCapability_Service_{
			Service: &csi.PluginCapability_Service{Type: s}}})
	}
	out.Capabilities = append(out.Capabilities, &csi.PluginCapability{Type: &csi.PluginCapability_VolumeExpansion_{
		VolumeExpansion: &csi.PluginCapability_VolumeExpansion{Type: csi.PluginCapability_VolumeExpansion_ONLINE}}})
	return &out, nil
}

// Probe implements csi.IdentityServer. The real driver does not ask LINSTOR here: an outage of LINSTOR must not
// restart the driver.
func (d identity) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{Ready: wrapperspb.Bool(true)}, nil
}

// notFound reports whether LINSTOR does not know what a request was about.
func notFound(err error) bool { return errors.Is(err, client.NotFoundError) }

// invalid is the error of a request that can never succeed.
func invalid(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, format, args...)
}

// required is the error of a request that lacks something; nil if none of the texts is empty. They come in pairs: what
// the text is, and the text.
func required(pairs ...string) error {
	for i := 0; i+1 < len(pairs); i += 2 {
		if strings.TrimSpace(pairs[i+1]) == "" {
			return invalid("the request lacks the %s", pairs[i])
		}
	}
	return nil
}
