// Package argocd runs what deploy/argocd gives to Argo CD, as Argo CD runs it: by gopher-lua, with the few libraries
// that it opens for scripts of its users (util/lua/lua.go of Argo CD 3).
package argocd

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	lua "github.com/yuin/gopher-lua"
	"sigs.k8s.io/yaml"
)

const (
	kind    = "storage.linstor.dev_StorageCluster"
	health  = "resource.customizations.health." + kind
	actions = "resource.customizations.actions." + kind
)

// Scripts are those of a ConfigMap for Argo CD.
type Scripts struct {
	health, discovery string
	actions           map[string]string
}

// Read reads a ConfigMap, or a patch of one. It must have both keys.
func Read(file string) (*Scripts, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var configMap struct {
		Data map[string]string `json:"data"`
	}
	if err := yaml.UnmarshalStrict(text, &configMap); err != nil {
		return nil, err
	}
	var own struct {
		Discovery   string `json:"discovery.lua"`
		Definitions []struct {
			Name   string `json:"name"`
			Action string `json:"action.lua"`
		} `json:"definitions"`
	}
	if err := yaml.UnmarshalStrict([]byte(configMap.Data[actions]), &own); err != nil {
		return nil, fmt.Errorf("%s: %w", actions, err)
	}
	s := &Scripts{health: configMap.Data[health], discovery: own.Discovery, actions: map[string]string{}}
	for _, d := range own.Definitions {
		s.actions[d.Name] = d.Action
	}
	if s.health == "" || s.discovery == "" || len(s.actions) != len(own.Definitions) || len(s.actions) == 0 {
		return nil, errors.New("no health check, or no actions, or two of one name")
	}
	return s, nil
}

// Health is a health status of Argo CD, such as Healthy, and what it says with it.
func (s *Scripts) Health(object any) (status, message string, err error) {
	var out struct{ Status, Message string }
	err = run(s.health, object, &out)
	return out.Status, out.Message, err
}

// Actions are those that Argo CD offers for an object; false for one that it shows as not possible.
func (s *Scripts) Actions(object any) (map[string]bool, error) {
	var found map[string]struct{ Disabled bool }
	if err := run(s.discovery, object, &found); err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for name, a := range found {
		if _, defined := s.actions[name]; !defined {
			return nil, fmt.Errorf("action %s is not defined", name)
		}
		out[name] = !a.Disabled
	}
	return out, nil
}

// Act is what an action makes of an object.
func (s *Scripts) Act(name string, object any) (map[string]any, error) {
	var out map[string]any
	err := run(s.actions[name], object, &out)
	return out, err
}

// run runs a script with an object, and reads what it returns.
func run(script string, object, out any) error {
	text, err := json.Marshal(object)
	if err != nil {
		return err
	}
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return err
	}
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for _, library := range []struct {
		name string
		open lua.LGFunction
	}{{lua.LoadLibName, lua.OpenPackage}, {lua.BaseLibName, lua.OpenBase}, {lua.TabLibName, lua.OpenTable}} {
		state.Push(state.NewFunction(library.open))
		state.Push(lua.LString(library.name))
		if err := state.PCall(1, 0, nil); err != nil {
			return err
		}
	}
	state.PreloadModule("os", safeOS)
	state.SetGlobal("obj", toLua(state, value))
	if err := state.DoString(script); err != nil {
		return err
	}
	if text, err = json.Marshal(fromLua(state.Get(-1))); err != nil {
		return err
	}
	return json.Unmarshal(text, out)
}

// safeOS has of the library os what Argo CD has of it, and these scripts use.
func safeOS(state *lua.LState) int {
	state.Push(state.SetFuncs(state.NewTable(), map[string]lua.LGFunction{"time": func(state *lua.LState) int {
		state.Push(lua.LNumber(time.Now().Unix()))
		return 1
	}}))
	return 1
}

func toLua(state *lua.LState, value any) lua.LValue {
	switch v := value.(type) {
	case bool:
		return lua.LBool(v)
	case float64:
		return lua.LNumber(v)
	case string:
		return lua.LString(v)
	case []any:
		t := state.NewTable()
		for _, e := range v {
			t.Append(toLua(state, e))
		}
		return t
	case map[string]any:
		t := state.NewTable()
		for k, e := range v {
			t.RawSetString(k, toLua(state, e))
		}
		return t
	}
	return lua.LNil
}

func fromLua(value lua.LValue) any {
	switch v := value.(type) {
	case lua.LBool:
		return bool(v)
	case lua.LNumber:
		return float64(v)
	case lua.LString:
		return string(v)
	case *lua.LTable:
		if v.Len() > 0 {
			list := make([]any, 0, v.Len())
			v.ForEach(func(_, e lua.LValue) { list = append(list, fromLua(e)) })
			return list
		}
		object := map[string]any{}
		v.ForEach(func(k, e lua.LValue) { object[k.String()] = fromLua(e) })
		return object
	}
	return nil
}
