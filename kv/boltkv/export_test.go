package boltkv

import bolt "go.etcd.io/bbolt"

// EngineOptions returns the bbolt options of a new store, for baselines.
func EngineOptions() *bolt.Options { return engineOptions(mapHeadroom(0)) }

// Grow lets the file of a baseline grow in the steps of a store.
func Grow(db *bolt.DB, tx *bolt.Tx) {
	db.AllocSize, db.NoFreelistSync = growthStep(tx.Size()), tx.Size() <= smallFile
}
