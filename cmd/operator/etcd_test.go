package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/datadir"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/guard"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/pods"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
)

// TestTakeMember: the program that starts etcd is there, whole, and so is what it is to start it with.
func TestTakeMember(t *testing.T) {
	dir := t.TempDir()
	p := guard.Paths{Member: "n1-1", Mounted: filepath.Join(dir, "mounted"), Work: dir, Data: filepath.Join(dir, "data"),
		Message: filepath.Join(dir, "message")}
	c := seats.Configuration{Expectation: datadir.Expectation{Name: "n1-1", Token: "t", Mode: datadir.Seed}}
	order, err := json.Marshal(guard.Order{Configuration: c, File: "name: n1-1\n"})
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "guard")
	if err := takeMember(p, program); err == nil {
		t.Error("there is nothing to take")
	}
	if err := os.WriteFile(p.Mounted, order, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := takeMember(p, program); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.Stat(self)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.Stat(program)
	if err != nil || got.Size() != want.Size() || got.Mode().Perm()&0o100 == 0 {
		t.Errorf("%v, %v; want %d bytes that can be run", got, err, want.Size())
	}
	text, err := os.ReadFile(p.Message)
	if r, ok := guard.Parse(string(text)); err != nil || !ok || r.Configuration != c {
		t.Errorf("%q, %v", text, err)
	}
}

// TestSaveEtcd: why there is no snapshot can be read where it is needed.
func TestSaveEtcd(t *testing.T) {
	dir := t.TempDir()
	note := filepath.Join(dir, "note")
	const id = "before-3.7-20261127T231500Z"
	if err := saveEtcd(`{"id":"`+id+`","endpoint":"http://127.0.0.1:1"}`, dir, note); err == nil {
		t.Error("nobody is there, and it was taken")
	}
	text, err := os.ReadFile(note)
	if err != nil {
		t.Fatal(err)
	}
	if taken, ok := pods.Taken(string(text)); !ok || taken.ID != id || taken.Error == "" {
		t.Errorf("%s", text)
	}
	if err := saveEtcd("{", dir, note); err == nil {
		t.Error("a configuration that cannot be read")
	}
	if _, ok := pods.Taken("panic"); ok {
		t.Error("a panic is no report")
	}
}

// TestLookForEtcd: what is found can be read where it is needed.
func TestLookForEtcd(t *testing.T) {
	dir := t.TempDir()
	note := filepath.Join(dir, "note")
	for _, data := range []bool{false, true} {
		if data {
			if err := os.MkdirAll(filepath.Join(dir, "data", "member", "wal"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := lookForEtcd(filepath.Join(dir, "data"), note); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(note)
		if err != nil {
			t.Fatal(err)
		}
		if found, ok := pods.Found(string(text)); !ok || found.Data != data {
			t.Errorf("%s: %+v, want data: %t", text, found, data)
		}
	}
	broken := filepath.Join(dir, "data", "member", "wal", "0.wal") // unreadable: unknown, and no reason to fail
	if err := os.WriteFile(broken, []byte("no log"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := lookForEtcd(filepath.Join(dir, "data"), note); err != nil {
		t.Error(err)
	}
	if _, ok := pods.Found("panic"); ok {
		t.Error("a panic is no finding")
	}
}
