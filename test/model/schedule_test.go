package model

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing/synctest"
	"time"
)

// step is one thing that somebody does. N chooses among whatever there is to choose from at that moment.
type step struct {
	kind string
	n    int
}

func (s step) String() string { return fmt.Sprintf("%s:%d", s.kind, s.n) }

// schedule is a list of steps in their order.
type schedule []step

func (s schedule) String() string {
	words := make([]string, 0, len(s))
	for _, step := range s {
		words = append(words, step.String())
	}
	return strings.Join(words, " ")
}

// parse reads what String writes.
func parse(text string) (schedule, error) {
	var out schedule
	for word := range strings.FieldsSeq(text) {
		kind, number, _ := strings.Cut(word, ":")
		n, err := strconv.Atoi(number)
		if err != nil || kinds[kind].do == nil {
			return nil, fmt.Errorf("%q is no step", word)
		}
		out = append(out, step{kind, n})
	}
	return out, nil
}

// kind is what a step does, and how often it comes.
type kind struct {
	do func(c *checked, n int)
	// weight is how often it comes among the disturbances; 0 for actors, which have their turn in every round.
	weight int
}

// kinds are all steps. It is filled by init, because settling takes steps itself.
var kinds map[string]kind

func init() {
	kinds = map[string]kind{
		"reconcile":   {do: func(c *checked, _ int) { c.reconcile() }},
		"watches":     {do: func(c *checked, _ int) { c.operator.seen.follow(c.now, -1) }},
		"watch":       {do: func(c *checked, n int) { c.operator.seen.follow(c.now, n) }},
		"task":        {do: func(c *checked, n int) { c.operator.tasks.run(n) }},
		"daemonsets":  {do: func(c *checked, _ int) { c.workloads.daemonSets() }},
		"deployments": {do: func(c *checked, _ int) { c.workloads.deployments() }},
		"kubelet":     {do: onNode(func(s *site, n *node) { s.kubelets.run(n) })},
		"clock":       {do: func(c *checked, n int) { c.pass(clockSteps[n%len(clockSteps)]) }},

		"join":     {weight: 3, do: onSite((*site).joinOne)},
		"create":   {weight: 2, do: byUser((*user).create)},
		"delete":   {weight: 2, do: byUser((*user).remove)},
		"pool":     {weight: 6, do: byUser((*user).togglePool)},
		"selector": {weight: 2, do: byUser((*user).toggleSelector)},
		"label":    {weight: 5, do: byUser((*user).toggleLabel)},
		"suspend":  {weight: 3, do: byUser((*user).toggleSuspend)},
		"answer":   {weight: 10, do: byUser((*user).answer)},
		"late":     {weight: 4, do: byUser((*user).lateAnswer)},
		"dirty":    {weight: 3, do: onNode((*site).dirty)},
		"refuse":   {weight: 3, do: byUser((*user).refuse)},
		"lose":     {weight: 3, do: onSite((*site).loseObject)},
		"upgrade":  {weight: 4, do: byUser((*user).upgrade)},
		"change":   {weight: 5, do: byUser((*user).change)},
		"memory":   {weight: 3, do: byUser((*user).memory)},
		"minready": {weight: 3, do: byUser((*user).changeMinReady)},
		"volume":   {weight: 5, do: byUser((*user).addVolume)},
		"unvolume": {weight: 2, do: byUser((*user).removeVolume)},
		"snapshot": {weight: 4, do: byUser((*user).toggleSnapshot)},

		"kill":    {weight: 3, do: onNode((*site).kill)},
		"revive":  {weight: 5, do: onNode((*site).revive)},
		"reboot":  {weight: 2, do: onNode((*site).reboot)},
		"unjoin":  {weight: 1, do: onNode((*site).unjoin)},
		"rejoin":  {weight: 2, do: onNode((*site).join)},
		"recycle": {weight: 2, do: onNode((*site).recycle)},
		"rename":  {weight: 2, do: onNode((*site).rename)},
		"break":   {weight: 3, do: onKubelets((*kubelets).breakContainer)},
		"mend":    {weight: 3, do: onKubelets((*kubelets).mendContainer)},
		"swap":    {weight: 5, do: onSite((*site).swap)},
		"putback": {weight: 4, do: onSite((*site).putBack)},
		"linstor": {weight: 3, do: onKubelets((*kubelets).killController)},

		"restart":     {weight: 6, do: func(c *checked, _ int) { c.restart() }},
		"kube-fault":  {weight: 8, do: func(c *checked, n int) { c.faults.kube = kubeFaults[n%len(kubeFaults)] }},
		"read-fault":  {weight: 5, do: func(c *checked, n int) { c.faults.get = linstorFaults[n%len(linstorFaults)] }},
		"write-fault": {weight: 8, do: func(c *checked, n int) { c.faults.put = linstorFaults[n%len(linstorFaults)] }},
		"silence":     {weight: 6, do: func(c *checked, n int) { c.faults.put = silences[n%len(silences)] }},
		"let-it-rest": {weight: 2, do: func(c *checked, _ int) { c.rest() }},
	}
}

func onSite(f func(*site, int)) func(*checked, int) { return func(c *checked, n int) { f(c.site, n) } }

func byUser(f func(*user, int)) func(*checked, int) { return func(c *checked, n int) { f(c.user, n) } }

func onKubelets(f func(*kubelets, int)) func(*checked, int) {
	return func(c *checked, n int) { f(c.kubelets, n) }
}

func onNode(f func(*site, *node)) func(*checked, int) {
	return func(c *checked, n int) {
		if len(c.nodes) > 0 {
			f(c.site, c.nodes[n%len(c.nodes)])
		}
	}
}

// clockSteps are what the clock advances by.
var clockSteps = []time.Duration{time.Second, 2 * time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second,
	20 * time.Second, time.Minute, 5 * time.Minute}

// pass lets time pass.
func (c *checked) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// generate makes a schedule. A third of them begin with a cluster at rest; the others with nothing.
func generate(r *rand.Rand) schedule {
	nodes := 1 + r.IntN(4)
	var out schedule
	for range nodes {
		out = append(out, step{"join", 0})
	}
	out = append(out, step{"create", r.IntN(1 << 12)})
	if r.IntN(3) == 0 {
		out = append(out, step{"let-it-rest", 0})
	}
	for range 5 + r.IntN(25) {
		out = append(out, round(r, nodes)...)
	}
	return out
}

// round gives every actor a turn, in shuffled order: three in ten are left out, three in ten have two turns. Up to two
// disturbances come in between.
func round(r *rand.Rand, nodes int) schedule {
	turns := []string{"reconcile", "watches", "watch", "watch", "watch", "task", "task", "daemonsets", "deployments",
		"clock"}
	for range nodes {
		turns = append(turns, "kubelet")
	}
	var out schedule
	for _, kind := range turns {
		times := 1
		switch chance := r.IntN(10); {
		case chance < 3:
			times = 0
		case chance < 6:
			times = 2
		}
		for range times {
			out = append(out, step{kind, r.IntN(1000)})
		}
	}
	for range r.IntN(3) {
		out = append(out, step{disturbances[r.IntN(len(disturbances))], r.IntN(1 << 12)})
	}
	r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// disturbances are the kinds with a weight, each as often as that.
var disturbances []string

func init() {
	for name, k := range kinds {
		for range k.weight {
			disturbances = append(disturbances, name)
		}
	}
	slices.Sort(disturbances)
}
