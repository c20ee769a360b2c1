package boltkv

import bolt "go.etcd.io/bbolt"

// EngineOptions returns the bbolt options of a new store, for baselines.
func EngineOptions() *bolt.Options { return engineOptions(mapHeadroom(0)) }
