package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"path"

	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// registrar is the container that makes a CSI driver known to the kubelet. It can run only there, because the kubelet
// looks for its socket.
const registrar = "csi-node-driver-registrar"

// register does what Kubernetes' node-driver-registrar does, with the same flags. It returns after SIGTERM.
func register(args []string) error {
	flags := flag.NewFlagSet(registrar, flag.ContinueOnError)
	endpoint := flags.String("kubelet-registration-path", "", "")
	health := flags.Int("health-port", 0, "")
	for _, ignored := range []string{"csi-address", "v"} {
		flags.String(ignored, "", "")
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	driver := path.Base(path.Dir(*endpoint))
	socket := "/registration/" + driver + "-reg.sock"
	_ = os.Remove(socket) // of the container's last run
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	registration.RegisterRegistrationServer(server, plugin{driver: driver, endpoint: *endpoint})
	go func() { _ = server.Serve(listener) }()
	go func() {
		_ = http.ListenAndServe(fmt.Sprint(":", *health), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	}()
	waitForStop()
	return os.Remove(socket)
}

// plugin is the CSI driver as the kubelet registers it.
type plugin struct {
	registration.UnimplementedRegistrationServer

	driver, endpoint string
}

func (p plugin) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{Type: registration.CSIPlugin, Name: p.driver, Endpoint: p.endpoint,
		SupportedVersions: []string{"1.0.0"}}, nil
}

func (p plugin) NotifyRegistrationStatus(_ context.Context, s *registration.RegistrationStatus) (
	*registration.RegistrationStatusResponse, error) {
	if !s.PluginRegistered {
		fmt.Fprintln(os.Stderr, "not registered:", s.Error)
		os.Exit(1)
	}
	return &registration.RegistrationStatusResponse{}, nil
}
