// Package egress is the outbound HTTP client for requests that others describe:
// calls of saga steps, pushes, look-ups at providers. It sends a request, says
// what is known when there is no answer, and keeps requests that come from the API
// away from what is not public.
//
//	client, err := egress.New(egress.Config{Allow: []string{"10.1.0.0/16", "shop.internal:8443"}})
//	resp, err := client.Send(req, egress.How{Trust: egress.Guarded})
//
// # Trust
//
// A [Trusted] request may go anywhere; its host comes from a file that the operator
// wrote. A [Guarded] one goes to public addresses and to Config.Allow only. The
// address is looked at when the socket is opened, each time and for each address
// of a name: what a name resolved to before, odd spellings of addresses and names
// that change between two look-ups do not matter. Never allowed by a name, only by
// address or network, are link-local addresses and those of cloud metadata.
// Connections of trusted and guarded requests are never shared.
//
// # Sending once
//
// Requests go over HTTP/1.1, by package sendonce: each is written to one connection.
// A connection that was kept may break just as it is used, and whether the callee has
// the request is then unknown. So:
//
//   - How.Resend allows to send it again, once, over a connection of its own. The callee
//     gets the same request with the same key, and there is no third time.
//   - Without it a request is sent again only while no byte of it was handed to any
//     connection, whatever its method.
//   - How.Fresh gives any request a connection of its own. A callee that closes a
//     kept connection just as it is used leaves an outcome that nobody can tell;
//     this is for callees where nothing can settle it.
//
// # What is guaranteed
//
//   - An [Error] whose Sent is false proves that the callee did not get the request:
//     the name did not resolve, the address was refused here or there, TLS failed,
//     our certificate was not accepted. From then on nothing of it will be sent. With
//     TLS 1.3 the last is the callee's word: one that asks for our certificate looks at
//     it before it reads, unless it is broken.
//   - Redirects are not followed; they are the answer. There is no proxy from the
//     environment, no cookie, and no decompression.
//   - TLS is verified, at least version 1.2, with the system's authorities and
//     Config.RootCAs.
//   - The header of an answer is bounded by Config.MaxHeader, and [ReadBody] bounds
//     the body. Nothing waits longer than the request's context allows.
//   - The text of an Error holds the host and what failed; no header, no path, no
//     query and no byte of the answer.
//
// # What is not
//
//   - A time limit: give the request's context one.
//   - Sent true does not mean that the callee has the request, only that it may.
//   - A host that is reached through a proxy or a NAT of your own network is judged
//     by the address that is dialled here.
//   - The client certificate is offered to every callee of trusted requests that asks
//     for one.
//
// # What survives a crash
//
// Nothing is kept.
//
// # What the caller must do
//
// Close the body of every answer. Keep one Client per configuration: it holds the
// idle connections. After a change make a new one and Close the old.
package egress
