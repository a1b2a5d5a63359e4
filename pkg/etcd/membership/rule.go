package membership

import (
	"fmt"
	"slices"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/decisiontable"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/advice"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
)

// rule is a row of the table. It is made by waits, acts or stops only, so that none waits, or tries, without a bound.
type rule struct {
	name, when, then string
	// about are the members of which the row holds, or cluster.
	about subjects
	limit limit
	// do is the step; nil for a wait.
	do func(*situation, *member)
	// end is what happens when the time is over, or at once if there is no limit.
	end outcome
}

// subjects finds the members of which something holds.
type subjects func(*situation) []*member

// limit is a bound, and its name for people.
type limit struct {
	words string
	of    func(*situation, *member) time.Duration
}

var (
	start = limit{"`Start`", func(s *situation, _ *member) time.Duration { return s.Start }}
	down  = limit{"`Down`", func(s *situation, _ *member) time.Duration { return s.Down }}
)

// outcome is a step or a hold.
type outcome struct {
	words string
	do    func(*situation, *member)
	// hold is true if nothing is left to be tried.
	hold bool
}

// waits does nothing until a bound, and then something else.
func waits(name, when string, about subjects, bound limit, then outcome) rule {
	return rule{name: name, when: when, about: about, limit: bound, end: then,
		then: fmt.Sprintf("it waits; after %s: %s", bound.words, then.words)}
}

// acts does a step at each look until it has had its effect. After Start a human is called, and it is tried on.
func acts(name, when string, step Step, words string, about subjects, do func(*situation, *member)) rule {
	return rule{name: name, when: when, about: about, limit: start, end: stuck(words),
		then: fmt.Sprintf("step `%s`: %s", step, words),
		do: func(s *situation, m *member) {
			s.d.Step = step
			do(s, m)
		}}
}

// stops calls a human at once.
func stops(name, when string, about subjects, then outcome) rule {
	return rule{name: name, when: when, about: about, then: then.words, end: then}
}

// row is the rule as a row of a decision table.
func (r rule) row() decisiontable.Row[*situation] {
	return decisiontable.Row[*situation]{Name: r.name, When: r.when, Then: r.then,
		Holds: func(s *situation) bool { return len(r.about(s)) > 0 }, Decide: r.decide}
}

// decide takes the first member for a step, and for a wait the one that waits for the longest time.
func (r rule) decide(s *situation) {
	found := r.about(s)
	m := found[0]
	if r.limit.of == nil {
		r.end.do(s, m)
		s.subject(m)
		return
	}
	until := func(m *member) time.Time { return s.since(r, m).Add(r.limit.of(s, m)) }
	if r.do == nil {
		m = slices.MinFunc(found, func(a, b *member) int { return until(a).Compare(until(b)) })
	}
	s.d.Until = until(m)
	late := s.Now.Sub(s.d.Until)
	switch {
	case r.do != nil:
		r.do(s, m)
	case late < 0:
		s.d.Step = Wait
	default:
		r.end.do(s, m)
		late -= s.Start // a step at the end of a wait has its time, too
	}
	if late >= 0 && s.d.Hold == nil {
		step, until := s.d.Step, s.d.Until
		stuck(r.end.words).do(s, m)
		s.d.Step, s.d.Until = step, until
	}
	s.subject(m)
}

// subject completes a decision with what it says of its member.
func (s *situation) subject(m *member) {
	if s.about != nil {
		m = s.about
	}
	if m != cluster {
		s.d.Seat, s.d.Spot = *m.Seat, seats.Spot{Node: m.Node, UID: m.Site.UID, ConfigVersion: s.ConfigVersion}
	}
}

// holds is an outcome that calls a human; about says what is wrong and what can be done.
func holds(reason Reason, about func(*situation, *member) advice.Advice) outcome {
	return outcome{words: fmt.Sprintf("hold `%s`", reason), hold: true, do: func(s *situation, m *member) {
		s.d.Step, s.d.Until, s.d.Hold = Stop, time.Time{}, &Hold{Reason: reason, Advice: about(s, m)}
	}}
}

// stuck is the hold for a step that has no effect.
func stuck(words string) outcome {
	out := holds(EtcdStuck, func(s *situation, m *member) advice.Advice {
		if s.about != nil {
			m = s.about
		}
		return advice.Stuck(string(s.d.Step), m)
	})
	out.words = words
	return out
}

// whenever is about no member, if something holds.
func whenever(holds func(*situation) bool) subjects {
	return func(s *situation) []*member {
		if holds(s) {
			return []*member{cluster}
		}
		return nil
	}
}

// anyone is about the members of which something holds.
func anyone(holds func(*situation, *member) bool) subjects {
	return func(s *situation) []*member { return s.members.All(func(m *member) bool { return holds(s, m) }) }
}

// chosen is about the member that something chooses, if it does.
func chosen(choose func(*situation) *member) subjects {
	return func(s *situation) []*member {
		if m := choose(s); m != nil {
			return []*member{m}
		}
		return nil
	}
}
