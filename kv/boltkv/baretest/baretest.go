// Package baretest is bbolt with nothing around it but the simplest writer that
// commits in groups: the ceiling that a service is measured against.
//
// # What is guaranteed
//
// Put returns after its row is on the disk. It reads nothing, checks nothing and
// keeps no index, so whatever does more can only be slower.
//
// # What is not
//
// Anything else. After an error of the engine it goes on.
//
// # What survives a crash
//
// Every row whose Put has returned nil.
//
// # What the caller must do
//
// Use it in tests and benchmarks only, and Close it after the last Put.
package baretest

import (
	bolt "go.etcd.io/bbolt"
)

// maxGroup bounds the rows of one commit.
const maxGroup = 1024

var bucket = []byte("b")

// Group writes rows to a bbolt file. Put is safe for concurrent use.
type Group struct {
	db    *bolt.DB
	queue chan put
	ended chan struct{}
}

type put struct {
	key, value []byte
	done       chan error
}

// Open makes the file at path.
func Open(path string) (*Group, error) {
	db, err := bolt.Open(path, 0o600, &bolt.Options{FreelistType: bolt.FreelistMapType})
	if err != nil {
		return nil, err
	}
	err = db.Update(func(tx *bolt.Tx) error { _, err := tx.CreateBucketIfNotExists(bucket); return err })
	if err != nil {
		_ = db.Close()
		return nil, err
	}
	g := &Group{db: db, queue: make(chan put, 4*maxGroup), ended: make(chan struct{})}
	go g.run()
	return g, nil
}

// Put stores a row. The key and the value must not be changed any more.
func (g *Group) Put(key, value []byte) error {
	done := make(chan error, 1)
	g.queue <- put{key, value, done}
	return <-done
}

// Close closes the file.
func (g *Group) Close() error {
	close(g.queue)
	<-g.ended
	return g.db.Close()
}

// run commits whatever waits, and then what has come meanwhile.
func (g *Group) run() {
	defer close(g.ended)
	for first := range g.queue {
		puts := []put{first}
	more:
		for len(puts) < maxGroup {
			select {
			case p, ok := <-g.queue:
				if !ok {
					break more
				}
				puts = append(puts, p)
			default:
				break more
			}
		}
		err := g.db.Update(func(tx *bolt.Tx) error {
			b := tx.Bucket(bucket)
			for _, p := range puts {
				if err := b.Put(p.key, p.value); err != nil {
					return err
				}
			}
			return nil
		})
		for _, p := range puts {
			p.done <- err
		}
	}
}
