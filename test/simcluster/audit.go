package simcluster

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// AuditEvent is one finished API request.
type AuditEvent struct {
	Time time.Time // when the request arrived
	Verb string    // get, list, watch, create, update, patch, delete, deletecollection
	User string
	// UserAgent starts with the program's name; the simulated kubelets and the test's own clients share one.
	UserAgent        string
	Group, Resource  string // "" for requests that are not about a resource
	Subresource      string
	Namespace, Name  string
	Code             int // HTTP status
	RequestURI       string
	Annotations      map[string]string // authorization.k8s.io/decision and others
	ImpersonatedUser string            // "" unless User acted as somebody else
	Duration         time.Duration
}

// Mutating reports whether the request changes objects: reviews and token requests, which only ask, do not.
func (e AuditEvent) Mutating() bool {
	switch e.Group {
	case "authentication.k8s.io", "authorization.k8s.io":
		return false
	}
	switch e.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return e.Subresource != "token"
	}
	return false
}

// Allowed reports whether the authorizers let the request pass.
func (e AuditEvent) Allowed() bool { return e.Annotations["authorization.k8s.io/decision"] == "allow" }

// auditLine is what is read of audit.k8s.io/v1 Event.
type auditLine struct {
	Verb       string
	RequestURI string
	UserAgent  string
	User       struct{ Username string }
	// ImpersonatedUser is absent unless the request used impersonation.
	ImpersonatedUser *struct{ Username string }
	ObjectRef        struct{ Resource, Namespace, Name, APIGroup, Subresource string }
	ResponseStatus   struct{ Code int }
	// RequestReceivedTimestamp and StageTimestamp have microseconds.
	RequestReceivedTimestamp, StageTimestamp time.Time
	Annotations                              map[string]string
}

// AuditEvents reads the audit log, which Options.AuditLog makes: all requests that were finished by now, in the order
// in which they finished. Watches are in it when they end.
func (c *Cluster) AuditEvents() ([]AuditEvent, error) {
	if !c.opts.AuditLog {
		return nil, errors.New("read the audit log: Options.AuditLog is off")
	}
	file, err := os.Open(c.plane.AuditLogPath())
	if err != nil {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	defer func() { _ = file.Close() }()
	if _, err := file.Seek(c.auditFrom, io.SeekStart); err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	var events []AuditEvent
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return events, nil // what is left is a line that is being written
		}
		if err != nil {
			return nil, fmt.Errorf("read the audit log: %w", err)
		}
		event, err := parseAudit(line)
		if err != nil {
			return nil, err
		}
		events = append(events, event)
	}
}

func parseAudit(line []byte) (AuditEvent, error) {
	var l auditLine
	if err := json.Unmarshal(line, &l); err != nil {
		return AuditEvent{}, fmt.Errorf("read the audit log: %w", err)
	}
	e := AuditEvent{
		Time: l.RequestReceivedTimestamp, Verb: l.Verb, User: l.User.Username, UserAgent: l.UserAgent,
		Group: l.ObjectRef.APIGroup, Resource: l.ObjectRef.Resource, Subresource: l.ObjectRef.Subresource,
		Namespace: l.ObjectRef.Namespace, Name: l.ObjectRef.Name,
		Code: l.ResponseStatus.Code, RequestURI: l.RequestURI, Annotations: l.Annotations,
		Duration: l.StageTimestamp.Sub(l.RequestReceivedTimestamp),
	}
	if l.ImpersonatedUser != nil {
		e.ImpersonatedUser = l.ImpersonatedUser.Username
	}
	return e, nil
}
