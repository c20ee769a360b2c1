// Package demo is "onced demo": a shop, a payment gateway and the real service
// on one machine, with switches that break each of them, and a proof that every
// order was charged once all the same.
//
// # The parts
//
//	the shop       keeps orders; its code is naive: it posts, and posts again
//	the gateway    charges; keeps a ledger of its own, outside of the service
//	the service    a child process, the same program with two proxied routes:
//	               shop -> /charges -> gateway, and gateway -> /callbacks -> shop
//	the parent     owns the port, the switches and the proof; restarts the child
//
// The gateway ignores idempotency keys, so each POST that reaches it charges,
// also when its answer comes after the time-out of the service. What keeps it to
// one charge is the service alone. It may book up to [BookBy] after it was asked;
// the service is told to trust a look-up that finds nothing after [SettlesAfter].
//
// # What is guaranteed
//
//   - The proof is made of the gateway's ledger and the shop's orders, order by
//     order: number, amount and id of the charges, declines, and how often callbacks
//     took effect. The service is not asked. The last proof of a run is made of the
//     file of the ledger.
//   - "crash" ends the child with SIGKILL at a named point, once for each arming.
//     Without the service it cuts off a call of the shop instead.
//   - Nothing is listened to but loopback; nothing is left behind but the data
//     folder. The child ends with the parent, however that ends: its stdin is
//     closed then.
//   - [Run] with orders ends within Config.Limit and about ten seconds more.
//
// # What is not
//
// With the same seed the same calls meet the same faults. In which order they
// come is up to the machine. A machine that stands still for more than
// SettlesAfter minus BookBy between the service's send and the gateway's receipt
// breaks the promise that the gateway makes, and so may break the proof.
//
// # What survives a crash
//
// Ledger and orders: both are files of lines, on the disk before an answer
// leaves. Each kind of demo (with orders or without, protected or not) has its own
// and goes on with them; but a run with orders begins anew. The stories told on the
// page are kept in memory.
//
// # What the caller must do
//
// Run the command of Config.Service in a way that it calls [NewChild].
package demo
