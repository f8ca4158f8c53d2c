package model

import "slices"

// Numbers that are no longer referred to may be reused: names stay few, so that the space of states
// is finite although checks start over.

// use is what a state refers to.
type use struct {
	ids    uint64
	incs   uint16
	epochs uint16
	nonces uint32
}

func (u *use) value(v value) {
	u.ids |= 1 << v.check
	u.incs |= 1 << v.node
}

func (u *use) fence(f fence) {
	u.incs |= 1 << f.node
	u.epochs |= 1 << f.epoch
}

func (u *use) label(l label) {
	u.epochs |= 1 << l.epoch
	u.nonces |= 1 << l.nonce
}

// references returns all references but the names in Redis, which matter only in epochs that
// something refers to.
func (s *state) references() use {
	u := use{ids: 1 << s.approval.used, epochs: 1 | 1<<s.epoch}
	for i := range s.rows {
		u.ids |= 1<<s.rows[i].check | 1<<s.rows[i].of
	}
	for i := range s.txns {
		t := &s.txns[i]
		if !t.present {
			continue
		}
		u.ids |= 1<<t.row.check | 1<<t.row.of
		u.fence(t.fence)
	}
	for i := range s.deferred {
		c := &s.deferred[i]
		if c.kind == noCommand {
			continue
		}
		u.epochs |= 1 << c.epoch
		u.value(c.mine)
		u.value(c.old)
	}
	for i := range s.nodes {
		n := &s.nodes[i]
		u.incs |= 1 << n.inc
		u.epochs |= 1<<n.windows.epoch | 1<<n.renewal.epoch | 1<<n.renewal.next | 1<<n.renewal.seen.epoch | 1<<n.loader.windows.epoch
		u.label(n.view.label)
		u.label(n.load.label)
		u.nonces |= 1 << n.memory
		for _, check := range n.loader.passes {
			u.ids |= 1 << check
		}
		u.value(n.loader.stale)
	}
	u.epochs |= 1<<s.author.found | 1<<s.author.known.epoch
	for i := range s.attempts {
		a := &s.attempts[i]
		u.ids |= 1 << a.answered
		if a.pc == pcUnused || a.pc == pcEnd || a.pc == pcDead {
			continue
		}
		u.ids |= 1<<a.target | 1<<a.txn
		u.fence(a.fence)
		u.label(a.view)
		u.nonces |= 1 << a.read
		u.epochs |= 1 << a.early.epoch
		for _, v := range [...]value{a.heldK, a.heldF, a.fingerprint.value, a.fingerprint.replaced, a.key.value, a.met} {
			u.value(v)
		}
	}
	for i := range s.servers {
		u.epochs |= 1 << s.servers[i].marker.epoch
		u.nonces |= 1 << s.servers[i].generation
	}
	return u
}

func (s *state) uses() use { return s.withNames(s.references()) }

// withNames adds what the names in Redis refer to.
func (s *state) withNames(u use) use {
	for i := range s.servers {
		for e := range maxEpochs {
			if u.epochs&(1<<e) == 0 {
				continue // to be forgotten
			}
			u.value(s.servers[i].k[e])
			for fp := range maxFingerprints {
				u.value(s.servers[i].f[e][fp].value)
			}
		}
	}
	return u
}

// normalize forgets what nothing refers to and sorts what has no order.
func (s *state) normalize() {
	for i := range s.attempts {
		if a := &s.attempts[i]; a.pc == pcEnd || a.pc == pcDead {
			*a = attempt{pc: a.pc, answer: a.answer, answered: a.answered, need: a.need, withdrawn: a.withdrawn, restored: a.restored}
		}
	}
	u := s.references()
	for i := range s.servers {
		for e := 1; e < maxEpochs; e++ {
			if u.epochs&(1<<e) == 0 {
				s.servers[i].k[e], s.servers[i].f[e] = value{}, [maxFingerprints]slot{}
			}
		}
	}
	incs := s.withNames(u).incs >> 1
	for n := range s.fenced {
		s.fenced[n] &= uint8(incs >> (n * incPerNode) & (1<<incPerNode - 1))
	}
	slices.SortFunc(s.rows[:], func(a, b row) int { return int(b.check) - int(a.check) })
	slices.SortFunc(s.txns[:], func(a, b txn) int { return b.order() - a.order() })
	slices.SortFunc(s.deferred[:], func(a, b deferred) int { return b.order() - a.order() })
}

func (c txn) order() int { return int(c.row.check)<<16 | int(c.by)<<8 | int(c.state) }

func (c deferred) order() int {
	return int(c.kind)<<24 | int(c.mine.check)<<16 | int(c.mine.state)<<12 | int(c.node)<<8 | int(c.epoch)
}

// lowest returns the first unused one of n numbers from first on.
func lowest(used uint64, first, n int) (int, bool) {
	for i := first; i < first+n; i++ {
		if used&(1<<i) == 0 {
			return i, true
		}
	}
	return 0, false
}

func (s *state) freshID(check int) (id, bool) {
	i, ok := lowest(s.uses().ids, check*idsPerCheck+1, idsPerCheck)
	return id(i), ok
}

func (s *state) freshIncarnation(process int) (incarnation, bool) {
	i, ok := lowest(uint64(s.uses().incs), process*incPerNode+1, incPerNode)
	return incarnation(i), ok
}

func (s *state) freshEpoch() (epoch, bool) {
	i, ok := lowest(uint64(s.uses().epochs), 1, maxEpochs-1)
	return epoch(i), ok
}

func (s *state) freshNonce() (nonce, bool) {
	i, ok := lowest(uint64(s.uses().nonces), 1, maxNonces-1)
	return nonce(i), ok
}
