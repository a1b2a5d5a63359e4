// Package dns answers the names of Services, as a cluster's DNS does: with their addresses, or with those of the ready
// pods behind a headless one.
package dns

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
)

const (
	suffix = ".svc.cluster.local."
	ttl    = 5 // seconds
)

type server struct {
	services corelisters.ServiceLister
	slices   discoverylisters.EndpointSliceLister
}

// Serve answers on UDP port 53 of an address until the context ends. It returns when it listens.
func Serve(ctx context.Context, client kubernetes.Interface, address string) error {
	factory := informers.NewSharedInformerFactory(client, 0)
	s := &server{services: factory.Core().V1().Services().Lister(),
		slices: factory.Discovery().V1().EndpointSlices().Lister()}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	conn, err := (&net.ListenConfig{}).ListenPacket(ctx, "udp4", net.JoinHostPort(address, "53"))
	if err != nil {
		return fmt.Errorf("serve the cluster's DNS: %w", err)
	}
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	go s.serve(conn)
	return nil
}

func (s *server) serve(conn net.PacketConn) {
	buffer := make([]byte, 4096)
	for {
		n, from, err := conn.ReadFrom(buffer)
		if err != nil {
			return
		}
		if answer := s.answer(buffer[:n]); answer != nil {
			_, _ = conn.WriteTo(answer, from)
		}
	}
}

// answer is the answer to a question; nil to what is none.
func (s *server) answer(packet []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(packet) != nil || len(m.Questions) != 1 {
		return nil
	}
	q := m.Questions[0]
	addresses, known := s.addresses(strings.ToLower(q.Name.String()))
	m.Header.Response, m.Header.Authoritative, m.Header.RecursionAvailable = true, true, true
	m.Answers, m.Additionals = nil, nil
	if !known {
		m.Header.RCode = dnsmessage.RCodeNameError
	}
	for _, a := range addresses {
		if q.Type == dnsmessage.TypeA && a.Is4() {
			m.Answers = append(m.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: ttl},
				Body:   &dnsmessage.AResource{A: a.As4()}})
		}
	}
	out, err := m.Pack()
	if err != nil {
		return nil
	}
	return out
}

// addresses are those of a Service's name, and whether there is such a Service.
func (s *server) addresses(full string) ([]netip.Addr, bool) {
	name, namespace, ok := strings.Cut(strings.TrimSuffix(full, suffix), ".")
	if !ok || !strings.HasSuffix(full, suffix) {
		return nil, false
	}
	service, err := s.services.Services(namespace).Get(name)
	if err != nil {
		return nil, false
	}
	if service.Spec.ClusterIP != corev1.ClusterIPNone {
		return parse(service.Spec.ClusterIP), true
	}
	selector := labels.Set{discoveryv1.LabelServiceName: name}.AsSelector()
	behind, err := s.slices.EndpointSlices(namespace).List(selector)
	if err != nil {
		return nil, true
	}
	var out []netip.Addr
	for _, slice := range behind {
		for i := range slice.Endpoints {
			if ready := slice.Endpoints[i].Conditions.Ready; ready == nil || *ready || service.Spec.PublishNotReadyAddresses {
				out = append(out, parse(slice.Endpoints[i].Addresses...)...)
			}
		}
	}
	return out, true
}

func parse(texts ...string) (out []netip.Addr) {
	for _, t := range texts {
		if a, err := netip.ParseAddr(t); err == nil {
			out = append(out, a)
		}
	}
	return out
}
