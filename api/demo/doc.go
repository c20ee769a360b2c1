// Package demo is "onced demo": a shop whose checkout is a saga of four steps at four
// services, and the real onced that runs it, on one machine, with switches that break
// each of them, and a proof that of every order all four steps stand once, or none.
//
// # The parts
//
//	the shop       keeps orders; its code is naive: it posts, and asks again
//	the services   points, vouchers, a payment gateway, orders: package callee; each
//	               keeps a ledger of its own, outside of onced
//	onced          a child process, the same program with an ordinary configuration and
//	               one definition of a file: loyalty, voucher, charge, order
//	the parent     owns the port, the switches and the proof; restarts the child, and
//	               forwards the gateway's callbacks to it, wherever it is
//
// Gateway and voucher service ignore idempotency keys, so each call that reaches them
// has its effect, also when its answer comes after the time-out of onced. What keeps it
// to one is onced alone. A service may do what it was asked up to [callee.BookBy]
// later; onced is told to trust a look-up that finds nothing after
// [callee.SettlesAfter].
//
// # What is guaranteed
//
//   - The proof is made of the four ledgers and of what the shop told its customers,
//     order by order; see package proof. onced is not asked. The last proof of a run is
//     made of the files of the ledgers.
//   - "crash" ends the child with SIGKILL at a named point, once for each arming: around
//     the calls of each step and of undos, around callbacks, before the first commit of
//     an order and after its last. Without onced it cuts off a call of the shop instead.
//   - Nothing is listened to but loopback; nothing is left behind but the data
//     folder. The child ends with the parent, however that ends: its stdin is
//     closed then.
//   - [Run] with orders ends within Config.Limit and about ten seconds more.
//
// # What is not
//
// With the same seed the same calls meet the same faults. In which order they
// come is up to the machine. A machine that stands still for more than
// SettlesAfter minus BookBy between onced's send and a service's receipt breaks the
// promise that the services make, and so may break the proof. An order whose run waits
// for a person is no proof: it is listed with the reason.
//
// # What survives a crash
//
// Ledgers and orders: they are files of lines, on the disk before an answer leaves.
// Each kind of demo (with orders or without, protected or not) has its own and goes on
// with them; but a run with orders begins anew. The stories told on the page are kept
// in memory. The services keep their port, as far as it is free: runs that go on know
// them by it.
//
// # What the caller must do
//
// Run the command of Config.Service in a way that it calls [NewChild].
package demo
